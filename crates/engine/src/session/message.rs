//! What can be asked of a session's actor. Every message that changes something lives on in the mailbox when
//! its sender goes away (`ARCHITECTURE`, trap 2).

use holdpoint_model::ids::{
    ClientId, Generation, Micros, PromptId, QuestionId, RequestId, ResponseId, SessionId,
};
use holdpoint_model::policy::Voter;
use holdpoint_model::session::{Answerer, Choice};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::bus::{Cursor, Subscription};
use crate::error::EngineError;
use crate::frame::Told;

/// The way back to who asked.
pub(super) type Answer<T> = oneshot::Sender<Result<T, EngineError>>;

/// `load` or `resume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadAction {
    /// With the history.
    Load,
    /// Without it.
    Resume,
}

impl LoadAction {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Resume => "resume",
        }
    }
}

/// How a client that is attached shows itself to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Presence {
    /// The name that it gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is: `web`, `cli`, `http` …
    pub surface: String,
}

/// A load or a resume.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// Which of the two.
    pub action: LoadAction,
    /// How the one who is attached by it shows itself.
    pub presence: Presence,
    /// The client id that the request named: a well-formed one, known or not, makes it attached (E6).
    pub client: Option<ClientId>,
    /// Most records of history to return.
    pub page_size: Option<usize>,
    /// The approval mode to set.
    pub approval_mode: Option<String>,
}

/// A session to which a client has been attached.
#[derive(Clone, Debug)]
pub struct Attached {
    /// Which.
    pub session: SessionId,
    /// Its workspace.
    pub workspace_cwd: String,
    /// Whether it was live already.
    pub attached: bool,
    /// The client's id here.
    pub client: ClientId,
    /// When the session was opened.
    pub created_at: Micros,
    /// Whether a turn runs or waits.
    pub has_active_prompt: bool,
    /// The stream's epoch.
    pub epoch: String,
    /// The newest event's id.
    pub last_event_id: u64,
    /// Modes, models and options of the agent.
    pub state: Value,
    /// What kind of surface opened it, and its name there.
    pub source: (Option<String>, Option<String>),
    /// Its title.
    pub title: Option<String>,
    /// How the last turn ended, where a crash ended it: an entry of `promptTerminals`.
    pub lost: Option<Value>,
    /// The history, after a load.
    pub replay: Option<Replay>,
}

/// The history in a load's response.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Events from the transcript.
    pub compacted: Option<Told>,
    /// Events of the turn that runs, from the stream.
    pub journal: Vec<Box<RawValue>>,
    /// Whether older history was left out.
    pub has_more: bool,
    /// The oldest record that is in it.
    pub anchor: Option<String>,
    /// What went wrong while reading, where something did.
    pub error: Option<String>,
}

/// A prompt that was accepted: it is durable.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Its id.
    pub prompt: PromptId,
    /// The newest event's id before it.
    pub last_event_id: u64,
    /// The stream's epoch.
    pub epoch: String,
    /// It was accepted before, by the id that it was sent with: what became of it, `queued`, `running` or `ended`.
    pub repeated: Option<&'static str>,
}

/// A prompt that is sent.
#[derive(Clone, Debug, Default)]
pub struct PromptRequest {
    /// The sender's id for it: the same one again is no second turn (D5). `None` gets a new one.
    pub id: Option<PromptId>,
    /// Its content.
    pub blocks: Vec<Value>,
    /// How long its turn may take, in milliseconds.
    pub deadline_ms: Option<u64>,
    /// By whom.
    pub client: Option<ClientId>,
}

/// A prompt that waits or runs.
#[derive(Clone, Debug)]
pub struct Queued {
    /// Its id.
    pub prompt: PromptId,
    /// Its content.
    pub blocks: Vec<Value>,
    /// When it was accepted.
    pub at: Micros,
    /// Whether it runs.
    pub running: bool,
    /// Whose it is.
    pub client: Option<ClientId>,
}

/// A vote on the peer's route.
#[derive(Clone, Debug)]
pub struct VoteRequest {
    /// By whom, and from where.
    pub voter: Voter,
    /// How the answer names them.
    pub by: Answerer,
    /// The option; `None` is the outcome `cancelled`.
    pub option: Option<String>,
    /// The answers, as they were sent.
    pub answers: Option<Value>,
}

/// A vote that was taken.
#[derive(Clone, Debug, Default)]
pub struct VoteOutcome {
    /// Keys of answers that were dropped (Q6).
    pub dropped: Vec<String>,
}

/// An answer on our own route (D2).
#[derive(Clone, Debug)]
pub struct AnswerRequest {
    /// Which generation it is for.
    pub generation: Generation,
    /// By whom, and from where.
    pub voter: Voter,
    /// How the answer names them.
    pub by: Answerer,
    /// What.
    pub choice: Choice,
    /// The answerer's id for it.
    pub response: Option<ResponseId>,
}

/// What became of an answer.
#[derive(Clone, Debug)]
pub enum Receipt {
    /// It settled the question, now or when it was first sent.
    Settled(Value),
    /// It counts towards a consensus.
    Recorded(Value),
}

/// What a live session knows of its open questions.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskedView {
    /// Those that people can answer now.
    pub(crate) asked: Vec<(QuestionId, holdpoint_model::session::Asking)>,
    /// Those that a load does not ask again.
    pub(crate) unrestorable: Vec<QuestionId>,
}

/// One message.
#[derive(Debug)]
pub(crate) enum Msg {
    /// Attach, loading if need be.
    Load(LoadRequest, Answer<Attached>),
    /// Attach to the live session that a create found (scope `single`).
    Attach(Option<ClientId>, Presence, Answer<Attached>),
    /// A client goes away.
    Detach(ClientId, oneshot::Sender<()>),
    /// Close it; the transcript stays.
    Close(Option<ClientId>, Answer<()>),
    /// Delete it.
    Delete(Answer<()>),
    /// A prompt.
    Prompt(PromptRequest, Answer<Accepted>),
    /// The prompts that wait or run.
    Prompts(Option<ClientId>, Answer<Vec<Queued>>),
    /// Take a waiting prompt back.
    RemovePrompt(PromptId, Option<ClientId>, Answer<bool>),
    /// Stop the turn.
    Cancel {
        /// Because a client cannot show the question (H6).
        unreachable: bool,
        /// By whom.
        client: Option<ClientId>,
        /// The way back.
        reply: Answer<()>,
    },
    /// Go on with an interrupted turn; the reply is `None` where there is nothing to go on with.
    Continue(Option<ClientId>, Answer<Option<(&'static str, Accepted)>>),
    /// A vote.
    Vote(RequestId, VoteRequest, Answer<VoteOutcome>),
    /// An answer.
    Answer(QuestionId, AnswerRequest, Answer<Receipt>),
    /// Give the agent what people decided, should it lack it.
    Deliver(Answer<()>),
    /// The status.
    Status(Option<ClientId>, Answer<Value>),
    /// What `GET /context` shows.
    Context(Option<ClientId>, Answer<Value>),
    /// A sign of life.
    Heartbeat(Option<ClientId>, Answer<Micros>),
    /// A surface has rendered a question (D4).
    Shown {
        /// Which.
        question: QuestionId,
        /// And which generation.
        generation: Generation,
        /// Which surface.
        surface: String,
        /// The way back.
        reply: Answer<()>,
    },
    /// May it be copied now? A turn that runs stands in the way.
    Branch(Answer<()>),
    /// A new title.
    Rename(String, Option<ClientId>, Answer<()>),
    /// Read the stream.
    Subscribe {
        /// From where.
        cursor: Option<Cursor>,
        /// How far the reader may lag behind.
        max_queued: usize,
        /// Who reads, where it says.
        client: Option<ClientId>,
        /// The way back.
        reply: Answer<Subscription>,
    },
    /// A row for lists, from what is live.
    Row(oneshot::Sender<Option<Value>>),
    /// The questions that people can answer now.
    AskedNow(oneshot::Sender<AskedView>),
}
