//! What the engine needs of agents, whatever they speak. `acp-host` is the implementation over ACP; the
//! simulation and tests have others.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use serde_json::Value;
use tokio::sync::mpsc;

/// A boxed future that owns what it needs.
pub type Reply<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// What is said to a session's actor by its agent. The order in which the agent sent things is kept.
pub enum FromAgent {
    /// A `session/update`: the `update` object.
    Update(Value),
    /// A `session/request_permission`: its params, and the way back.
    Ask {
        /// The params.
        params: Value,
        /// The way back.
        responder: Box<dyn Respond>,
    },
    /// A prompt ended.
    PromptEnded {
        /// Which.
        prompt: PromptId,
        /// How.
        end: Result<PromptEnd, AgentError>,
    },
    /// The process is gone. Nothing follows.
    Gone(Exit),
}

impl fmt::Debug for FromAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update(update) => f.debug_tuple("Update").field(update).finish(),
            Self::Ask { params, .. } => f.debug_struct("Ask").field("params", params).finish_non_exhaustive(),
            Self::PromptEnded { prompt, end } => {
                f.debug_struct("PromptEnded").field("prompt", prompt).field("end", end).finish()
            }
            Self::Gone(exit) => f.debug_tuple("Gone").field(exit).finish(),
        }
    }
}

/// The way back for one request. Dropped without an answer, it must not tell the agent anything that it could
/// take for one (`ARCHITECTURE`, trap 1).
pub trait Respond: Send {
    /// Answers with the result of the request.
    fn respond(self: Box<Self>, result: Value);
    /// Refuses the request with a JSON-RPC error.
    fn refuse(self: Box<Self>, message: String);
}

/// How a prompt ended, as the agent says.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptEnd {
    /// ACP's stop reason.
    pub stop_reason: String,
    /// The result's `_meta`.
    pub meta: Value,
}

/// How an agent process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The last lines of its stderr.
    pub stderr_tail: String,
}

/// What an agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it is our own: it names its model turns, and its transcripts are ours to read.
    pub ours: bool,
    /// Its model, if it says.
    pub model: Option<String>,
    /// Whether it can load sessions.
    pub can_load: bool,
    /// Whether it can resume sessions.
    pub can_resume: bool,
}

/// Why an agent did not do what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AgentError {
    /// It could not be started.
    #[error("the agent could not be started: {0}")]
    Start(String),
    /// It was started, and did not answer `initialize` in time.
    #[error("the agent could not be started: {message}")]
    StartTimedOut {
        /// What is known of it.
        message: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// It is gone, or the connection to it.
    #[error("the agent process ended{}", .0.describe())]
    Gone(Exit),
    /// It does not know the session.
    #[error("the agent does not know the session: {0}")]
    NoSession(String),
    /// It refused; the message is its own.
    #[error("{message}")]
    Refused {
        /// JSON-RPC's code.
        code: i64,
        /// Its words.
        message: String,
        /// What it added.
        data: Option<Value>,
    },
    /// It did not answer in time.
    #[error("the agent did not answer within {0} s")]
    TimedOut(u64),
}

impl Exit {
    /// For people: how it ended, and its last words.
    pub fn describe(&self) -> String {
        let how = match (self.code, self.signal) {
            (_, Some(signal)) => format!(" by signal {signal}"),
            (Some(code), None) => format!(" with exit code {code}"),
            (None, None) => String::new(),
        };
        let last = self.stderr_tail.trim();
        if last.is_empty() { how } else { format!("{how}; its last words: {last}") }
    }
}

/// A session is to be made.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The id that it should have; an agent that is not ours chooses its own.
    pub session: SessionId,
    /// The workspace.
    pub cwd: String,
    /// The approval mode, if one was asked for.
    pub approval_mode: Option<String>,
}

/// A stored session is to be taken up.
#[derive(Clone, Debug)]
pub struct TakeUp {
    /// Which.
    pub session: SessionId,
    /// Its workspace.
    pub cwd: String,
    /// Whether the agent may not hint at a restore (R2).
    pub suppress: bool,
    /// Ends of questions that the agent may not have in its history yet (R21).
    pub stored: Vec<StoredEnd>,
    /// Whether the agent replays the history as updates: only for agents whose files are not ours to read.
    pub replay: bool,
    /// The approval mode, if one was asked for.
    pub approval_mode: Option<String>,
}

/// The end of a question that the agent must write if the call still dangles.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEnd {
    /// The model turn.
    pub turn: Option<RecordId>,
    /// The call.
    pub call: CallId,
    /// The answer to `session/request_permission`.
    pub response: Value,
}

/// A session that an agent has taken up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TakenUp {
    /// The id under which the agent knows it.
    pub session: Option<SessionId>,
    /// Whether it hints at a restore (R5).
    pub hint: bool,
    /// What its history ends in, where it tells.
    pub tail: Option<AgentTail>,
    /// `modes`, `models`, `configOptions` of its answer.
    pub state: Value,
    /// The updates of a replay, where one was asked for.
    pub replay: Vec<Value>,
}

/// What the stored history ends in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTail {
    /// The trailing model turn.
    pub turn: Option<RecordId>,
    /// Its calls without a result on disk.
    pub open: Vec<CallId>,
    /// The prompt that the newest records belong to.
    pub last_prompt: Option<PromptId>,
    /// Whether the agent would restore it, were it not told to leave it (R2).
    pub restorable: bool,
}

/// What a prompt is for.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptKind {
    /// A client's prompt.
    Client {
        /// Its content blocks.
        blocks: Vec<Value>,
    },
    /// A restore of the trailing question (R6).
    Restore,
    /// A generic continue.
    Continue,
}

/// A prompt for an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPrompt {
    /// In which session.
    pub session: SessionId,
    /// Its id.
    pub prompt: PromptId,
    /// Whose it is.
    pub client: Option<String>,
    /// What it is for.
    pub kind: PromptKind,
}

/// One agent process, with any number of sessions.
pub trait Agent: Send + Sync + 'static {
    /// What it is.
    fn info(&self) -> &AgentInfo;

    /// Its process id.
    fn pid(&self) -> Option<u32>;

    /// Makes a session. What the agent says of it from then on goes to `sink`.
    fn new_session(
        &self,
        new: NewSession,
        sink: mpsc::Sender<FromAgent>,
    ) -> Reply<Result<TakenUp, AgentError>>;

    /// Takes a stored session up, or looks again at one that it has. What it says of it goes to `sink`.
    fn take_up(&self, take: TakeUp, sink: mpsc::Sender<FromAgent>) -> Reply<Result<TakenUp, AgentError>>;

    /// Sends a prompt, at once and in the order of the calls. Its end comes to the session's sink, after
    /// everything that the agent sent before it.
    fn prompt(&self, prompt: AgentPrompt);

    /// Asks the agent to stop the session's turn.
    fn cancel(&self, session: &SessionId);

    /// Ends the agent's part of a session: it drops what it holds. Nothing comes to the sink afterwards.
    fn close(&self, session: &SessionId) -> Reply<()>;

    /// Sets the session's approval mode.
    fn set_mode(&self, session: &SessionId, mode: &str) -> Reply<Result<(), AgentError>>;
}

/// Finds or starts the agent process of a workspace.
pub trait Agents: Send + Sync + 'static {
    /// The process for a workspace; started if there is none that lives.
    fn connect(&self, agent: &str, cwd: &str) -> Reply<Result<Arc<dyn Agent>, AgentError>>;

    /// Stops every process, and waits for it up to the deadline. Open requests are left unanswered (I12): the
    /// processes are killed before their pipes are closed.
    fn stop(&self) -> Reply<()>;

    /// How many processes live.
    fn alive(&self) -> usize;
}
