//! One actor a session: it takes one thing at a time, decides it with the core, commits, and only then acts.

mod actor;
mod ask;
mod attach;
mod book;
mod clients;
mod commit;
mod effects;
mod lost;
mod message;
mod said;
mod take_up;
mod turn;

pub use message::{
    Accepted, AnswerRequest, Attached, LoadAction, LoadRequest, Presence, PromptRequest, Queued, Receipt,
    Replay, VoteOutcome, VoteRequest,
};

pub(crate) use message::{AskedView, Msg};

pub(crate) use actor::{Actor, FROM_AGENT, Handle, Made, Start};
