//! Sessions, their actors, and everything that happens between an agent and people.
//!
//! [`Engine`] finds or starts a session's actor; the actor takes one message at a time, has the core decide
//! it, commits what follows to the ledger, and only then tells agents and people. Agents and the ledger are
//! behind traits, and nothing here knows HTTP or SQL.

pub mod bus;
mod config;
mod engine;
mod error;
pub mod frame;
mod health;
mod history;
mod owed;
pub mod port;
mod session;
mod shared;
pub mod wire;
mod world;

pub use config::EngineConfig;
pub use engine::{Activity, Branched, CreateRequest, Engine, QuestionList, SessionList, TranscriptOrEngine};
pub use error::EngineError;
pub use health::{LedgerHealth, Trouble};
pub use history::{Read, Summary, TranscriptFiles, Transcripts, Wanted};
pub use session::{
    Accepted, AnswerRequest, Attached, LoadAction, LoadRequest, Presence, PromptRequest, Queued, Receipt,
    Replay, VoteOutcome, VoteRequest,
};
pub use world::{SystemWorld, World};
