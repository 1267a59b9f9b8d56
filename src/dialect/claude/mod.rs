//! Claude Code 2.1.332 and before: all rules were measured with released clients as black boxes.
//!
//! Kinds of records: a `user` record with tool results is a tool result, any other is a user record, a person's or not
//! (`Flags::SYNTHETIC`); `system`, `attachment` and `progress` records count as system records.

use std::io::{self, Write};

use crate::{
    dialect::{Anchor, AnchorSpec, Client, Decoded, Dialect, ForkReport, ForkSpec, Simulated},
    record::Agent,
    refusal::Refusal,
    topology::Chain,
    transcript::{IdIx, Source, Transcript},
};

mod attached;
mod content;
mod decode;
mod head;
mod history;
mod read;
mod simulate;
mod units;
mod version;

pub(super) use head::is_aside;
pub use version::{KNOWN as KNOWN_VERSION, is_newer_than_known};

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

    fn is_newer_than_known(&self, version: &str) -> bool {
        is_newer_than_known(version)
    }

    fn decode(&self, bytes: &[u8]) -> Decoded {
        decode::decode(bytes)
    }

    fn simulate(&self, t: &Transcript, source: &dyn Source, client: &Client) -> io::Result<Simulated> {
        let _ = source;
        Ok(simulate::simulate(t, client))
    }

    fn attached(&self, t: &Transcript, source: &dyn Source, chain: &Chain) -> io::Result<Vec<IdIx>> {
        let _ = source;
        Ok(attached::attached(t, chain))
    }

    fn seeds(&self) -> bool {
        false
    }

    fn write_fork(
        &self,
        _: &Transcript,
        _: &dyn Source,
        _: &Chain,
        _: &ForkSpec,
        _: &mut dyn Write,
    ) -> io::Result<ForkReport> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn anchor(&self, _: &Transcript, _: &dyn Source, _: IdIx, _: &AnchorSpec) -> io::Result<Anchor> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn check_seed(
        &self,
        _: &Transcript,
        _: &dyn Source,
        _: &Chain,
    ) -> io::Result<Result<Vec<String>, Box<Refusal>>> {
        Ok(Ok(Vec::new()))
    }
}
