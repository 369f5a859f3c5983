//! What every ledger promises, whatever stores it. The conformance suite pins it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_model::ids::{Micros, QuestionId, RequestId, SessionId};
use holdpoint_model::session::{Event, Question};

/// A boxed future that owns what it needs.
pub type Reply<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Whether somebody waits for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Somebody does: commit as soon as the writer can, together with whatever else waits.
    Now,
    /// Nobody does, and losing it in a crash of the machine loses nothing that cannot be found again: it rides with the
    /// next urgent commit, or is written alone a moment later, without an fsync of its own; the next urgent commit
    /// makes it durable.
    Lazy,
}

/// Events of one session that are committed together, or not at all.
#[derive(Clone, Debug)]
pub struct Append {
    /// Which session.
    pub session: SessionId,
    /// How many events it has so far. Another number is a [`AppendError::Conflict`].
    pub expected: u64,
    /// When they happened.
    pub at: Micros,
    /// They, in order. Never empty.
    pub events: Vec<Event>,
    /// The session's row after them.
    pub row: SessionRow,
    /// The rows of the questions that they touch, after them (D1). Of one that is stored already its body and its
    /// time stay as they were: a question is never edited. An id of another session's question refuses the append.
    pub questions: Vec<Arc<Question>>,
    /// Whether somebody waits.
    pub urgency: Urgency,
}

/// An event as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Its place in the session, from 0.
    pub version: u64,
    /// When it happened.
    pub at: Micros,
    /// It.
    pub event: Event,
}

/// What lists show of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Which.
    pub session: SessionId,
    /// Its workspace.
    pub workspace_cwd: String,
    /// Its agent.
    pub agent: String,
    /// Its title.
    pub title: Option<String>,
    /// When it was opened.
    pub created_at: Micros,
    /// When something last happened in it.
    pub updated_at: Micros,
    /// What kind of surface opened it.
    pub source_type: Option<String>,
    /// That surface's name for it.
    pub source_id: Option<String>,
    /// Whether its data was deleted; such a row is in no list.
    pub deleted: bool,
}

/// A question, and what lists show of its session.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionRow {
    /// The question after its last event.
    pub question: Question,
    /// Its session.
    pub session: SessionRow,
    /// The run of the daemon ([`Ledger::run`]) that wrote the row last: what an earlier run asked is not
    /// asked now.
    pub run: u64,
}

/// Which state to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateFilter {
    /// Those that wait. A permission of an earlier run does not (V6).
    #[default]
    Open,
    /// Those that were decided, with a yes or a no.
    Settled,
    /// Questions that people answered or declined and whose agent does not have that yet (D3); none of a deleted session,
    /// whose agent never will (D6). Few at any time.
    Undelivered,
    /// Those that ended without a decision, and the permissions that an earlier run left open (V6): the state of
    /// such a row still says that it is open, and [`QuestionRow::run`] says that it is not.
    Closed,
    /// All.
    Any,
}

/// Which questions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionFilter {
    /// In which state.
    pub state: StateFilter,
    /// Of which session.
    pub session: Option<SessionId>,
    /// Of which workspace.
    pub workspace_cwd: Option<String>,
    /// Only questions of the model (`true`) or only permissions (`false`).
    pub user_questions: Option<bool>,
    /// Whose ids end so.
    pub ending: Option<String>,
    /// After this place.
    pub after: Option<QuestionCursor>,
    /// At most so many; 0 is none.
    pub limit: usize,
}

/// A place in a list of questions: they are listed oldest first, by time and then by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionCursor {
    /// When the question was asked.
    pub asked_at: Micros,
    /// Its id.
    pub id: QuestionId,
}

/// Which sessions to list: the last changed first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Of which workspace.
    pub workspace_cwd: Option<String>,
    /// Before this place: (changed at, session).
    pub before: Option<(Micros, SessionId)>,
    /// At most so many; 0 is none.
    pub limit: usize,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open questions of the model, and open permissions of this run.
    pub open: u64,
    /// When the oldest of them was asked.
    pub oldest: Option<Micros>,
}

/// Why an append was not committed. Nothing of it is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The session has another number of events: somebody else wrote.
    #[error("the session has {actual} events, not {expected}")]
    Conflict {
        /// What the writer believed.
        expected: u64,
        /// What is.
        actual: u64,
    },
    /// The store refused: a full disk, a damaged or read-only file; the ledger acknowledges nothing until it
    /// can write again. Or too much waits, or the append contradicts itself or what is stored (no events, another
    /// session's row or question), which concerns it alone.
    #[error("the ledger cannot commit: {0}")]
    Unavailable(String),
    /// The ledger is shut.
    #[error("the ledger is shut")]
    Shut,
}

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store refused.
    #[error("the ledger cannot be read: {0}")]
    Unavailable(String),
    /// A stored value is not what this version can read.
    #[error("the ledger holds what cannot be read: {0}")]
    Damaged(String),
    /// The ledger is shut.
    #[error("the ledger is shut")]
    Shut,
}

/// A ledger.
pub trait Ledger: Send + Sync + 'static {
    /// Commits events. The append has its place in the order when this function returns, not only when the
    /// future is polled: two calls one after the other are committed in that order. The future ends when the
    /// events are durable (I1) – of a lazy append, when they are stored: see [`Urgency::Lazy`] –, or says why they are
    /// not. Dropping it changes nothing.
    fn append(&self, append: Append) -> Reply<Result<(), AppendError>>;

    /// Every event of a session, oldest first; empty where there is no such session. Sees every append that
    /// was acknowledged before the call.
    fn events(&self, session: &SessionId) -> Reply<Result<Vec<StoredEvent>, ReadError>>;

    /// One question.
    fn question(&self, id: &QuestionId) -> Reply<Result<Option<QuestionRow>, ReadError>>;

    /// The question that was ever asked under this request id; the first, should there be several.
    fn question_by_request(&self, id: &RequestId) -> Reply<Result<Option<QuestionRow>, ReadError>>;

    /// Questions, oldest first.
    fn questions(&self, filter: QuestionFilter) -> Reply<Result<Vec<QuestionRow>, ReadError>>;

    /// One session's row.
    fn session(&self, id: &SessionId) -> Reply<Result<Option<SessionRow>, ReadError>>;

    /// Sessions, the last changed first, without those that were deleted.
    fn sessions(&self, filter: SessionFilter) -> Reply<Result<Vec<SessionRow>, ReadError>>;

    /// How much waits.
    fn counts(&self) -> Reply<Result<Counts, ReadError>>;

    /// Which run of the daemon this is, from 1: higher than that of every earlier one that has written. One that has
    /// not may leave its number to the next, so it tells runs apart in what is stored, and nowhere else.
    fn run(&self) -> u64;

    /// Commits what waits and closes; from the call on appends are [`AppendError::Shut`], and reads are
    /// [`ReadError::Shut`]. The future ends when nothing is open any more; dropping it changes nothing.
    fn shut(&self) -> Reply<()>;
}
