//! The real ledger in one life of the daemon, with crashes and refusals: deferred commits are lost with the
//! process, and an urgent one dies before or after it is durable, its caller none the wiser.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_ledger::{
    Append, AppendError, Counts, Ledger, QuestionFilter, QuestionRow, ReadError, Reply, SessionFilter,
    SessionRow, StoredEvent, Urgency,
};
use holdpoint_model::ids::{QuestionId, RequestId, SessionId};
use holdpoint_model::session::{Event, Session};
use tokio::sync::oneshot;

use crate::crash::Crash;
use crate::durable::now;
use crate::store::Shared;

/// What a disk refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Nothing.
    #[default]
    Good,
    /// Writes: it is full.
    Full,
    /// Everything.
    Bad,
}

/// A ledger in one life of the daemon.
pub(crate) struct SimLedger {
    inner: Arc<dyn Ledger>,
    lazy: Mutex<Vec<Deferred>>,
    crash: Crash,
    disk: Mutex<Disk>,
    seen: Mutex<Seen>,
    store: Shared,
}

/// The sessions as they are durable, folded once for each change.
#[derive(Default)]
struct Seen {
    sessions: BTreeMap<SessionId, Session>,
    changed: BTreeSet<SessionId>,
    broken: Vec<SessionId>,
}

/// A commit that nobody waits for, and how it is told of its end.
struct Deferred {
    append: Append,
    told: oneshot::Sender<Result<(), AppendError>>,
}

/// A session as it is durable.
pub(crate) fn fold(ledger: &dyn Ledger, id: &SessionId) -> Option<Session> {
    let events = now(ledger.events(id)).ok()?;
    Session::fold(id.clone(), events.into_iter().map(|stored| (stored.at, stored.event))).ok()
}

fn ready<T: Send + 'static>(value: T) -> Reply<T> {
    Box::pin(std::future::ready(value))
}

impl SimLedger {
    /// A life on what is stored.
    pub(crate) fn new(inner: Arc<dyn Ledger>, crash: Crash, store: Shared) -> Self {
        let all = SessionFilter { limit: usize::MAX >> 1, ..SessionFilter::default() };
        let changed =
            now(inner.sessions(all)).unwrap_or_default().into_iter().map(|row| row.session).collect();
        let seen = Mutex::new(Seen { changed, ..Seen::default() });
        Self { inner, lazy: Mutex::default(), crash, disk: Mutex::default(), seen, store }
    }

    /// Every session that is durable and not deleted.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for id in std::mem::take(&mut seen.changed) {
            match fold(&*self.inner, &id).filter(|session| !session.deleted) {
                Some(session) => drop(seen.sessions.insert(id, session)),
                None => {
                    seen.sessions.remove(&id);
                    if now(self.inner.session(&id)).ok().flatten().is_some_and(|row| !row.deleted) {
                        seen.broken.push(id);
                    }
                }
            }
        }
        seen.sessions.values().cloned().collect()
    }

    /// Sessions whose events cannot be folded.
    pub(crate) fn broken(&self) -> Vec<SessionId> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).broken)
    }

    /// What is durable.
    pub(crate) fn durable(&self) -> &dyn Ledger {
        &*self.inner
    }

    /// What the disk refuses from now on.
    pub(crate) fn set_disk(&self, disk: Disk) {
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = disk;
    }

    fn disk(&self) -> Disk {
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits what nobody waits for, in one go.
    pub(crate) fn flush(&self) {
        if self.crash.has_crashed() {
            return;
        }
        let lazy = std::mem::take(&mut *self.lazy.lock().unwrap_or_else(PoisonError::into_inner));
        if lazy.is_empty() {
            return;
        }
        match self.crash.point() {
            None => self.commit_all(lazy),
            Some(true) => {
                let unheard =
                    lazy.into_iter().map(|deferred| Deferred { told: oneshot::channel().0, ..deferred });
                self.commit_all(unheard.collect());
            }
            Some(false) => {}
        }
    }

    fn commit_all(&self, lazy: Vec<Deferred>) {
        let commits: Vec<_> =
            lazy.into_iter().map(|deferred| (self.commit(deferred.append), deferred.told)).collect();
        for (commit, told) in commits {
            let _ = told.send(now(commit));
        }
    }

    fn commit(&self, append: Append) -> Reply<Result<(), AppendError>> {
        if self.disk() == Disk::Good {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).changed.insert(append.session.clone());
            // Deferring is what this wrapper does; the ledger's own writer goes by a real clock.
            self.inner.append(Append { urgency: Urgency::Now, ..append })
        } else {
            ready(Err(AppendError::Unavailable("the disk is full".to_owned())))
        }
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Ledger) -> Reply<Result<T, ReadError>>,
    ) -> Reply<Result<T, ReadError>> {
        if self.crash.has_crashed() {
            return Box::pin(std::future::pending());
        }
        if self.disk() == Disk::Bad {
            return ready(Err(ReadError::Unavailable("the disk does not answer".to_owned())));
        }
        ready(now(read(&*self.inner)))
    }
}

impl Ledger for SimLedger {
    fn append(&self, append: Append) -> Reply<Result<(), AppendError>> {
        let names: Vec<_> = append.events.iter().map(Event::name).collect();
        self.store
            .note(format!("  {:?} {} from {}: {names:?}", append.urgency, append.session, append.expected));
        if append.urgency == Urgency::Lazy {
            let (told, end) = oneshot::channel();
            self.lazy.lock().unwrap_or_else(PoisonError::into_inner).push(Deferred { append, told });
            return Box::pin(async move { end.await.unwrap_or(Err(AppendError::Shut)) });
        }
        match self.crash.point() {
            None => {
                // What was deferred rides with it, and is before it.
                let lazy = std::mem::take(&mut *self.lazy.lock().unwrap_or_else(PoisonError::into_inner));
                self.commit_all(lazy);
                ready(now(self.commit(append)))
            }
            Some(done) => {
                if done {
                    let lazy = std::mem::take(&mut *self.lazy.lock().unwrap_or_else(PoisonError::into_inner));
                    let unheard =
                        lazy.into_iter().map(|deferred| Deferred { told: oneshot::channel().0, ..deferred });
                    self.commit_all(unheard.collect());
                    let _ = now(self.commit(append));
                }
                Box::pin(std::future::pending())
            }
        }
    }

    fn events(&self, session: &SessionId) -> Reply<Result<Vec<StoredEvent>, ReadError>> {
        self.read(|ledger| ledger.events(session))
    }

    fn question(&self, id: &QuestionId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.read(|ledger| ledger.question(id))
    }

    fn question_by_request(&self, id: &RequestId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.read(|ledger| ledger.question_by_request(id))
    }

    fn questions(&self, filter: QuestionFilter) -> Reply<Result<Vec<QuestionRow>, ReadError>> {
        self.read(|ledger| ledger.questions(filter))
    }

    fn session(&self, id: &SessionId) -> Reply<Result<Option<SessionRow>, ReadError>> {
        self.read(|ledger| ledger.session(id))
    }

    fn sessions(&self, filter: SessionFilter) -> Reply<Result<Vec<SessionRow>, ReadError>> {
        self.read(|ledger| ledger.sessions(filter))
    }

    fn counts(&self) -> Reply<Result<Counts, ReadError>> {
        self.read(|ledger| ledger.counts())
    }

    fn run(&self) -> u64 {
        self.inner.run()
    }

    fn shut(&self) -> Reply<()> {
        // The checks read on: the life's end closes the ledger.
        self.flush();
        ready(())
    }
}
