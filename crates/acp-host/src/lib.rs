//! Agent processes, spoken to over ACP v1: the client side of the protocol, and the only crate that knows the
//! SDK.
//!
//! [`AcpAgents`] starts one process for each (agent, workspace) and finds it again; [`AcpAgent`] is one such
//! process, with any number of sessions. Both implement the engine's port.
//!
//! How a message travels: the child's stdout → the reader (bounded lines, one parse) → the SDK's
//! dispatch loop, which is serial → the session's sink. Each step waits for the next one, so that an agent that
//! sends faster than its session can take is stopped by its own pipe. Back: the SDK → the writer, which lets only
//! those answers pass that somebody really gave (trap 1), and joins lines into one write.
//!
//! A child is a process group of its own. Its pipes stay open until it is dead, so that nothing it could see
//! before its end can be taken for an answer (I12).

mod agent;
mod agents;
mod config;
mod conn;
#[doc(hidden)]
pub mod fuzz;
mod inbound;
mod process;
mod respond;
mod routes;
mod stderr;
mod transport;
mod wire;

pub use agent::AcpAgent;
pub use agents::AcpAgents;
pub use config::{AgentCommand, HostConfig, Limits, Restore};
