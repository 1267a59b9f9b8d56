//! The client simulation: what `qwen --resume` would do with exactly these bytes.

use std::io;

use crate::{
    dialect::{Client, Simulated},
    transcript::{Source, Transcript},
};

pub(super) fn simulate(_: &Transcript, _: &dyn Source, _: &Client) -> io::Result<Simulated> {
    Ok(Simulated::Refuses("not simulated".into()))
}
