//! The real router on a real socket, over a ledger that forgets and an agent that does nothing.

mod access;
mod limits;
mod paths;
mod support;
