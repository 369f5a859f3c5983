//! A session's state, and the same one step ahead of it.

use std::ops::Deref;

use holdpoint_model::ids::{Micros, SessionId};
use holdpoint_model::session::{Event, Illegal, Session};

/// A session as it is committed; reading it is reading that. Beside it is a second one that goes ahead: what is to
/// be committed happens there first, and here when it is durable. So a commit copies nothing, and only one that
/// fails has to.
pub(super) struct Book {
    committed: Session,
    ahead: Session,
}

impl Book {
    /// Of a session that is committed as it is.
    pub(super) fn new(session: Session) -> Self {
        Self { ahead: session.clone(), committed: session }
    }

    /// Of a session before its first event.
    pub(super) fn empty(id: SessionId) -> Self {
        Self::new(Session::empty(id))
    }

    /// What the session will be after these events. They must be [taken](Self::take) or [dropped](Self::fall_back)
    /// before the next ones.
    ///
    /// # Errors
    /// One of them cannot follow. Then nothing is ahead.
    pub(super) fn go_ahead(&mut self, events: &[Event], at: Micros) -> Result<&Session, Illegal> {
        for event in events {
            if let Err(illegal) = self.ahead.evolve(event, at) {
                self.fall_back();
                return Err(illegal);
            }
        }
        Ok(&self.ahead)
    }

    /// The events that are ahead are committed.
    pub(super) fn take(&mut self, events: &[Event], at: Micros) {
        for event in events {
            self.committed.evolve(event, at).expect("the same event was legal in the same state");
        }
    }

    /// The events that are ahead are not committed.
    pub(super) fn fall_back(&mut self) {
        self.ahead = self.committed.clone();
    }
}

impl Deref for Book {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.committed
    }
}
