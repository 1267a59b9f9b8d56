//! The navigator: the whole conversation as a tree. The only place that may name `ratatui`.

mod doc;
mod outline;
#[cfg_attr(not(test), expect(dead_code, reason = "the navigator's keys use the rest"))]
mod page;
pub mod print;
#[cfg(test)]
mod tests;
mod words;

pub use doc::Doc;
