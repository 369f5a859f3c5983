//! What all actors share.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_ledger::Ledger;
use holdpoint_model::ids::{QuestionId, SessionId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::EngineConfig;
use crate::error::EngineError;
use crate::history::Transcripts;
use crate::owed::Owed;
use crate::port::Agents;
use crate::session::{Actor, Handle, Start};
use crate::world::World;

/// What all actors share.
pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) agents: Arc<dyn Agents>,
    pub(crate) transcripts: Arc<dyn Transcripts>,
    pub(crate) world: Arc<dyn World>,
    /// Cancelled when the daemon stops.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    actors: Mutex<BTreeMap<SessionId, Handle>>,
    /// Whose the questions are that people can answer now: an answer to one of these need not ask the ledger. As
    /// many as the live sessions may ask. That one is left in it does no harm: a question never changes its session.
    asked: Mutex<HashMap<QuestionId, SessionId>>,
    /// Places of sessions that are on their way to life, and how many wait for each.
    reserved: Mutex<BTreeMap<SessionId, usize>>,
    serials: AtomicU64,
    /// Sessions whose answers the agent gets as soon as the ledger can.
    pub(crate) owed: Owed,
}

/// A place among the live sessions, kept for one that is on its way to life; given back when dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
    session: SessionId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut reserved = self.shared.reserved();
        if let Some(count) = reserved.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                reserved.remove(&self.session);
            }
        }
    }
}

impl Shared {
    pub(crate) fn new(
        config: EngineConfig,
        ledger: Arc<dyn Ledger>,
        agents: Arc<dyn Agents>,
        transcripts: Arc<dyn Transcripts>,
        world: Arc<dyn World>,
    ) -> Self {
        Self {
            config,
            ledger,
            agents,
            transcripts,
            world,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            actors: Mutex::new(BTreeMap::new()),
            asked: Mutex::default(),
            reserved: Mutex::new(BTreeMap::new()),
            serials: AtomicU64::new(1),
            owed: Owed::default(),
        }
    }

    fn actors(&self) -> MutexGuard<'_, BTreeMap<SessionId, Handle>> {
        // The map is never left half changed, so a panic elsewhere has not harmed it.
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserved(&self) -> MutexGuard<'_, BTreeMap<SessionId, usize>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a session that is to be live, if there is one or it has one already.
    ///
    /// # Errors
    /// As many are live, or on their way, as may be.
    pub(crate) fn place(self: &Arc<Self>, session: &SessionId) -> Result<Place, EngineError> {
        let actors = self.actors();
        let mut reserved = self.reserved();
        if let Some(limit) = self.config.max_sessions
            && !actors.contains_key(session)
            && !reserved.contains_key(session)
            && actors.len() + reserved.keys().filter(|id| !actors.contains_key(*id)).count() >= limit
        {
            return Err(EngineError::TooManySessions { limit });
        }
        *reserved.entry(session.clone()).or_default() += 1;
        Ok(Place { shared: Arc::clone(self), session: session.clone() })
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<QuestionId, SessionId>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// People can answer a question now.
    pub(crate) fn asks(&self, question: &QuestionId, session: &SessionId) {
        self.asked().insert(question.clone(), session.clone());
    }

    /// They cannot any more.
    pub(crate) fn asks_no_more(&self, question: &QuestionId) {
        self.asked().remove(question);
    }

    /// The session that asks a question now.
    pub(crate) fn asker(&self, question: &QuestionId) -> Option<SessionId> {
        self.asked().get(question).cloned()
    }

    /// How many sessions have an actor.
    pub(crate) fn live(&self) -> usize {
        self.actors().len()
    }

    /// The session's actor, if it has one.
    pub(crate) fn find(&self, id: &SessionId) -> Option<Handle> {
        self.actors().get(id).cloned()
    }

    /// The session's actor; started from what the ledger holds if it has none.
    pub(crate) fn find_or_start(self: &Arc<Self>, id: &SessionId) -> Handle {
        let mut actors = self.actors();
        if let Some(handle) = actors.get(id) {
            return handle.clone();
        }
        let handle = Actor::spawn(Arc::clone(self), id.clone(), self.serial(), Start::Stored);
        actors.insert(id.clone(), handle.clone());
        handle
    }

    /// Starts an actor for a session that is made now; `None` where there is one with that id.
    pub(crate) fn start_new(self: &Arc<Self>, id: &SessionId, start: Start) -> Option<Handle> {
        let mut actors = self.actors();
        if actors.contains_key(id) {
            return None;
        }
        let handle = Actor::spawn(Arc::clone(self), id.clone(), self.serial(), start);
        actors.insert(id.clone(), handle.clone());
        Some(handle)
    }

    fn serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets an actor that has ended, unless a later one took its place.
    pub(crate) fn forget(&self, id: &SessionId, serial: u64) {
        let mut actors = self.actors();
        if actors.get(id).is_some_and(|handle| handle.serial == serial) {
            actors.remove(id);
        }
    }

    /// Every actor.
    pub(crate) fn all(&self) -> Vec<(SessionId, Handle)> {
        self.actors().iter().map(|(id, handle)| (id.clone(), handle.clone())).collect()
    }
}
