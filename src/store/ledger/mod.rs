//! The audit ledger.

pub mod entry;
