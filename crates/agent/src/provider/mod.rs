//! Models behind one trait.
//!
//! A [`Provider`] takes the history and gives back one [`ModelTurn`]. Nothing of a turn may be acted on before
//! the whole of it is there: tools run after [`Provider::stream`] has returned, never from a [`Delta`]. That is
//! why a reply that was cut off can be asked for again without doing anything twice.

use std::fmt;

use futures::future::BoxFuture;
use holdpoint_model::history::{Content, Part};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub mod config;
pub mod demo;
mod error;
pub mod genai;
mod http;
pub mod openai;
mod reply;
mod sse;
mod turns;

pub use config::{ConfigError, ModelConfig};
pub use error::{Endpoint, ProviderError};

/// How many deltas wait between a provider and its reader: enough that a burst of small chunks does not stall
/// the socket, few enough that a stalled reader holds the model back instead of filling memory.
pub const DELTA_QUEUE: usize = 64;

/// `Part::extra` key that names the kind of provider whose reasoning a part holds (additive). Reasoning goes
/// back only to the kind that it came from; elsewhere it is noise, or refused.
pub const ORIGIN_KEY: &str = "holdpoint.origin";

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The system prompt; empty for none.
    pub system: &'a str,
    /// Everything said so far. No call in it dangles (R3): the caller repairs before it sends.
    pub history: &'a [Content],
    /// The tools that the model may call.
    pub tools: &'a [ToolSpec],
}

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name that the model calls.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// What is known while a reply streams. For showing only.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// More of the text.
    Text(String),
    /// More of the reasoning.
    Thought(String),
    /// The model has begun a call; its arguments are not complete yet.
    ToolCallStarted {
        /// Counts the calls of this reply from 0.
        index: usize,
        /// The tool's name.
        name: String,
        /// The id as the provider sent it.
        id: Option<String>,
    },
    /// The request failed in a way that may pass; it is sent again after a wait.
    Retrying {
        /// The attempt that comes next, from 2.
        attempt: u32,
        /// How long is waited first.
        after: std::time::Duration,
        /// Why, in words for a person.
        reason: String,
        /// The reply had already begun to stream: what was shown of it is void and the reply starts again.
        restarts: bool,
    },
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model has said what it wanted to say.
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The reply was cut at the provider's limit; a call's arguments may be incomplete (then they are a string).
    MaxTokens,
    /// The provider or the model refused to answer.
    Refusal,
}

/// What a reply cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Tokens of the reply, reasoning included.
    pub output: u64,
    /// Both together, as the provider counts.
    pub total: u64,
    /// Tokens of the reasoning.
    pub thought: u64,
    /// Tokens of the request that came from the provider's cache.
    pub cached_read: u64,
}

/// One whole reply.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTurn {
    /// Text, reasoning, signatures and calls in the order in which they came. Ids are those of the provider:
    /// missing or repeated ones are the caller's to mint. Arguments that are not JSON are a string.
    pub parts: Vec<Part>,
    /// How it ended.
    pub finish: Finish,
    /// What it cost, if the provider said so.
    pub usage: Option<Usage>,
}

/// A model.
///
/// Nothing is built, opened or read before the first request: an agent that only waits stays small.
pub trait Provider: Send + Sync + fmt::Debug {
    /// Asks the model. Dropping the future or cancelling the token ends the request; the latter gives
    /// [`ProviderError::Cancelled`]. Deltas wait for their reader; a reader that is gone loses nothing but them.
    ///
    /// # Errors
    /// See [`ProviderError`]: each says what the caller can do.
    fn stream<'a>(
        &'a self,
        request: Request<'a>,
        deltas: mpsc::Sender<Delta>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<ModelTurn, ProviderError>>;

    /// The model's name, as transcripts and status show it.
    fn model(&self) -> &str;

    /// Model and place for the start-up line, without secrets.
    fn describe(&self) -> String;
}

/// Reads the arguments of a call as a provider streamed them: no text means no arguments, and text that is not
/// JSON is kept as a string, so that the turn can tell the model.
pub(crate) fn parse_arguments(raw: String) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(&raw).unwrap_or(Value::String(raw))
}
