//! Answers that were acknowledged and could not be given to the agent, because the ledger took no commits: they are given as
//! soon as it does again, without anybody having to ask for it (I4).

use std::sync::Arc;
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
    let shared = Arc::clone(shared);
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
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
