//! The built-in agent, `holdpoint acp`: a model, its tools, and the sessions that they make, spoken to by ACP
//! v1 over stdio.
//!
//! * `rpc` frames and bounds what travels; standard output carries nothing else.
//! * The server reads requests and hands each to its session; it never waits for a peer (trap 10).
//! * A session is one task with one mailbox; it owns the transcript and at most one running turn.
//! * A turn calls the model, stores what it said, runs and asks what it called, and calls it again.
//!
//! Nothing here knows the daemon's ledger: an answer arrives as the answer to `session/request_permission`.

mod client;
mod config;
#[doc(hidden)]
pub mod fuzz;
mod params;
mod prompt;
pub mod provider;
mod rpc;
mod run;
mod server;
mod session;
pub mod tools;

pub use config::AgentConfig;
pub use run::{Exit, run_stdio, serve};
