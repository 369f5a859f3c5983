//! What can be read of all sessions, loaded or not: the inbox, the list of sessions, audits, and how much is going on.

use std::collections::{HashMap, HashSet};

use holdpoint_ledger::{QuestionFilter, QuestionRow, SessionFilter, SessionRow, StateFilter};
use holdpoint_model::ids::{Micros, QuestionId, SessionId};
use holdpoint_model::session::{Asking, CloseCause, State};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Engine;
use crate::error::EngineError;
use crate::session::{AskedView, Msg};
use crate::wire::audit::{AuditList, AuditPage};
use crate::wire::{audit as audit_wire, question as question_wire, session as session_wire};

/// What live sessions know of open questions.
#[derive(Debug, Default)]
struct Asked {
    now: HashMap<QuestionId, Asking>,
    unrestorable: HashSet<QuestionId>,
}

/// A list of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionList {
    /// The rows.
    pub rows: Vec<Value>,
    /// The place of the next page: (changed at, session).
    pub next: Option<(Micros, SessionId)>,
}

/// A list of questions.
#[derive(Clone, Debug, Default)]
pub struct QuestionList {
    /// The rows.
    pub rows: Vec<Value>,
    /// The place of the next page: (asked at, question).
    pub next: Option<(Micros, QuestionId)>,
}

/// How much is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Sessions that are live.
    pub sessions: usize,
    /// Agent processes.
    pub agents: usize,
    /// Turns that run or wait.
    pub running: usize,
    /// Open questions and permissions, loaded or not.
    pub open: u64,
    /// When the oldest of them was asked.
    pub oldest: Option<Micros>,
    /// Attached clients.
    pub clients: usize,
    /// Questions that are being asked, and that no surface has shown for longer than they should wait (D4).
    pub unseen: usize,
    /// Calls of the question tool that ran with nothing for people to answer, and were closed (H14), of live sessions.
    pub lost: usize,
    /// When something last happened in a live session.
    pub last: Option<Micros>,
}

impl Engine {
    /// Questions, oldest first (D2). Also says which can be answered now.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn questions(&self, filter: QuestionFilter) -> Result<QuestionList, EngineError> {
        let limit = filter.limit;
        let rows = self.shared.ledger.questions(QuestionFilter { limit: limit + 1, ..filter }).await?;
        let more = rows.len() > limit;
        let rows: Vec<_> = rows.into_iter().take(limit).collect();
        let next = rows.last().filter(|_| more).map(|row| (row.question.asked_at, row.question.id.clone()));
        let asked = self.asked_now(rows.iter().map(|row| &row.session.session)).await;
        let rows = rows.iter().map(|row| self.row(row, &asked)).collect();
        Ok(QuestionList { rows, next })
    }

    /// One question, with its outcome (D2).
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn question(&self, id: &QuestionId) -> Result<Option<Value>, EngineError> {
        let Some(row) = self.shared.ledger.question(id).await? else { return Ok(None) };
        let asked = self.asked_now(std::iter::once(&row.session.session)).await;
        Ok(Some(self.row(&row, &asked)))
    }

    fn row(&self, row: &QuestionRow, asked: &Asked) -> Value {
        let asking = asked.now.get(&row.question.id);
        let mut row = row.clone();
        if !row.question.body.is_question() && row.question.is_open() && row.run != self.shared.ledger.run() {
            // Consent is not restored: what an earlier run asked is over (V6).
            row.question.state =
                State::Closed { cause: CloseCause::ProcessRestarted, at: row.question.asked_at };
        }
        let answerable = self.shared.config.restore && row.question.body.is_question();
        let restorable = answerable && !asked.unrestorable.contains(&row.question.id);
        let unseen = question_wire::is_unseen(&row.question, self.now(), self.shared.config.unseen_after);
        question_wire::inbox_row(&row, asking, restorable, answerable, unseen)
    }

    /// The questions of these sessions that people can answer now, by the actors' word: a row of a session
    /// that is not live was asked by a process that is gone.
    async fn asked_now<'a>(&self, sessions: impl Iterator<Item = &'a SessionId>) -> Asked {
        let mut ids: Vec<_> = sessions.collect();
        ids.sort_unstable();
        ids.dedup();
        let mut all = Asked::default();
        for id in ids {
            let Some(handle) = self.shared.find(id) else { continue };
            let (reply, answer) = oneshot::channel();
            if handle.send(Msg::AskedNow(reply)).await.is_ok() {
                let AskedView { asked, unrestorable } = answer.await.unwrap_or_default();
                all.now.extend(asked);
                all.unrestorable.extend(unrestorable);
            }
        }
        all
    }

    /// Sessions of a workspace, loaded or not, the last changed first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn sessions(&self, filter: SessionFilter) -> Result<SessionList, EngineError> {
        let limit = filter.limit;
        let rows = self.shared.ledger.sessions(SessionFilter { limit: limit + 1, ..filter }).await?;
        let more = rows.len() > limit;
        let rows: Vec<_> = rows.into_iter().take(limit).collect();
        let next = rows.last().filter(|_| more).map(|row| (row.updated_at, row.session.clone()));
        let mut list = Vec::with_capacity(rows.len());
        for row in &rows {
            list.push(self.session_row(row).await?);
        }
        Ok(SessionList { rows: list, next })
    }

    async fn session_row(&self, row: &SessionRow) -> Result<Value, EngineError> {
        let live = match self.shared.find(&row.session) {
            Some(handle) => handle.row().await,
            None => None,
        };
        if let Some(mut live) = live {
            session_wire::merge(&mut live, json!({ "live": true, "isArchived": false }));
            return Ok(live);
        }
        let filter = QuestionFilter {
            state: StateFilter::Open,
            session: Some(row.session.clone()),
            limit: 64,
            ..QuestionFilter::default()
        };
        let open = self.shared.ledger.questions(filter).await?;
        let open: Vec<_> = open.into_iter().map(|row| row.question).collect();
        Ok(session_wire::stored_row(row, &open))
    }

    /// What happened to a session's questions, oldest first (V5): `page`, and where the next one begins.
    ///
    /// # Errors
    /// There is no such session, or the ledger cannot be read.
    pub async fn audit(&self, id: &SessionId, page: AuditPage) -> Result<AuditList, EngineError> {
        let events = self.shared.ledger.events(id).await?;
        if events.is_empty() {
            return Err(EngineError::NoSession(id.clone()));
        }
        Ok(audit_wire::page(&events, None, page))
    }

    /// What happened to one question, oldest first (V5); `None` where there is none.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn question_audit(
        &self,
        id: &QuestionId,
        page: AuditPage,
    ) -> Result<Option<AuditList>, EngineError> {
        let Some(row) = self.shared.ledger.question(id).await? else { return Ok(None) };
        let events = self.shared.ledger.events(&row.session.session).await?;
        Ok(Some(audit_wire::page(&events, Some(row.question.generation), page)))
    }

    /// How much is going on.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn activity(&self) -> Result<Activity, EngineError> {
        let counts = self.shared.ledger.counts().await?;
        let mut activity = Activity {
            agents: self.shared.agents.alive(),
            open: counts.open,
            oldest: counts.oldest,
            ..Activity::default()
        };
        for (_, handle) in self.shared.all() {
            if let Some(status) = handle.row().await {
                activity.sessions += 1;
                activity.running += usize::from(is_at_work(&status));
                activity.clients += status["clientCount"].as_u64().unwrap_or(0) as usize;
                activity.lost += status["lostQuestionCount"].as_u64().unwrap_or(0) as usize;
                activity.unseen += status["unseenCount"].as_u64().unwrap_or(0) as usize;
                let at = status["updatedAt"].as_str().and_then(crate::wire::read_iso);
                activity.last = activity.last.max(at);
            }
        }
        Ok(activity)
    }

    /// How many answers wait for an agent that is not at work: their sessions are not live, and a start wakes none
    /// (R12); or their agent could not store them. What is on its way to an agent does not count.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn undelivered(&self) -> Result<usize, EngineError> {
        let filter =
            QuestionFilter { state: StateFilter::Undelivered, limit: 1000, ..QuestionFilter::default() };
        let rows = self.shared.ledger.questions(filter).await?;
        let mut owed: HashMap<&SessionId, usize> = HashMap::new();
        for row in rows.iter().filter(|row| !row.session.deleted) {
            *owed.entry(&row.session.session).or_default() += 1;
        }
        let mut waiting = 0;
        for (session, count) in owed {
            if !self.is_at_work(session).await {
                waiting += count;
            }
        }
        Ok(waiting)
    }

    /// Whether a turn of the session runs or waits.
    pub(super) async fn is_at_work(&self, session: &SessionId) -> bool {
        let Some(handle) = self.shared.find(session) else { return false };
        handle.row().await.is_some_and(|row| is_at_work(&row))
    }
}

/// Whether a live session's row says that a turn of it runs or waits.
fn is_at_work(row: &Value) -> bool {
    row["hasActivePrompt"] == json!(true)
}
