//! The child transcript of a fork.

use std::io::{self, Write};

use crate::{
    dialect::{ForkReport, ForkSpec},
    topology::Chain,
    transcript::{IdIx, Source, Transcript},
};

pub(super) fn side_artifacts(_: &Transcript, _: &Chain) -> Vec<IdIx> {
    Vec::new()
}

pub(super) fn write(
    _: &Transcript,
    _: &dyn Source,
    _: &Chain,
    _: &ForkSpec,
    _: &mut dyn Write,
) -> io::Result<ForkReport> {
    Ok(ForkReport::default())
}
