//! Transcripts: what was said in a session, one JSON record a line, in a file that only grows.
//!
//! The record shape is that of qwen-code (`WIRE` f.1), so that its files are read as they are and the tools
//! that people have for them work on ours; our additions are one object, `holdpoint`, that carries the format's
//! version. A record names its parent, so a file is a tree, and a session is the path from its last record
//! back to the root.
//!
//! * [`Writer`] appends, under a file lock, and cuts off what a crash tore.
//! * [`tail::scan`] reads the end only (E8): what a restore needs.
//! * [`history::read`] reads what a model is sent.
//! * [`replay`] turns records into the updates that a client shows.
//! * [`head`] says what a list shows.
//!
//! Everything is synchronous: callers on async threads use `spawn_blocking`. A reader never takes the lock and
//! never writes (I7), and takes a last line that is still being written for absent.

mod backward;
mod branch;
mod chain;
mod error;
pub mod head;
pub mod history;
mod lock;
pub mod record;
pub mod replay;
pub mod tail;
mod writer;

use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_model::ids::SessionId;

pub use branch::branch;
pub use error::{AppendError, BranchError, OpenError, ReadError};
pub use record::{Cause, FORMAT, Kind, Parent, Record, ToolCallResult};
pub use writer::{Durability, LOCK_WAIT, Opened, TornTail, Writer};

/// The directory of the transcripts in a data directory.
pub fn directory(data_dir: &Utf8Path) -> Utf8PathBuf {
    data_dir.join("sessions")
}

/// The file of a session. The grammar of a session id keeps it inside the directory.
pub fn path(data_dir: &Utf8Path, session: &SessionId) -> Utf8PathBuf {
    directory(data_dir).join(format!("{session}.jsonl"))
}
