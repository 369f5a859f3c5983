//! What can go wrong with a model, split by what the caller can do about it.

use std::fmt;
use std::time::Duration;

/// Where a request went, for messages: scheme, host and path, never credentials or a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address as shown.
    pub shown: String,
    /// The environment variable that holds the key.
    pub key_var: &'static str,
    /// The model that was asked for.
    pub model: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Why there is no reply. Never holds a key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProviderError {
    /// The caller cancelled.
    #[error("the request to the model was cancelled")]
    Cancelled,
    /// The key is missing, wrong, or may not use the model.
    #[error("{at} refused the key (HTTP {status}): {message}; set {} to a key that may use the model {:?}", at.key_var, at.model)]
    Unauthorised {
        /// Where.
        at: Endpoint,
        /// 401 or 403.
        status: u16,
        /// What the provider said.
        message: String,
    },
    /// There is no such address or model.
    #[error("{at} was not found (HTTP {status}): {message}; check --base-url (it usually ends in /v1) and --model (now {:?})", at.model)]
    NotFound {
        /// Where.
        at: Endpoint,
        /// 404 or 405.
        status: u16,
        /// What the provider said.
        message: String,
    },
    /// The provider does not accept the request: sending it again as it is will not help.
    #[error("{at} does not accept the request (HTTP {status}): {message}; if it names the context length, start a new session; else check --model (now {:?})", at.model)]
    Rejected {
        /// Where.
        at: Endpoint,
        /// The status.
        status: u16,
        /// What the provider said.
        message: String,
    },
    /// The provider is overloaded or limits the rate, and stayed so through every attempt.
    #[error("{at} is not available (HTTP {status}, {attempts} attempts): {message}; {}", wait_hint(*retry_after))]
    Unavailable {
        /// Where.
        at: Endpoint,
        /// 408, 409, 425, 429 or 5xx.
        status: u16,
        /// How often it was tried.
        attempts: u32,
        /// What the provider said.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// No connection.
    #[error(
        "cannot connect to {at} ({attempts} attempts): {message}; check that it runs and that --base-url is right"
    )]
    Connect {
        /// Where.
        at: Endpoint,
        /// How often it was tried.
        attempts: u32,
        /// What the system said.
        message: String,
    },
    /// Nothing came for too long.
    #[error("{at} sent {what} for {} s ({attempts} attempts); try again, or raise {var} (seconds)", after.as_secs_f64())]
    TimedOut {
        /// Where.
        at: Endpoint,
        /// What was waited for, as "no reply" or "no more of its reply".
        what: &'static str,
        /// How long was waited.
        after: Duration,
        /// How often it was tried.
        attempts: u32,
        /// The environment variable that sets the time.
        var: &'static str,
    },
    /// The reply ended before the model had finished it.
    #[error(
        "the reply of {at} was cut off ({attempts} attempts): {message}; nothing of it was acted on, so send the prompt again"
    )]
    CutOff {
        /// Where.
        at: Endpoint,
        /// How often it was tried.
        attempts: u32,
        /// How it ended.
        message: String,
    },
    /// The provider reported an error inside its reply.
    #[error(
        "{at} reported an error in its reply ({attempts} attempts): {message}; nothing of it was acted on, so send the prompt again"
    )]
    Reported {
        /// Where.
        at: Endpoint,
        /// How often it was tried.
        attempts: u32,
        /// What it said.
        message: String,
    },
    /// The reply is not what the protocol says, or is too large.
    #[error(
        "{at} does not answer as expected: {message}; check that --base-url names an endpoint of the right kind"
    )]
    Malformed {
        /// Where.
        at: Endpoint,
        /// What is wrong.
        message: String,
    },
}

fn wait_hint(retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(after) => format!("it asks to wait {} s, then send the prompt again", after.as_secs()),
        None => "wait a little, then send the prompt again".to_owned(),
    }
}
