//! What an edge wants, with the identities that it believes in.

use serde_json::Value;

use super::event::UnaskedCause;
use super::state::{Answerer, Body, CallKey, Info, Prompt, TurnEnd, VoteOption};
use crate::ids::{
    CallId, ClientId, Generation, Micros, PromptId, QuestionId, RecordId, RequestId, ResponseId,
};
use crate::policy::{Forbidden, Strategy, Voter};

/// What a decision depends on beside the state.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Now.
    pub now: Micros,
    /// Whether the flag is on (S1).
    pub restore: bool,
    /// The policy for requests that are issued now (V2).
    pub strategy: Strategy,
    /// Its configured quorum.
    pub quorum: Option<usize>,
    /// Most prompts that a session may hold, the running one counted; `None` is no limit.
    pub max_prompts: Option<usize>,
}

/// What an answer on our own route chooses.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Answers, as they were sent.
    Answers(Value),
    /// An option of a permission.
    Option(String),
    /// No.
    Decline,
}

/// What the agent says of the stored history when it has taken a session up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The trailing model turn, if the history ends in one or in results of its calls.
    pub turn: Option<RecordId>,
    /// Its calls that have no result.
    pub open: Vec<CallId>,
    /// The prompt that the newest records belong to.
    pub last_prompt: Option<PromptId>,
    /// Whether the daemon will go on with that turn now.
    pub restoring: bool,
    /// Whether the agent was free to have that turn go on, and will not: its questions are not asked again (E3), though
    /// an answer still reaches it.
    pub given_up: bool,
}

/// What an edge wants of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Open it.
    Open {
        /// With this.
        info: Info,
    },
    /// An agent process takes it up.
    StartLife,
    /// A process of the daemon reads it for the first time: what another process asked is not asked now.
    Recover,
    /// Attach a client: keeps `presented` if it is known here, else registers `minted` (WIRE a.7).
    Attach {
        /// What the request named.
        presented: Option<ClientId>,
        /// A fresh id.
        minted: ClientId,
    },
    /// Accept a prompt. It starts at once if nothing runs and nothing holds the queue. The same one again (by its id) is
    /// accepted, and changes nothing (D5).
    Prompt {
        /// It.
        prompt: Prompt,
        /// Whether the queue must wait: a load is under way.
        hold: bool,
    },
    /// Start the next prompt if nothing runs.
    StartNext,
    /// Take a waiting prompt back.
    RemovePrompt {
        /// Which.
        id: PromptId,
    },
    /// Go on with the trailing question (R6).
    AdmitRestore {
        /// The id for it, unless a crash left one that is still waited for (R15).
        fresh: PromptId,
        /// The client whose load or answer caused it.
        client: Option<ClientId>,
    },
    /// Go on with an interrupted turn.
    AdmitContinue {
        /// Its prompt id.
        fresh: PromptId,
        /// Who asked.
        client: Option<ClientId>,
    },
    /// The agent ended the turn.
    EndTurn {
        /// In which life.
        life: u64,
        /// Which turn.
        prompt: PromptId,
        /// How.
        outcome: TurnEnd,
    },
    /// The agent asks.
    Ask {
        /// In which life.
        life: u64,
        /// A fresh id, used if it is a new question.
        question: QuestionId,
        /// The request id of this asking.
        request: RequestId,
        /// Which call asks.
        call: CallKey,
        /// One line for lists.
        title: String,
        /// What is put to people.
        body: Body,
        /// What a vote may choose.
        options: Vec<VoteOption>,
    },
    /// A vote on the peer's route.
    Vote {
        /// For this request.
        request: RequestId,
        /// By whom.
        voter: Voter,
        /// How the answer names them.
        by: Answerer,
        /// The chosen option; `None` is the outcome `cancelled`.
        option: Option<String>,
        /// The answers, as they were sent.
        answers: Option<Value>,
    },
    /// An answer on our own route (D2).
    Answer {
        /// To this question.
        question: QuestionId,
        /// And this generation.
        generation: Generation,
        /// By whom.
        voter: Voter,
        /// How the answer names them.
        by: Answerer,
        /// What.
        choice: Choice,
        /// The answerer's id for it.
        response: Option<ResponseId>,
    },
    /// A surface has rendered a question (D4).
    NoteShown {
        /// Which.
        question: QuestionId,
        /// And which generation.
        generation: Generation,
        /// Which surface.
        surface: String,
    },
    /// Note that somebody tried to answer who may not (V5).
    NoteRefusal {
        /// On which.
        generation: Generation,
        /// Who.
        by: Answerer,
        /// Why not.
        reason: Forbidden,
    },
    /// A person stops the turn.
    Cancel {
        /// Whether a client does it because it cannot show the question (H6).
        unreachable: bool,
    },
    /// Askings end with nobody having decided.
    EndAsking {
        /// Which; `None` is all.
        generation: Option<Generation>,
        /// Why.
        cause: UnaskedCause,
    },
    /// The result of a call is in the agent's history.
    CallEnded {
        /// In which life.
        life: u64,
        /// Which call.
        call: CallId,
        /// Whether orphan repair wrote it.
        repaired: bool,
    },
    /// The agent said what its history ends in.
    Reconcile {
        /// That.
        tail: Tail,
    },
    /// Give it a title.
    Title {
        /// This.
        title: String,
    },
    /// Delete its data.
    Delete,
}
