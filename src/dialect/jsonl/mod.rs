//! What the formats of one JSON object a line share: the file in chunks, JSON as `JSON.parse` judges it, values
//! replaced in place. Which objects of a line count, and what a record is, each dialect says itself.

pub(super) mod backups;
mod blocks;
pub(super) mod cut;
pub(super) mod json;
pub(super) mod lines;
pub(super) mod marked;
pub(super) mod members;
pub(super) mod read;
pub(super) mod redact;
mod region;
pub(super) mod scan;
mod strings;
pub(super) mod version;
