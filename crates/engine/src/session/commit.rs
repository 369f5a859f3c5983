//! The write path: decide, commit, evolve, and only then act (`ARCHITECTURE`, "The core is pure"; I1).

use std::collections::BTreeSet;

use futures::StreamExt as _;
use holdpoint_ledger::{Append, AppendError, SessionRow, Urgency};
use holdpoint_model::session::{Command, Context, Event, Session, State, decide};

use super::actor::{Actor, Link};
use super::book::Book;
use crate::error::EngineError;
use crate::owed::deliver_later;
use crate::port::{Exit, Reply};

impl Actor {
    /// Decides a command, commits what follows before anything is told to anybody, and acts on it.
    pub(super) async fn execute(&mut self, command: Command) -> Result<Vec<Event>, EngineError> {
        let events = self.commit(command).await?;
        self.act(&events);
        Ok(events)
    }

    /// Decides a command and commits what follows. When this returns, the events have taken effect here, and nobody
    /// knows: the caller tells whoever waits for the commit alone, and then [acts](Self::act).
    ///
    /// Where an earlier deferred commit was lost, the session starts over from what the ledger holds, and the
    /// caller learns that nothing was accepted.
    pub(super) async fn commit(&mut self, command: Command) -> Result<Vec<Event>, EngineError> {
        let outcome = self.try_commit(command).await;
        if let Err(Failed::Behind(error)) = &outcome {
            self.start_over(error).await;
        }
        outcome.map_err(EngineError::from)
    }

    async fn try_commit(&mut self, command: Command) -> Result<Vec<Event>, Failed> {
        let events = decide(&self.state, command, &self.context_now()).map_err(EngineError::from)?;
        if events.is_empty() {
            return Ok(events);
        }
        let append = self.prepare(&events, Urgency::Now)?;
        let at = append.at;
        if let Err(error) = self.shared.ledger.append(append).await {
            self.state.fall_back();
            return Err(match error {
                AppendError::Conflict { .. } => Failed::Behind(error),
                AppendError::Unavailable(_) | AppendError::Shut => Failed::Refused(error.into()),
            });
        }
        if events.iter().any(|event| matches!(event, Event::Settled { .. })) {
            holdpoint_crashpoint::hit("daemon.answer_committed");
        }
        if events.iter().any(|event| matches!(event, Event::PromptQueued { .. })) {
            holdpoint_crashpoint::hit("daemon.prompt_committed");
        }
        self.state.take(&events, at);
        Ok(events)
    }

    /// Decides a command whose events nobody waits for, and which a crash may lose: what they say is found
    /// again when the session is next taken up.
    pub(super) fn execute_lazily(&mut self, command: Command) -> Result<Vec<Event>, EngineError> {
        self.defer(command, |committing| committing)
    }

    /// As [`Self::execute_lazily`]; `follow` may look at what becomes of the commit.
    pub(super) fn defer(
        &mut self,
        command: Command,
        follow: impl FnOnce(Committing) -> Committing,
    ) -> Result<Vec<Event>, EngineError> {
        let events = decide(&self.state, command, &self.context_now())?;
        if !events.is_empty() {
            let append = self.prepare(&events, Urgency::Lazy)?;
            let at = append.at;
            self.lazy.push(follow(self.shared.ledger.append(append)));
            self.state.take(&events, at);
            self.act(&events);
        }
        Ok(events)
    }

    /// Tells the world what was committed.
    pub(super) fn act(&mut self, events: &[Event]) {
        for event in events {
            self.react(event, events);
        }
    }

    /// A deferred commit was lost, so the ledger knows less than was done: what it holds is true, and everything
    /// begins again from there, as after a crash. The agent drops the session, and is given it anew.
    pub(super) async fn start_over(&mut self, error: &AppendError) {
        tracing::error!(session = %self.id, %error, "a deferred commit was lost; the session starts over");
        // What still waits was decided on what is lost, and must be refused before the ledger is read.
        while self.lazy.next().await.is_some() {}
        let was_live = self.is_live();
        match std::mem::replace(&mut self.link, Link::Down) {
            Link::Up { agent, .. } => drop(self.shared.tasks.spawn(agent.close(&self.id))),
            Link::TakingUp(taking) => {
                for waiter in taking.waiters {
                    let error = EngineError::LedgerUnavailable(error.to_string());
                    drop(waiter.reply.send(Err(error)));
                }
            }
            Link::Down => {}
        }
        self.from_agent = None;
        self.sink = None;
        self.pending.clear();
        self.stalled.clear();
        self.stalled_until = None;
        self.mark = None;
        let mut outcome = self.fold().await;
        // What cannot be read may owe as well.
        if outcome.is_err()
            || self.state.undelivered().any(|question| matches!(question.state, State::Settled(_)))
        {
            deliver_later(&self.shared, self.id.clone());
        }
        if outcome.is_ok() {
            outcome = self
                .try_commit(Command::Recover)
                .await
                .map(|events| self.act(&events))
                .map_err(EngineError::from);
        }
        if outcome.is_err() || !was_live || !self.try_again_later() {
            self.give_up(&Exit { stderr_tail: error.to_string(), ..Exit::default() });
        }
    }

    /// Reads the session from the ledger.
    pub(super) async fn fold(&mut self) -> Result<(), EngineError> {
        let stored = self.shared.ledger.events(&self.id).await?;
        let events = stored.into_iter().map(|stored| (stored.at, stored.event));
        self.state = Book::new(Session::fold(self.id.clone(), events)?);
        Ok(())
    }

    /// Lets the events happen ahead of their commit, and makes what is committed.
    fn prepare(&mut self, events: &[Event], urgency: Urgency) -> Result<Append, EngineError> {
        let at = self.shared.world.now();
        let expected = self.state.version;
        let next = self.state.go_ahead(events, at)?;
        let touched: BTreeSet<_> = events.iter().filter_map(Event::generation).collect();
        let questions = touched.iter().filter_map(|generation| next.questions.get(generation)).cloned();
        Ok(Append {
            session: next.id.clone(),
            expected,
            at,
            events: events.to_vec(),
            row: row(next),
            questions: questions.collect(),
            urgency,
        })
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

/// A commit that is on its way.
pub(super) type Committing = Reply<Result<(), AppendError>>;

/// Why nothing was committed.
enum Failed {
    /// It was refused, and nothing else is wrong.
    Refused(EngineError),
    /// The ledger is behind what was done here.
    Behind(AppendError),
}

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failed> for EngineError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(error) => error,
            Failed::Behind(error) => error.into(),
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
