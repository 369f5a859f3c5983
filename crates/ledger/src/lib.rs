//! The ledger: the only truth about questions, prompts and who decided what.
//!
//! This crate stores and finds; it decides nothing. Events come in as the core made them, with the rows that
//! the core computed from them, and are committed together.
//!
//! [`Ledger`] is what every ledger promises, and the module `conformance` (behind the feature of that name) is the
//! suite that holds one to it. [`SqliteLedger`] is the one of a daemon; [`MemoryLedger`] forgets, and is for tests
//! and simulations. [`DataDirLock`] keeps a second daemon off the directory (I11).

mod contract;
mod encode;
mod files;
mod lock;
mod memory;
mod sqlite;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

pub use contract::*;
pub use lock::{DataDirLock, LockError};
pub use memory::MemoryLedger;
pub use sqlite::{OpenError, SqliteLedger};
