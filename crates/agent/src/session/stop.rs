//! How a running turn is told to stop, and what that means for a question that it still asks.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use holdpoint_model::asked::Asked;
use tokio_util::sync::CancellationToken;

/// How long a client has to answer its open requests after it stopped a turn (ACP says that it does): long
/// enough for a daemon to commit what it says, short enough that a silent client holds nothing up.
const GRACE: Duration = Duration::from_secs(2);

/// Why a turn stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// `session/cancel`: a person stopped the turn (R13).
    Cancel,
    /// The session is closed, or whoever waited for the prompt is gone: nobody decided anything (R10).
    Close,
}

/// A running turn's stop switch. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    why: Arc<OnceLock<Why>>,
}

impl Stop {
    /// Stops the turn. The first reason holds.
    pub(crate) fn stop(&self, why: Why) {
        let _ = self.why.set(why);
        self.token.cancel();
    }

    /// Whether the turn is to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.token.is_cancelled()
    }

    /// For work that ends by itself when told.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Completes when an open request need not be waited for any longer.
    pub(crate) async fn expired(&self) {
        self.token.cancelled().await;
        tokio::time::sleep(GRACE).await;
    }

    /// How a question ends that nobody answered before the turn stopped. A restored question, and with the
    /// flag on a closed session, keep it open (R10, R13).
    pub(crate) fn end_of_question(&self, restored: bool, keep_open: bool) -> Asked {
        match self.why.get() {
            Some(Why::Cancel) if !restored => Asked::CancelledBeforeAnswer,
            Some(Why::Close) if !keep_open && !restored => Asked::CancelledBeforeAnswer,
            _ => Asked::Unattended,
        }
    }
}
