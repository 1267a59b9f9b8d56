//! The navigator: the whole conversation as a tree. The only place that may name `ratatui`.

mod action;
mod agents;
mod app;
mod compare;
mod details;
pub(super) mod doc;
mod draw;
mod keys;
mod navigate;
pub(super) mod outline;
pub(super) mod page;
pub mod print;
mod reading;
mod screen;
mod search;
#[cfg(test)]
mod tests;
mod turns;
pub(super) mod words;

pub use action::Action;
pub use app::{App, Options, Outcome};
pub use doc::Doc;
pub use draw::draw;
pub use navigate::{Ended, SLICE, navigate};
pub use reading::{Loaded, Reader};
pub use screen::Screen;
