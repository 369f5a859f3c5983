//! What can go wrong, split by what the caller can do about it.

use std::io;

use camino::Utf8PathBuf;

use crate::record::FORMAT;

/// Why a transcript could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such transcript.
    #[error("there is no transcript at {path}")]
    NotFound {
        /// Where it was looked for.
        path: Utf8PathBuf,
    },
    /// The file was written by a newer version; reading it in part would lose what it says.
    #[error(
        "{path} was written in format {found}, and this version knows formats up to {FORMAT}; use a newer holdpoint"
    )]
    Newer {
        /// The file.
        path: Utf8PathBuf,
        /// The format that it names.
        found: u64,
    },
    /// A cursor of a page names no record of the session.
    #[error("no record {cursor} in {path}; read again from the start or the end")]
    UnknownCursor {
        /// The file.
        path: Utf8PathBuf,
        /// The cursor.
        cursor: String,
    },
    /// The system refused.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a transcript could not be opened for writing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes it.
    #[error("{path} is being written by {}; close the session there, or end that process", holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    Locked {
        /// The file.
        path: Utf8PathBuf,
        /// The process that holds the lock, where the system tells.
        holder: Option<u32>,
    },
    /// It cannot be read, or is of a newer format.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The system refused.
    #[error("cannot open {path} for writing: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a record was not appended. Nothing of it is in the file, unless the writer is poisoned.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The first append had to create the file and could not.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The write failed and was undone: the file is as before, and a later append may succeed.
    #[error("cannot write to {path}: {source}; nothing was written")]
    Write {
        /// The file.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is on disk is no longer known. Every later append fails too; opening the file anew repairs it.
    #[error("{path} can no longer be written: {reason}; load the session again")]
    Poisoned {
        /// The file.
        path: Utf8PathBuf,
        /// What happened.
        reason: String,
    },
}

/// Why a session was not copied.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// There is a file where the copy should be.
    #[error("{path} is there already; a copy never replaces a session")]
    Exists {
        /// The file.
        path: Utf8PathBuf,
    },
    /// The original cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The copy cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The copy cannot be written.
    #[error(transparent)]
    Append(#[from] AppendError),
}
