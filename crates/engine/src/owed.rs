//! Answers that were acknowledged and could not be given to the agent, because the ledger took no commits: they are given as
//! soon as it does again, without anybody having to ask for it (I4).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdpoint_ledger::{QuestionFilter, StateFilter};
use holdpoint_model::ids::SessionId;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::error::EngineError;
use crate::session::Msg;
use crate::shared::Shared;

/// The first wait; each one after it is twice as long.
const SOONEST: Duration = Duration::from_secs(1);
/// The longest wait.
const LATEST: Duration = Duration::from_secs(30);
/// How often the session is woken with a ledger that works. Then something else is wrong, which more waking does not mend;
/// the answers stay in the list of those that are owed.
const WAKINGS: u32 = 5;

/// Sees to it that a session whose ledger failed gets its answers. Ends when nothing is owed, or the daemon stops.
pub(crate) fn deliver_later(shared: &Arc<Shared>, session: SessionId) {
    let Some(place) = Owing::new(shared, &session) else { return };
    let shared = Arc::clone(shared);
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
        let _place = place;
        let mut wait = SOONEST;
        let mut wakings = 0;
        while wakings < WAKINGS {
            tokio::select! {
                () = shared.stop.cancelled() => return,
                () = sleep(wait) => {}
            }
            wait = (wait * 2).min(LATEST);
            match is_owed(&shared, &session).await {
                Ok(false) => return,
                Ok(true) => {}
                Err(_) => continue,
            }
            if wake(&shared, &session).await.is_ok() {
                tracing::info!(%session, "the ledger takes commits again; the session is woken for its answers");
                wakings += 1;
            }
        }
        tracing::warn!(%session, "the agent cannot be given what people answered; the next load tries again");
    });
}

/// The sessions that are seen to, so that each is by one task only.
pub(crate) type Owed = Mutex<BTreeSet<SessionId>>;

/// One of them; taken out when dropped.
struct Owing {
    shared: Arc<Shared>,
    session: SessionId,
}

impl Owing {
    /// `None` where it is seen to already.
    fn new(shared: &Arc<Shared>, session: &SessionId) -> Option<Self> {
        let new = lock(&shared.owed).insert(session.clone());
        new.then(|| Self { shared: Arc::clone(shared), session: session.clone() })
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        lock(&self.shared.owed).remove(&self.session);
    }
}

/// The set is never left half changed, so a panic elsewhere has not harmed it.
fn lock(owed: &Owed) -> MutexGuard<'_, BTreeSet<SessionId>> {
    owed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many sessions are seen to.
pub(crate) fn count(shared: &Shared) -> usize {
    lock(&shared.owed).len()
}

async fn is_owed(shared: &Shared, session: &SessionId) -> Result<bool, EngineError> {
    let filter = QuestionFilter {
        state: StateFilter::Undelivered,
        session: Some(session.clone()),
        limit: 1,
        ..QuestionFilter::default()
    };
    let owed = shared.ledger.questions(filter).await?;
    Ok(owed.iter().any(|row| !row.session.deleted))
}

async fn wake(shared: &Arc<Shared>, session: &SessionId) -> Result<(), EngineError> {
    let (reply, answer) = oneshot::channel();
    let not_live = || EngineError::NotLive(session.clone());
    shared.find_or_start(session).send(Msg::Deliver(reply)).await.map_err(|_| not_live())?;
    answer.await.unwrap_or_else(|_| Err(not_live()))
}
