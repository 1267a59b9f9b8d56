//! Qwen Code 0.24.4: `formats/qwen-code.md` of the design notes; rules were read in the published
//! bundle or measured with the client.

use std::io::{self, Write};

use crate::{
    dialect::{
        Anchor, AnchorSpec, Client, Decoded, Dialect, ForkReport, ForkSpec, Redactor, Remains, Simulated,
        View, jsonl::cut,
    },
    record::Agent,
    refusal::Refusal,
    topology::Chain,
    transcript::{IdIx, Source, Transcript},
    turns::{Cut, Turns},
};

mod anchor;
mod artifacts;
mod check;
mod decode;
mod fork;
mod head;
mod line;
mod payload;
mod read;
mod salvage;
mod simulate;
#[cfg(test)]
mod tests;
mod turns;
mod version;
mod view;

pub use version::KNOWN as KNOWN_VERSION;

/// The dialect of Qwen Code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Qwen;

impl Dialect for Qwen {
    fn agent(&self) -> Agent {
        Agent::Qwen
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

    fn view(&self, bytes: &[u8]) -> View {
        view::view(bytes)
    }

    fn simulate(&self, t: &Transcript, source: &dyn Source, client: &Client) -> io::Result<Simulated> {
        let _ = source;
        Ok(simulate::simulate(t, client))
    }

    fn attached(&self, t: &Transcript, source: &dyn Source, chain: &Chain) -> io::Result<Vec<IdIx>> {
        let _ = source;
        Ok(fork::attached(t, chain))
    }

    fn write_fork(
        &self,
        t: &Transcript,
        source: &dyn Source,
        chain: &Chain,
        fork: &ForkSpec,
        out: &mut (dyn Write + Send),
    ) -> io::Result<ForkReport> {
        fork::write(t, source, chain, fork, out)
    }

    fn anchor(
        &self,
        t: &Transcript,
        source: &dyn Source,
        leaf: IdIx,
        anchor: &AnchorSpec,
    ) -> io::Result<Anchor> {
        let _ = source;
        Ok(anchor::anchor(t, leaf, anchor))
    }

    fn without(&self, t: &Transcript, source: &dyn Source, removed: &[bool]) -> io::Result<Option<Remains>> {
        cut::cut(t, source, removed, false).map(Some)
    }

    fn redactor(&self) -> Option<Redactor> {
        Some(Redactor::new(true, line::known))
    }

    fn check_seed(
        &self,
        t: &Transcript,
        source: &dyn Source,
        chain: &Chain,
        in_place: bool,
    ) -> io::Result<Result<Vec<String>, Box<Refusal>>> {
        let _ = (source, in_place);
        Ok(check::check(t, chain))
    }

    fn turns(&self, t: &Transcript, source: &dyn Source) -> io::Result<Turns> {
        turns::turns(t, source)
    }

    fn cut_at(&self, t: &Transcript, source: &dyn Source, id: IdIx) -> io::Result<Result<Cut, Box<Refusal>>> {
        turns::cut_at(t, source, id)
    }
}

/// The client's own form of a time: UTC, milliseconds, `Z`.
fn timestamp(now: jiff::Timestamp) -> String {
    format!("{now:.3}")
}
