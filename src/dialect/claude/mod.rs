//! Claude Code 2.1.332 and before: all rules were measured with released clients as black boxes.
//!
//! Kinds of records: a `user` record with tool results is a tool result, any other is a user record, a person's or not
//! (`Flags::SYNTHETIC`); `system`, `attachment` and `progress` records count as system records.

use std::io::{self, Write};

use crate::{
    dialect::{
        Anchor, AnchorSpec, Client, Decoded, Dialect, Expected, ForkReport, ForkSpec, Redactor, Remains,
        Simulated, View, jsonl::cut,
    },
    parallel,
    record::Agent,
    refusal::Refusal,
    topology::Chain,
    transcript::{IdIx, Source, Transcript},
    turns::{Cut, Turns},
};

mod anchor;
mod attached;
mod check;
mod content;
mod decode;
mod fork;
mod head;
mod history;
mod metadata;
mod names;
mod pairs;
mod read;
mod simulate;
mod slice;
mod told;
mod turns;
mod units;
mod version;
mod view;

pub(super) use head::is_aside;
pub use version::KNOWN as KNOWN_VERSION;
pub use view::agent_of_result;

/// The dialect of Claude Code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claude;

impl Dialect for Claude {
    fn agent(&self) -> Agent {
        Agent::Claude
    }

    fn read(&self, source: &dyn Source) -> io::Result<Transcript> {
        read::read(source)
    }

    fn known_version(&self) -> &'static str {
        KNOWN_VERSION
    }

    fn decode(&self, bytes: &[u8]) -> Decoded {
        decode::decode(bytes)
    }

    fn decode_beginning(&self, bytes: &[u8], most: usize) -> (Decoded, bool) {
        decode::beginning(bytes, most)
    }

    fn title(&self, t: &Transcript, source: &dyn Source) -> io::Result<Option<String>> {
        for &span in t.rounds.iter().flat_map(|rounds| &rounds.titles).flatten() {
            let title = decode::decode(&source.bytes(span)?).title;
            if title.as_ref().is_some_and(|title| !title.trim().is_empty()) {
                return Ok(title);
            }
        }
        Ok(None)
    }

    fn view(&self, bytes: &[u8]) -> View {
        view::view(bytes)
    }

    fn simulate(&self, t: &Transcript, source: &dyn Source, client: &Client) -> io::Result<Simulated> {
        let _ = source;
        Ok(simulate::simulate(t, client))
    }

    fn attached(&self, t: &Transcript, source: &dyn Source, chain: &Chain) -> io::Result<Vec<IdIx>> {
        let _ = source;
        Ok(attached::attached(t, chain).all(t))
    }

    fn expected(&self, t: &Transcript, chain: &Chain, client: &Client) -> Expected {
        slice::expected(t, chain, client)
    }

    fn write_fork(
        &self,
        t: &Transcript,
        source: &dyn Source,
        chain: &Chain,
        fork: &ForkSpec,
        out: &mut (dyn Write + Send),
    ) -> io::Result<ForkReport> {
        parallel::write_behind(out, |out| fork::write(t, source, chain, fork, out))
    }

    fn anchor(
        &self,
        t: &Transcript,
        source: &dyn Source,
        leaf: IdIx,
        anchor: &AnchorSpec,
    ) -> io::Result<Anchor> {
        anchor::anchor(t, source, leaf, anchor)
    }

    fn without(&self, t: &Transcript, source: &dyn Source, removed: &[bool]) -> io::Result<Option<Remains>> {
        cut::cut(t, source, removed, true).map(Some)
    }

    fn redactor(&self) -> Option<Redactor> {
        Some(Redactor::new(false, read::known).keeping(content::ECHOES, &[content::FILLER]))
    }

    fn check_seed(
        &self,
        t: &Transcript,
        source: &dyn Source,
        chain: &Chain,
        in_place: bool,
    ) -> io::Result<Result<Vec<String>, Box<Refusal>>> {
        let _ = source;
        Ok(check::check(t, chain, in_place))
    }

    fn turns(&self, t: &Transcript, source: &dyn Source) -> io::Result<Turns> {
        turns::turns(t, source)
    }

    fn cut_at(&self, t: &Transcript, source: &dyn Source, id: IdIx) -> io::Result<Result<Cut, Box<Refusal>>> {
        turns::cut_at(t, source, id)
    }
}
