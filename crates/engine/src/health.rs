//! How the ledger is: what it last refused, and since when. Seen from outside, by the outcomes of what is asked of
//! it, so that it holds for every ledger.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_ledger::{
    Append, AppendError, Counts, Ledger, QuestionFilter, QuestionRow, ReadError, SessionFilter, SessionRow,
    StoredEvent,
};
use holdpoint_model::ids::{Micros, QuestionId, RequestId, SessionId};

use crate::port::Reply;
use crate::world::World;

/// Something that fails, from the first time in a row on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When it began.
    pub since: Micros,
    /// When it was last tried.
    pub last: Micros,
    /// How often it failed since.
    pub count: u64,
    /// What the ledger said last.
    pub reason: String,
}

/// How the ledger is. Both are over with the first success: nothing is tried only to find that out (I7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerHealth {
    /// Commits are refused, so nothing is accepted (I1).
    pub refusing: Option<Trouble>,
    /// Reads fail.
    pub unreadable: Option<Trouble>,
}

/// A ledger whose failures are noted.
pub(crate) struct Watched {
    inner: Arc<dyn Ledger>,
    noted: Arc<Noted>,
}

/// What was noted.
pub(crate) struct Noted {
    world: Arc<dyn World>,
    health: Mutex<LedgerHealth>,
}

impl Watched {
    /// Watches a ledger.
    pub(crate) fn new(inner: Arc<dyn Ledger>, world: Arc<dyn World>) -> (Self, Arc<Noted>) {
        let noted = Arc::new(Noted { world, health: Mutex::default() });
        (Self { inner, noted: Arc::clone(&noted) }, noted)
    }

    fn read<T: Send + 'static>(&self, read: Reply<Result<T, ReadError>>) -> Reply<Result<T, ReadError>> {
        let noted = Arc::clone(&self.noted);
        Box::pin(async move {
            let result = read.await;
            match &result {
                Err(ReadError::Unavailable(reason)) => noted.failed(reason, |health| &mut health.unreadable),
                // One damaged value says nothing of the rest.
                Ok(_) | Err(ReadError::Damaged(_)) => noted.worked(|health| &mut health.unreadable),
                Err(ReadError::Shut) => {}
            }
            result
        })
    }
}

impl Noted {
    /// How the ledger is now.
    pub(crate) fn health(&self) -> LedgerHealth {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, LedgerHealth> {
        // Every change is complete before anything can panic.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, reason: &str, which: impl Fn(&mut LedgerHealth) -> &mut Option<Trouble>) {
        let now = self.world.now();
        let mut health = self.lock();
        let trouble = which(&mut health).get_or_insert_with(|| Trouble {
            since: now,
            last: now,
            count: 0,
            reason: String::new(),
        });
        trouble.last = now;
        trouble.count += 1;
        reason.clone_into(&mut trouble.reason);
    }

    fn worked(&self, which: impl Fn(&mut LedgerHealth) -> &mut Option<Trouble>) {
        *which(&mut self.lock()) = None;
    }
}

impl Ledger for Watched {
    fn append(&self, append: Append) -> Reply<Result<(), AppendError>> {
        let committing = self.inner.append(append);
        let noted = Arc::clone(&self.noted);
        Box::pin(async move {
            let result = committing.await;
            match &result {
                Ok(()) => noted.worked(|health| &mut health.refusing),
                Err(AppendError::Unavailable(reason)) => {
                    metrics::counter!("holdpoint_ledger_refused_total").increment(1);
                    noted.failed(reason, |health| &mut health.refusing);
                }
                // The ledger is well; the writer was behind, or the daemon stops.
                Err(AppendError::Conflict { .. } | AppendError::Shut) => {}
            }
            result
        })
    }

    fn events(&self, session: &SessionId) -> Reply<Result<Vec<StoredEvent>, ReadError>> {
        self.read(self.inner.events(session))
    }

    fn question(&self, id: &QuestionId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.read(self.inner.question(id))
    }

    fn question_by_request(&self, id: &RequestId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.read(self.inner.question_by_request(id))
    }

    fn questions(&self, filter: QuestionFilter) -> Reply<Result<Vec<QuestionRow>, ReadError>> {
        self.read(self.inner.questions(filter))
    }

    fn session(&self, id: &SessionId) -> Reply<Result<Option<SessionRow>, ReadError>> {
        self.read(self.inner.session(id))
    }

    fn sessions(&self, filter: SessionFilter) -> Reply<Result<Vec<SessionRow>, ReadError>> {
        self.read(self.inner.sessions(filter))
    }

    fn counts(&self) -> Reply<Result<Counts, ReadError>> {
        self.read(self.inner.counts())
    }

    fn run(&self) -> u64 {
        self.inner.run()
    }

    fn shut(&self) -> Reply<()> {
        self.inner.shut()
    }
}
