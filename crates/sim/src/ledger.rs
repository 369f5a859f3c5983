//! The real in-memory ledger, with crashes: lazy commits are lost with the process, and an urgent one dies
//! before or after it is durable, its caller none the wiser.

use std::sync::{Mutex, PoisonError};

use holdpoint_ledger::{
    Append, AppendError, Counts, Ledger, MemoryLedger, QuestionFilter, QuestionRow, ReadError, Reply,
    SessionFilter, SessionRow, StoredEvent, Urgency,
};
use holdpoint_model::ids::{QuestionId, RequestId, SessionId};
use tokio::sync::oneshot;

use crate::crash::Crash;

/// A ledger in one life of the daemon.
#[derive(Debug)]
pub(crate) struct SimLedger {
    inner: MemoryLedger,
    lazy: Mutex<Vec<Deferred>>,
    crash: Crash,
}

/// A commit that nobody waits for, and how it is told of its end.
#[derive(Debug)]
struct Deferred {
    append: Append,
    told: oneshot::Sender<Result<(), AppendError>>,
}

impl SimLedger {
    /// A run on what is stored.
    pub(crate) fn new(inner: MemoryLedger, crash: Crash) -> Self {
        Self { inner, lazy: Mutex::default(), crash }
    }

    /// Commits what nobody waits for.
    pub(crate) fn flush(&self) {
        let lazy = std::mem::take(&mut *self.lazy.lock().unwrap_or_else(PoisonError::into_inner));
        for Deferred { append, told } in lazy {
            let _ = told.send(now(self.inner.append(append)));
        }
    }
}

/// The value of a future that is ready: the in-memory ledger's always are.
pub(crate) fn now<T>(mut future: Reply<T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the in-memory ledger answers at once"),
    }
}

impl Ledger for SimLedger {
    fn append(&self, append: Append) -> Reply<Result<(), AppendError>> {
        if append.urgency == Urgency::Lazy {
            let (told, end) = oneshot::channel();
            self.lazy.lock().unwrap_or_else(PoisonError::into_inner).push(Deferred { append, told });
            return Box::pin(async move { end.await.unwrap_or(Err(AppendError::Shut)) });
        }
        match self.crash.point() {
            None => {
                self.flush();
                self.inner.append(append)
            }
            Some(done) => {
                if done {
                    self.flush();
                    drop(self.inner.append(append));
                }
                Box::pin(std::future::pending())
            }
        }
    }

    fn events(&self, session: &SessionId) -> Reply<Result<Vec<StoredEvent>, ReadError>> {
        self.inner.events(session)
    }

    fn question(&self, id: &QuestionId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.inner.question(id)
    }

    fn question_by_request(&self, id: &RequestId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.inner.question_by_request(id)
    }

    fn questions(&self, filter: QuestionFilter) -> Reply<Result<Vec<QuestionRow>, ReadError>> {
        self.inner.questions(filter)
    }

    fn session(&self, id: &SessionId) -> Reply<Result<Option<SessionRow>, ReadError>> {
        self.inner.session(id)
    }

    fn sessions(&self, filter: SessionFilter) -> Reply<Result<Vec<SessionRow>, ReadError>> {
        self.inner.sessions(filter)
    }

    fn counts(&self) -> Reply<Result<Counts, ReadError>> {
        self.inner.counts()
    }

    fn run(&self) -> u64 {
        self.inner.run()
    }

    fn shut(&self) -> Reply<()> {
        self.flush();
        self.inner.shut()
    }
}
