//! Steps that several threads prepare at once and that take effect in their order, so that what comes of them does not
//! depend on how many threads there are. The pure modules have no threads but these.

use std::{
    io,
    num::NonZero,
    panic::resume_unwind,
    sync::{
        Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

mod behind;

pub use behind::write_behind;

/// How many steps there must be for each further thread, since its start takes time too.
const STEPS_A_WORKER: u64 = 4;

/// More threads than this wait for their turn more than they prepare.
const MOST_WORKERS: usize = 8;

/// How many threads can work at once here. The system is asked once: it looks into several files for its answer.
pub fn workers() -> usize {
    static WORKERS: OnceLock<usize> = OnceLock::new();
    *WORKERS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST_WORKERS))
}

/// One step: prepared first, then brought to `state` when its turn has come.
pub struct Stage<'a, S> {
    step: u64,
    queue: &'a Queue<'a, S>,
}

/// Does the steps `0..steps`: `prepare` is called for each, with what its thread has made for itself at first, on up to
/// `workers` threads, of which this one is the first. Each call must end with [`Stage::turn`].
///
/// # Errors
/// The error of the first step that has one; later ones have no effect.
pub fn run<S: Send, T>(
    steps: u64,
    workers: usize,
    state: &mut S,
    make: &(dyn Fn() -> T + Sync),
    prepare: &(dyn Fn(Stage<'_, S>, &mut T) -> Turned + Sync),
) -> io::Result<()> {
    let queue = Queue {
        taken: AtomicU64::new(0),
        turn: Mutex::new(Turn { next: 0, waiting: 0, stopped: false, error: None, state }),
        moved: Condvar::new(),
    };
    let work = || {
        // A thread that panics must not leave the others waiting for its turn.
        let _guard = Guard(&queue);
        let mut own = make();
        loop {
            let step = queue.taken.fetch_add(1, Ordering::Relaxed);
            if step >= steps {
                return;
            }
            prepare(Stage { step, queue: &queue }, &mut own);
        }
    };
    let wanted = workers.min(usize::try_from(steps / STEPS_A_WORKER).unwrap_or(workers));
    thread::scope(|scope| {
        for _ in 1..wanted {
            // Where no thread is to be had, fewer do the same work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    queue.lock().error.take().map_or(Ok(()), Err)
}

/// Both, at once if another thread is to be had.
pub fn join<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    // What could not be given to a thread is done here.
    let a = Mutex::new(Some(a));
    let take = || {
        let taken = a.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.map(|a| a())
    };
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, take);
        let b = b();
        let a = match other {
            Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => take(),
        };
        (a.expect("BUG: it is taken once"), b)
    })
}

/// The mark of a step that has had its turn.
pub struct Turned(());

struct Queue<'a, S> {
    taken: AtomicU64,
    turn: Mutex<Turn<'a, S>>,
    moved: Condvar,
}

struct Turn<'a, S> {
    /// The step that may change the state now.
    next: u64,
    /// How many threads wait for their turn: to wake none costs a call of the system all the same.
    waiting: usize,
    stopped: bool,
    error: Option<io::Error>,
    state: &'a mut S,
}

impl<S> Stage<'_, S> {
    /// Its number.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Waits for the steps before this one, then calls `apply`, unless one of them failed.
    pub fn turn(self, apply: impl FnOnce(&mut S) -> io::Result<()>) -> Turned {
        let mut turn = self.queue.lock();
        while turn.next < self.step && !turn.stopped {
            turn.waiting += 1;
            turn = self.queue.moved.wait(turn).unwrap_or_else(PoisonError::into_inner);
            turn.waiting -= 1;
        }
        if !turn.stopped {
            if let Err(e) = apply(turn.state) {
                turn.stopped = true;
                turn.error = Some(e);
                self.queue.taken.store(u64::MAX / 2, Ordering::Relaxed);
            }
            turn.next += 1;
            let waiting = turn.waiting > 0;
            drop(turn);
            if waiting {
                self.queue.moved.notify_all();
            }
        }
        Turned(())
    }
}

impl<'a, S> Queue<'a, S> {
    fn lock(&self) -> MutexGuard<'_, Turn<'a, S>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Guard<'a, S>(&'a Queue<'a, S>);

impl<S> Drop for Guard<'_, S> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().stopped = true;
            self.0.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_effect_in_order() {
        for workers in [0, 1, 2, 7] {
            let mut seen = Vec::new();
            run(100, workers, &mut seen, &|| (), &|stage, _| {
                let step = stage.step();
                stage.turn(|seen| {
                    seen.push(step);
                    Ok(())
                })
            })
            .unwrap();
            assert_eq!(seen, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_error_tells_and_nothing_follows_it() {
        for workers in [1, 3] {
            let mut seen = Vec::new();
            let result = run(100, workers, &mut seen, &|| (), &|stage, _| {
                let step = stage.step();
                stage.turn(|seen| {
                    if step % 10 == 9 {
                        return Err(io::Error::other(step.to_string()));
                    }
                    seen.push(step);
                    Ok(())
                })
            });
            assert_eq!((result.unwrap_err().to_string(), seen), ("9".to_owned(), (0..9).collect()));
        }
    }

    #[test]
    fn both_are_done() {
        let mut here = 1;
        assert_eq!(join(|| "there", || here += 1), ("there", ()));
        assert_eq!(here, 2);
    }

    #[test]
    fn a_panic_leaves_nobody_waiting() {
        let panicked = std::panic::catch_unwind(|| {
            let _ = run(100, 3, &mut (), &|| (), &|stage, _| {
                assert!(stage.step() != 20, "on purpose");
                stage.turn(|()| Ok(()))
            });
        });
        assert!(panicked.is_err());
    }
}
