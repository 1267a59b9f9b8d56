//! Reasonix (rules measured with 1.38.11, storage v4): a log of commits in compressed frames, one folder a session.
//!
//! A session folder holds `manifest.json`, which says what format it is in, and `events.frames`, the log. The log is
//! linear: there is no tree in it. Lineage is in the children, whose commits name the commits of their parent that they
//! repeat ([`ids::inherited_from`]).
//!
//! - [`frame`]: bytes to JSON records, bounded.
//! - [`record`]: records, read leniently and written exactly.
//! - [`commit`]: records to verified commits; a torn tail is invisible, all else that is wrong is damage.
//! - [`event`]: what an event means; an unknown required kind makes the session unreadable, as it is for the client.
//! - [`content`]: payloads that stand elsewhere.
//! - [`projection`]: commits to turns.
//! - [`child`]: the log of a fork.
//! - [`redact`]: a log without its words.
//! - [`render`]: the sessions of a family as one tree; [`Reasonix`] is the dialect over it.
//! - [`manifest`], [`ids`]: the files and names around it.
//! - [`older`]: what the client wrote before, to be refused by name.

pub mod child;
pub mod commit;
pub mod content;
pub mod event;
pub mod frame;
mod gojson;
pub mod ids;
mod lines;
pub mod manifest;
pub mod older;
mod operation;
pub mod projection;
pub mod record;
pub mod redact;
pub mod render;
mod trouble;

pub use lines::{Reasonix, end_reason, turns_of, unsupported};
pub use trouble::Trouble;
