//! The ledger: the only truth about questions, prompts and who decided what.
//!
//! This crate stores and finds; it decides nothing. Events come in as the core made them, with the rows that
//! the core computed from them, and are committed together.

mod contract;

pub use contract::*;
