//! What can go wrong, split by what a caller can do.

use holdpoint_ledger::{AppendError, ReadError};
use holdpoint_model::ids::{ClientId, SessionId};
use holdpoint_model::session::{Illegal, Rejection};

use crate::bus::TooManyReaders;
use crate::port::AgentError;

/// Why the engine did not do what it was asked. Nothing was lost.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// No such session, loaded or stored.
    #[error("no session {0}")]
    NoSession(SessionId),
    /// The session is stored, and not loaded.
    #[error("session {0} is not loaded; load or resume it first")]
    NotLive(SessionId),
    /// A session with this id exists.
    #[error("session {0} exists already")]
    SessionExists(SessionId),
    /// The session was being closed when the request came; it is stored.
    #[error("session {0} is being closed; load or resume it to go on")]
    Closing(SessionId),
    /// The session is being restored by another action.
    #[error("session {session} is being restored by {active}; try {requested} again in a moment")]
    RestoreInProgress {
        /// Which.
        session: SessionId,
        /// What is under way.
        active: &'static str,
        /// What was asked.
        requested: &'static str,
    },
    /// Taking the session up took too long.
    #[error("session {session} could not be restored within {seconds} s")]
    RestoreTimedOut {
        /// Which.
        session: SessionId,
        /// What was asked.
        action: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The client id is not known to the session.
    #[error("client id {client} is not known to session {session}; load or resume the session to get one")]
    UnknownClient {
        /// The session.
        session: SessionId,
        /// The id.
        client: ClientId,
    },
    /// Another workspace was named than the session's, or than the daemon's.
    #[error(
        "this daemon does not work in {requested}, but in {bound}; start it with --workspace {requested} as well"
    )]
    WorkspaceMismatch {
        /// What is.
        bound: String,
        /// What was named.
        requested: String,
    },
    /// There is no room for another live session.
    #[error("{limit} sessions are live, which is the limit; close one, or try again later")]
    TooManySessions {
        /// The limit.
        limit: usize,
    },
    /// The core refused.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The ledger cannot commit, so nothing was accepted.
    #[error("{0}; nothing was accepted, try again")]
    LedgerUnavailable(String),
    /// The ledger cannot be read.
    #[error(transparent)]
    Unreadable(ReadError),
    /// A stored session cannot be folded: a damaged ledger, or a bug.
    #[error("the stored session is damaged: {0}")]
    Damaged(#[from] Illegal),
    /// The agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The transcript cannot be read.
    #[error("the transcript cannot be read: {0}")]
    Transcript(String),
    /// The transcript was written by a newer version.
    #[error("{0}")]
    TranscriptNewer(String),
    /// Too many readers.
    #[error(transparent)]
    TooManyReaders(#[from] TooManyReaders),
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Stopping,
}

impl From<holdpoint_transcript::ReadError> for EngineError {
    fn from(error: holdpoint_transcript::ReadError) -> Self {
        match error {
            holdpoint_transcript::ReadError::Newer { .. } => Self::TranscriptNewer(error.to_string()),
            other => Self::Transcript(other.to_string()),
        }
    }
}

impl From<ReadError> for EngineError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Shut => Self::Stopping,
            ReadError::Unavailable(_) | ReadError::Damaged(_) => Self::Unreadable(error),
        }
    }
}

impl From<AppendError> for EngineError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Shut => Self::Stopping,
            AppendError::Conflict { .. } | AppendError::Unavailable(_) => {
                Self::LedgerUnavailable(error.to_string())
            }
        }
    }
}
