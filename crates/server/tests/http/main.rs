//! The real router on a real socket: over a ledger that forgets and an agent that does nothing, or over SQLite and an
//! agent that asks.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

mod access;
mod asker;
mod audit;
mod bounds;
mod clients;
mod closing;
#[cfg(feature = "faults")]
mod faults;
mod grammar;
mod health;
mod identity;
mod inbox;
mod limits;
mod lost;
mod mediation;
mod newer;
mod owed;
mod paths;
mod policies;
mod rig;
mod support;
mod transcripts;
mod troubles;
mod votes;
mod web;
