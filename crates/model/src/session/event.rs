//! What happened: the only things that change a session, and what the ledger stores.

use serde::{Deserialize, Serialize};

use super::state::{
    Answerer, Asking, Body, CallKey, CloseCause, Info, Origin, Prompt, Settlement, TurnEnd, VoteOption,
};
use crate::ids::{ClientId, Generation, PromptId, QuestionId, RequestId};
use crate::policy::{Ballot, Forbidden};

/// One thing that happened to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The session was opened.
    Opened {
        /// With this.
        info: Info,
    },
    /// An agent process took the session up; what earlier lives asked or ran is over.
    LifeStarted {
        /// The new fencing token.
        life: u64,
        /// Whether it is a new process of the daemon that only reads the session: nobody is attached to that.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recovered: bool,
    },
    /// A client was attached for the first time.
    ClientRegistered {
        /// Which.
        client: ClientId,
    },
    /// The title changed.
    Titled {
        /// To this.
        title: String,
    },
    /// A prompt was accepted (D5).
    PromptQueued {
        /// Which.
        prompt: Prompt,
    },
    /// A prompt that waited was taken back.
    PromptRemoved {
        /// Which.
        prompt: PromptId,
    },
    /// A turn began.
    TurnStarted {
        /// By what.
        origin: Origin,
    },
    /// A crash came before the agent had the prompt: it waits again, before all others.
    TurnRequeued {
        /// Which.
        prompt: PromptId,
    },
    /// A turn ended.
    TurnEnded {
        /// Which.
        prompt: PromptId,
        /// How.
        outcome: TurnEnd,
    },
    /// A question was put to people.
    Asked {
        /// Its id.
        question: QuestionId,
        /// Its number in the session.
        generation: Generation,
        /// Which call asks.
        call: CallKey,
        /// The turn that asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
        /// The client whose prompt led to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<ClientId>,
        /// One line for lists.
        title: String,
        /// What is put to people.
        body: Body,
        /// What a vote may choose.
        options: Vec<VoteOption>,
        /// The live asking.
        asking: Asking,
    },
    /// An open question was asked again, under a new request id (R7).
    Reasked {
        /// Which.
        generation: Generation,
        /// The live asking.
        asking: Asking,
    },
    /// The agent asked again for what has been decided: it is told from the ledger, and nobody is asked.
    Reissued {
        /// Which.
        generation: Generation,
        /// The request id that is answered at once.
        request: RequestId,
    },
    /// An asking ended with the question still open (R10).
    Unasked {
        /// Which.
        generation: Generation,
        /// Why.
        cause: UnaskedCause,
    },
    /// A surface has rendered it for the first time (D4).
    Shown {
        /// Which question.
        generation: Generation,
        /// Which surface.
        surface: String,
    },
    /// A vote counted, and did not decide.
    Voted {
        /// On which.
        generation: Generation,
        /// The vote.
        ballot: Ballot,
        /// Who voted, and from where (V5); `None` in ledgers of before it was noted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    },
    /// Somebody tried to answer who may not.
    Refused {
        /// On which.
        generation: Generation,
        /// Who.
        by: Answerer,
        /// Why not.
        reason: Forbidden,
    },
    /// A question was decided (I2).
    Settled {
        /// Which.
        generation: Generation,
        /// How.
        settlement: Settlement,
    },
    /// A question ended without a decision.
    Closed {
        /// Which.
        generation: Generation,
        /// Why.
        cause: CloseCause,
    },
    /// A question's end is in the agent's history.
    Delivered {
        /// Which.
        generation: Generation,
    },
    /// The session's data was deleted.
    Deleted,
}

/// Why an asking ended with the question still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnaskedCause {
    /// Nobody answered in time.
    TimedOut,
    /// The session was closed.
    SessionClosed,
    /// The turn was aborted.
    Aborted,
    /// The agent process is gone.
    AgentGone,
}
