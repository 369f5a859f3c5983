//! Which model is used: flags first, then the environment, and the demo when nothing is said.

use std::time::Duration;

use secrecy::SecretString;

use super::Provider;
use super::demo::Demo;

/// Where OpenAI's own models are.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// The variables that may hold secrets of ours: never handed to a tool's process, whose output the transcript
/// keeps.
pub const SECRET_VARS: [&str; 5] =
    ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "HOLDPOINT_TOKEN"];

/// Names the environment variable of [`Timeouts::header`], in seconds.
pub const HEADER_TIMEOUT_VAR: &str = "HOLDPOINT_MODEL_HEADER_TIMEOUT";
/// Names the environment variable of [`Timeouts::read`], in seconds.
pub const READ_TIMEOUT_VAR: &str = "HOLDPOINT_MODEL_READ_TIMEOUT";

/// How long a provider waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request to the head of the response.
    pub header: Duration,
    /// Between two pieces of the response.
    pub read: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { header: Duration::from_secs(60), read: Duration::from_secs(120) }
    }
}

/// A model that can be used.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The kind of endpoint.
    pub backend: Backend,
    /// The time limits.
    pub timeouts: Timeouts,
}

/// The kinds of endpoint.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The built-in scripted model.
    Demo,
    /// Any endpoint with OpenAI's `chat/completions`.
    OpenAi {
        /// The address without `/chat/completions` and without a trailing slash.
        base_url: String,
        /// The model's name.
        model: String,
        /// The key; local servers often want none.
        key: Option<SecretString>,
    },
    /// Anthropic's own API.
    Anthropic {
        /// Another address than Anthropic's own.
        base_url: Option<String>,
        /// The model's name.
        model: String,
        /// The key.
        key: SecretString,
    },
    /// Gemini's own API.
    Gemini {
        /// Another address than Google's own.
        base_url: Option<String>,
        /// The model's name.
        model: String,
        /// The key.
        key: SecretString,
    },
}

/// Why no model can be used. The text says what to set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An endpoint or a key, but no model.
    #[error("{given} is set but no model is named; give --model NAME or set OPENAI_MODEL")]
    NoModel {
        /// What was given.
        given: &'static str,
    },
    /// A model that needs a key, and no key.
    #[error("the model {model:?} needs a key; set {variable}")]
    NoKey {
        /// The model.
        model: String,
        /// Where the key belongs.
        variable: &'static str,
    },
    /// Not an address.
    #[error("the base URL {url:?} cannot be used: {problem}; give one like http://127.0.0.1:8000/v1")]
    BadUrl {
        /// What was given, without credentials.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Not a time.
    #[error("{variable} is {value:?}; give a number of seconds greater than 0")]
    BadTimeout {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}

impl ModelConfig {
    /// The demo model.
    pub fn demo() -> Self {
        Self { backend: Backend::Demo, timeouts: Timeouts::default() }
    }

    /// Finds the model: explicit values first, then the environment, read through `env`.
    ///
    /// # Errors
    /// What was given is incomplete or cannot be used.
    pub fn resolve(
        _model: Option<String>,
        _base_url: Option<String>,
        _env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Ok(Self::demo())
    }

    /// The line for start-up: what is used and where, without secrets.
    pub fn describe(&self) -> String {
        "demo".to_owned()
    }

    /// The provider. Cheap: nothing is opened before the first request.
    pub fn provider(&self) -> Box<dyn Provider> {
        Box::new(Demo)
    }
}
