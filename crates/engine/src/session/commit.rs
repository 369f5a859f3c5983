//! The write path: decide, commit, evolve, and only then act (`ARCHITECTURE`, "The core is pure"; I1).

use holdpoint_ledger::{Append, AppendError, SessionRow, Urgency};
use holdpoint_model::session::{Command, Context, Event, Question, Session, decide};

use super::actor::Actor;
use crate::error::EngineError;

impl Actor {
    /// Decides a command and commits what follows before anything is told to anybody.
    ///
    /// The events are returned after they have taken effect. Where somebody else wrote in between (or a lazy
    /// commit was lost), the session is folded anew and the command decided once more.
    pub(super) async fn execute(&mut self, command: Command) -> Result<Vec<Event>, EngineError> {
        let mut again = true;
        loop {
            let events = decide(&self.state, command.clone(), &self.context_now())?;
            if events.is_empty() {
                return Ok(events);
            }
            let (next, append) = self.prepare(&events, Urgency::Now)?;
            match self.shared.ledger.append(append).await {
                Ok(()) => {
                    if events.iter().any(|event| matches!(event, Event::Settled { .. })) {
                        holdpoint_crashpoint::hit("daemon.answer_committed");
                    }
                    self.state = next;
                    for event in &events {
                        self.react(event, &events);
                    }
                    return Ok(events);
                }
                Err(AppendError::Conflict { .. }) if again => {
                    again = false;
                    self.fold().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Decides a command whose events nobody waits for, and which a crash may lose: what they say is found
    /// again when the session is next taken up.
    pub(super) fn execute_lazily(&mut self, command: Command) -> Result<Vec<Event>, EngineError> {
        let events = decide(&self.state, command, &self.context_now())?;
        if !events.is_empty() {
            let (next, append) = self.prepare(&events, Urgency::Lazy)?;
            self.lazy.push(self.shared.ledger.append(append));
            self.state = next;
            for event in &events {
                self.react(event, &events);
            }
        }
        Ok(events)
    }

    /// A commit that nobody waited for failed: what the ledger holds is true.
    pub(super) async fn lazy_failed(&mut self, error: &AppendError) {
        tracing::warn!(session = %self.id, %error, "a deferred commit failed; reading the session anew");
        if let Err(error) = self.fold().await {
            tracing::error!(session = %self.id, %error, "the session cannot be read");
        }
    }

    /// Reads the session from the ledger.
    pub(super) async fn fold(&mut self) -> Result<(), EngineError> {
        let stored = self.shared.ledger.events(&self.id).await?;
        self.state =
            Session::fold(self.id.clone(), stored.into_iter().map(|stored| (stored.at, stored.event)))?;
        Ok(())
    }

    fn prepare(&self, events: &[Event], urgency: Urgency) -> Result<(Session, Append), EngineError> {
        let at = self.shared.world.now();
        let mut next = self.state.clone();
        for event in events {
            next.evolve(event, at)?;
        }
        let mut touched: Vec<_> = events.iter().filter_map(Event::generation).collect();
        touched.sort_unstable();
        touched.dedup();
        let questions: Vec<Question> = touched
            .iter()
            .filter_map(|generation| next.questions.get(generation))
            .map(|q| q.as_ref().clone())
            .collect();
        let append = Append {
            session: self.id.clone(),
            expected: self.state.version,
            at,
            events: events.to_vec(),
            row: row(&next),
            questions,
            urgency,
        };
        Ok((next, append))
    }

    pub(super) fn context_now(&self) -> Context {
        let config = &self.shared.config;
        Context {
            now: self.shared.world.now(),
            restore: config.restore,
            strategy: config.strategy,
            quorum: config.quorum,
            max_prompts: config.max_prompts,
        }
    }
}

/// What lists show of a session.
pub(super) fn row(session: &Session) -> SessionRow {
    let info = session.info.as_ref();
    SessionRow {
        session: session.id.clone(),
        workspace_cwd: info.map(|info| info.workspace_cwd.clone()).unwrap_or_default(),
        agent: info.map(|info| info.agent.clone()).unwrap_or_default(),
        title: session.title.clone(),
        created_at: session.created_at,
        updated_at: session.updated_at,
        source_type: info.and_then(|info| info.source_type.clone()),
        source_id: info.and_then(|info| info.source_id.clone()),
        deleted: session.deleted,
    }
}
