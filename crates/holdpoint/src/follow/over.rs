//! Whether the turn that is followed still goes on, where its end may have been missed.

use std::time::Duration;

use holdpoint_client::Refusal;
use serde_json::Value;
use tokio::time::Instant;

use super::{Follow, Until};
use crate::exit::Failure;

/// The end of a turn that the daemon calls over may still be on its way; after so long without it, it is not.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// How often the daemon is asked whether an answer that is on its disk has reached the agent.
const DELIVERY: Duration = Duration::from_secs(2);

impl Follow<'_> {
    /// The turn may have ended before it was followed. Ask once the events are connected.
    ///
    /// # Errors
    /// The daemon refused, or is away.
    pub(crate) async fn may_be_over(&mut self) -> Result<(), Failure> {
        self.look().await
    }

    /// After a doubt: whether the turn still runs, or will. If not, its end will not come.
    pub(super) async fn look(&mut self) -> Result<(), Failure> {
        self.doubt = false;
        self.look_at = None;
        if self.until == Until::Left {
            return Ok(());
        }
        match self.daemon.status(&self.session).await {
            Ok(status) if status.has_active_prompt => return Ok(()),
            Ok(_) => {}
            // The stream says that the session is gone, or brings it back.
            Err(error) if error.refusal() == Some(&Refusal::NotFound) || error.is_outage() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let coming = match &self.until {
            Until::Prompt(mine) => match self.daemon.pending_prompts(&self.session).await {
                Ok(queued) => queued.iter().any(|prompt| prompt.prompt_id == *mine),
                Err(error) if error.is_outage() => return Ok(()),
                Err(error) => return Err(error.into()),
            },
            Until::AnyTurn | Until::Left => self.is_undelivered().await?,
        };
        if !coming {
            self.over_at = Some(Instant::now() + ON_ITS_WAY);
        }
        Ok(())
    }

    /// Whether an answer from here is on the daemon's disk, and the agent does not have it. Looked at again then:
    /// its arrival may start no turn.
    async fn is_undelivered(&mut self) -> Result<bool, Failure> {
        for id in &self.mine {
            let view = match self.daemon.question(id).await {
                Ok(view) => view,
                Err(error) if error.is_outage() => {
                    self.look_at = Some(Instant::now() + DELIVERY);
                    return Ok(true);
                }
                Err(error) => return Err(error.into()),
            };
            let delivered = view.outcome.as_ref().and_then(|outcome| outcome.get("delivered"));
            if delivered.and_then(Value::as_bool) == Some(false) {
                if !std::mem::replace(&mut self.told_of_delivery, true) {
                    self.ui.note("the answer is on disk, and the agent does not have it yet; waiting for it");
                }
                self.look_at = Some(Instant::now() + DELIVERY);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
