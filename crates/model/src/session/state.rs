//! What a session is: the fold of its events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::prompts::Given;
use crate::answers::Answers;
use crate::ids::{
    CallId, ClientId, Generation, Micros, PromptId, QuestionId, RecordId, RequestId, ResponseId, SessionId,
};
use crate::policy::{Ballot, Capture, Strategy};
use crate::question;

/// How many settled questions a session keeps in memory for late voters. Older ones are read from the ledger.
pub const SETTLED_KEPT: usize = 512;

/// What a session was opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    /// The workspace: an absolute path.
    pub workspace_cwd: String,
    /// The agent that runs it, by its configured name.
    pub agent: String,
    /// What kind of surface opened it, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// That surface's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
    /// The approval mode that it was opened with, for as long as it lives; `None` is the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_mode: Option<String>,
}

/// Which call asks: the model turn that holds it, and the call's id. A provider's id alone is not unique over
/// a history, so the two together are the question's identity (`ARCHITECTURE`, "Identities").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// The record of the model turn; `None` for agents that do not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<RecordId>,
    /// The call.
    pub call: CallId,
}

/// What is put to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// Questions of the model.
    UserQuestion {
        /// One to four of them (Q1).
        questions: Vec<question::Question>,
    },
    /// Consent to a tool call.
    Permission {
        /// The call as the agent sent it: type, title, content, locations, input.
        action: Value,
    },
}

impl Body {
    /// The questions; none for a permission.
    pub fn questions(&self) -> &[question::Question] {
        match self {
            Self::UserQuestion { questions } => questions,
            Self::Permission { .. } => &[],
        }
    }

    /// Whether this is a question of the model, and not a permission.
    pub fn is_question(&self) -> bool {
        matches!(self, Self::UserQuestion { .. })
    }
}

/// One thing that a voter can choose on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoteOption {
    /// What a vote names.
    pub option_id: String,
    /// What a person reads.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`.
    pub kind: String,
}

impl VoteOption {
    /// Whether choosing it is a no.
    pub fn rejects(&self) -> bool {
        self.kind.starts_with("reject")
    }
}

/// One question or permission put to people (D1). Never edited once asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Its durable identity.
    pub id: QuestionId,
    /// The how-manieth question of the session it is.
    pub generation: Generation,
    /// Which call asks.
    pub call: CallKey,
    /// The turn that asks; of a restored question the turn that asked it last.
    pub prompt: Option<PromptId>,
    /// The client whose prompt led to it.
    pub author: Option<ClientId>,
    /// One line for lists.
    pub title: String,
    /// What is put to people.
    pub body: Body,
    /// What a vote may choose.
    pub options: Vec<VoteOption>,
    /// When it was first asked.
    pub asked_at: Micros,
    /// Every request id that it was asked under, the newest last (R17).
    pub requests: Vec<RequestId>,
    /// The asking that people can answer now, if there is one.
    pub asking: Option<Asking>,
    /// What became of it.
    pub state: State,
    /// Whether its end is in the agent's history.
    pub delivered: bool,
    /// Which surfaces have rendered it, each with its first time (D4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
}

/// A surface has rendered a question (D4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Which: `cli`, `web`, `slack` …
    pub surface: String,
    /// When, for the first time.
    pub at: Micros,
}

impl Question {
    /// Whether it still waits for an answer.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether it was asked again after the process that first asked it (*restored*; else *first life*).
    pub fn is_restored(&self) -> bool {
        self.requests.len() > 1
    }

    /// The newest request id.
    pub fn request(&self) -> Option<&RequestId> {
        self.requests.last()
    }
}

/// One live asking of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asking {
    /// Its id on the wire.
    pub request: RequestId,
    /// The life of the session in which it is asked; in another life it is over.
    pub life: u64,
    /// When this asking began: the clock of its time-out.
    pub since: Micros,
    /// Who may answer, captured when it was issued (V2).
    pub capture: Capture,
    /// The votes so far, where one is not enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ballots: Vec<Ballot>,
}

/// The life of a question: open, then exactly one of the others, for ever (I2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It waits.
    Open,
    /// Somebody decided.
    Settled(Settlement),
    /// It ended without a decision.
    Closed {
        /// Why.
        cause: CloseCause,
        /// When.
        at: Micros,
    },
}

/// A decision, and who made it (I3, V4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settlement {
    /// What was decided.
    pub decision: Decision,
    /// Who decided.
    pub by: Answerer,
    /// When.
    pub at: Micros,
    /// The answerer's own id for this answer, for retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseId>,
    /// The policy by which it was judged, where nobody was asking then: else it is that of the asking (V2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Strategy>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Answers to a question.
    Answered {
        /// By index.
        answers: Answers,
    },
    /// An option of a permission that allows.
    Selected {
        /// Which.
        #[serde(rename = "optionId")]
        option_id: String,
    },
    /// No.
    Declined {
        /// The option that said so, where one was chosen.
        #[serde(rename = "optionId", default, skip_serializing_if = "Option::is_none")]
        option_id: Option<String>,
    },
}

/// A person, as far as we know them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answerer {
    /// The attached client, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<ClientId>,
    /// A name, where the surface knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the answer was given: `http`, `cli`, `web`, `slack` …
    pub surface: String,
}

/// Why a question ended without a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseCause {
    /// A person stopped the turn while it was open (R13).
    CancelledBeforeAnswer,
    /// A client could not show it and stopped the turn (H6).
    UnreachableQuestion,
    /// The time ran out, with the flag off (S3).
    TimedOut,
    /// The session went on without an answer (R2).
    OrphanRepair,
    /// The session was deleted (D6).
    SessionDeleted,
    /// A permission of an earlier process: consent is never restored (V6).
    ProcessRestarted,
    /// The session was closed, with the flag off.
    SessionClosed,
    /// The agent took the request back.
    Withdrawn,
}

impl CloseCause {
    /// Whether it is an end that the agent writes into its history; else the question is simply gone.
    pub fn is_a_result(self) -> bool {
        match self {
            Self::CancelledBeforeAnswer
            | Self::UnreachableQuestion
            | Self::TimedOut
            | Self::SessionClosed => true,
            Self::OrphanRepair | Self::SessionDeleted | Self::ProcessRestarted | Self::Withdrawn => false,
        }
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CancelledBeforeAnswer => "cancelled_before_answer",
            Self::UnreachableQuestion => "unreachable_question",
            Self::TimedOut => "timed_out",
            Self::OrphanRepair => "orphan_repair",
            Self::SessionDeleted => "session_deleted",
            Self::ProcessRestarted => "process_restarted",
            Self::SessionClosed => "session_closed",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A prompt that waits for its turn (D5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// Its id.
    pub id: PromptId,
    /// The content blocks, as they came.
    pub blocks: Vec<Value>,
    /// Who sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// When it was accepted.
    pub at: Micros,
    /// How long its turn may take, in milliseconds; `None` is as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// What a turn was started by. A prompt of a client and a restore are different things, and only the daemon
/// makes the latter (R6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "origin", rename_all = "snake_case")]
pub enum Origin {
    /// A client's prompt.
    Client {
        /// The prompt, kept until the agent has it in its history.
        prompt: Prompt,
    },
    /// A restore of the trailing question (R6).
    Restore {
        /// The prompt.
        id: PromptId,
        /// The client whose load or answer caused it.
        client: Option<ClientId>,
    },
    /// A generic continue of an interrupted turn.
    Continue {
        /// The prompt.
        id: PromptId,
        /// Who asked for it.
        client: Option<ClientId>,
    },
}

impl Origin {
    /// The prompt's id.
    pub fn prompt(&self) -> &PromptId {
        match self {
            Self::Client { prompt } => &prompt.id,
            Self::Restore { id, .. } | Self::Continue { id, .. } => id,
        }
    }

    /// Whose turn it is.
    pub fn client(&self) -> Option<&ClientId> {
        match self {
            Self::Client { prompt } => prompt.client.as_ref(),
            Self::Restore { client, .. } | Self::Continue { client, .. } => client.as_ref(),
        }
    }
}

/// The turn that runs, or that a crash interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// What started it.
    pub origin: Origin,
    /// The life in which it runs. A turn of an earlier life is interrupted: nobody works on it.
    pub life: u64,
    /// When it started.
    pub started_at: Micros,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// The agent said so.
    Completed {
        /// ACP's stop reason.
        #[serde(rename = "stopReason")]
        stop_reason: String,
        /// Whether it stopped with questions still open, so that a later load asks them again (R10).
        #[serde(default)]
        parked: bool,
    },
    /// It failed.
    Failed {
        /// For people.
        message: String,
        /// For programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// The daemon or the agent died, and the turn does not go on by itself.
    Interrupted,
}

/// A session: the fold of its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Which.
    pub id: SessionId,
    /// How many events are folded: the expected version of the next append.
    pub version: u64,
    /// What it was opened with; `None` until then.
    pub info: Option<Info>,
    /// Its title.
    pub title: Option<String>,
    /// When it was opened.
    pub created_at: Micros,
    /// When something last happened in it; that somebody looked at it, or took it up, is no news.
    pub updated_at: Micros,
    /// Whether its data was deleted.
    pub deleted: bool,
    /// The fencing token: counts the times that an agent process took it up. What an earlier life sends is
    /// dropped.
    pub life: u64,
    /// The clients that are known here, over restarts (R16).
    pub clients: BTreeSet<ClientId>,
    /// Those of them that were attached since a process of the daemon first read the session: whose votes a
    /// consensus counts (V2).
    pub present: BTreeSet<ClientId>,
    /// The generation of the newest question.
    pub generation: Generation,
    /// The open questions, and the newest settled ones.
    pub questions: BTreeMap<Generation, Arc<Question>>,
    /// How many refused votes each question's audit holds already (V5).
    pub refusals: BTreeMap<Generation, usize>,
    /// Prompts that wait for their turn.
    pub queue: VecDeque<Prompt>,
    /// Prompts that were accepted, whatever became of them.
    pub given: Given,
    /// The turn that runs or was interrupted.
    pub turn: Option<Turn>,
}

impl Session {
    /// A session before its first event.
    pub fn empty(id: SessionId) -> Self {
        Self {
            id,
            version: 0,
            info: None,
            title: None,
            created_at: Micros(0),
            updated_at: Micros(0),
            deleted: false,
            life: 0,
            clients: BTreeSet::new(),
            present: BTreeSet::new(),
            generation: Generation(0),
            questions: BTreeMap::new(),
            refusals: BTreeMap::new(),
            queue: VecDeque::new(),
            given: Given::default(),
            turn: None,
        }
    }

    /// The question with this id, if it is kept.
    pub fn question(&self, id: &QuestionId) -> Option<&Arc<Question>> {
        self.questions.values().rev().find(|question| question.id == *id)
    }

    /// The question that was asked under this request id, now or before (R17).
    pub fn by_request(&self, request: &RequestId) -> Option<&Arc<Question>> {
        self.questions.values().rev().find(|question| question.requests.contains(request))
    }

    /// The newest question of this call.
    pub fn by_call(&self, call: &CallKey) -> Option<&Arc<Question>> {
        self.questions.values().rev().find(|question| question.call == *call)
    }

    /// The open questions, oldest first.
    pub fn open(&self) -> impl Iterator<Item = &Arc<Question>> {
        self.questions.values().filter(|question| question.is_open())
    }

    /// The open questions that are being asked in this life, oldest first.
    pub fn asked_now(&self) -> impl Iterator<Item = (&Arc<Question>, &Asking)> {
        self.open().filter_map(|question| {
            let asking = question.asking.as_ref()?;
            (asking.life == self.life).then_some((question, asking))
        })
    }

    /// Ends of questions that the agent may not have in its history yet. The end of a question whose call has
    /// asked something else since is none of them: it would answer other words (I3).
    pub fn undelivered(&self) -> impl Iterator<Item = &Arc<Question>> {
        self.questions.values().filter(|question| {
            let newest = || self.by_call(&question.call).map(|newest| newest.generation);
            !question.is_open() && !question.delivered && newest() == Some(question.generation)
        })
    }

    /// The turn that runs in this life.
    pub fn running(&self) -> Option<&Turn> {
        self.turn.as_ref().filter(|turn| turn.life == self.life)
    }

    /// The turn that an earlier life left behind.
    pub fn interrupted(&self) -> Option<&Turn> {
        self.turn.as_ref().filter(|turn| turn.life != self.life)
    }

    /// Whether a prompt with this id waits or runs.
    pub fn knows_prompt(&self, id: &PromptId) -> bool {
        self.queue.iter().any(|prompt| prompt.id == *id)
            || self.turn.as_ref().is_some_and(|turn| turn.origin.prompt() == id)
    }
}
