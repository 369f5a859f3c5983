//! Why a command is refused: each says what is true now.

use std::sync::Arc;

use super::state::{CloseCause, Question};
use crate::answers::InvalidAnswers;
use crate::ids::{Generation, PromptId};
use crate::policy::Forbidden;

/// Why a command is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// It is open already.
    #[error("the session is open already")]
    AlreadyOpen,
    /// It was never opened.
    #[error("no such session")]
    NotOpen,
    /// Its data was deleted.
    #[error("the session was deleted")]
    Deleted,
    /// What an earlier life sends is dropped.
    #[error("sent by an agent process that no longer has the session")]
    StaleLife,
    /// A turn runs.
    #[error("a turn is running")]
    Busy,
    /// No such prompt waits.
    #[error("no prompt {0} waits here")]
    UnknownPrompt(PromptId),
    /// The prompt id was used for something else.
    #[error("the prompt id {0} was used for another prompt of this session")]
    PromptIdReused(PromptId),
    /// Too many prompts wait.
    #[error("the session holds {pending} prompts, and {limit} are allowed; wait for one to end")]
    QueueFull {
        /// Most that may be held.
        limit: usize,
        /// How many are.
        pending: usize,
    },
    /// Too many questions are asked at once.
    #[error("the session asks {0} questions already")]
    TooManyPending(usize),
    /// Nothing was asked under this id, or not here.
    #[error("no such question")]
    UnknownQuestion,
    /// An earlier request id of a question, where aliases are off (R17).
    #[error("that request belongs to an earlier run of the daemon")]
    StaleRequest,
    /// Somebody has decided.
    #[error("the question has been answered")]
    AlreadySettled(Arc<Question>),
    /// It ended without a decision.
    #[error("the question was closed: {}", cause.as_str())]
    Closed {
        /// Why.
        cause: CloseCause,
        /// It.
        question: Arc<Question>,
    },
    /// Another generation was named.
    #[error("the question has generation {actual}; look at it again before you answer")]
    StaleGeneration {
        /// Its own.
        actual: Generation,
    },
    /// The response id was used for another answer to this question.
    #[error("this response id was used for another answer to the question")]
    ResponseIdReused,
    /// The policy does not let this voter settle.
    #[error("the policy does not let you answer: {}", reason.as_str())]
    Forbidden {
        /// Why.
        reason: Forbidden,
        /// Which question.
        question: Arc<Question>,
    },
    /// The option is not offered.
    #[error("the option {option:?} is not offered; choose one of {offered}")]
    InvalidOption {
        /// What was chosen.
        option: String,
        /// What is offered.
        offered: String,
    },
    /// The answers are not valid.
    #[error(transparent)]
    InvalidAnswers(#[from] InvalidAnswers),
    /// The kind of answer does not fit the kind of question.
    #[error("{0}")]
    WrongKind(&'static str),
    /// It is not being asked, and with the flag off it cannot be (D3).
    #[error(
        "the question is not being asked; start the daemon with --restore-ask-user-question to answer it"
    )]
    RestoreDisabled,
    /// It is not being asked, and its policy needs votes that are counted while it is.
    #[error("the question is being asked again now; vote once more in a moment")]
    NotAsked,
}
