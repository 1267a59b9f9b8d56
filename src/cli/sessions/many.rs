//! Many things done at a time, with a bar on a terminal.

use std::{
    io::IsTerminal,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{cli::args::Global, parallel};

/// So many take no time that anybody notices.
const FEW: usize = 20;

/// What `work` makes of each item, in their order. As many at a time as there are processors.
pub(super) fn each<T: Sync, R: Send>(global: &Global, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let bar = bar(global, items.len());
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
            bar.inc(1);
        }
    };
    let threads = parallel::workers().min(items.len());
    let mut made: Vec<(usize, R)> = thread::scope(|scope| {
        // Where no thread is to be had, fewer do the same work.
        let spawned = (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, take).ok());
        let running: Vec<_> = spawned.collect();
        let own = take();
        let ended = running.into_iter().map(|thread| thread.join());
        let others = ended.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        own.into_iter().chain(others).collect()
    });
    bar.finish_and_clear();
    made.sort_by_key(|&(at, _)| at);
    made.into_iter().map(|(_, made)| made).collect()
}

fn bar(global: &Global, len: usize) -> ProgressBar {
    if global.quiet || len <= FEW || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(len as u64), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{pos} of {len} sessions {wide_bar}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let global = crate::cli::args::Cli::parse_from(["offshoot", "sessions"]).global;
        let items: Vec<usize> = (0..1000).collect();
        let made = each(&global, &items, |n| n * 2);
        assert!(made.iter().enumerate().all(|(at, made)| *made == at * 2));
        assert_eq!(made.len(), 1000);
        assert!(each(&global, &[0; 0], |n: &usize| *n).is_empty());
    }
}
