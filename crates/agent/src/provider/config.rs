//! Which model is used: flags first, then the environment, and the demo when nothing is said.

use std::time::Duration;

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use super::demo::Demo;
use super::genai::{self, GenAi};
use super::openai::OpenAi;
use super::{Provider, http};

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
        /// The address, without `/chat/completions`.
        base_url: Url,
        /// The model's name.
        model: String,
        /// The key; local servers often want none.
        key: Option<SecretString>,
    },
    /// Anthropic's own API.
    Anthropic {
        /// Another address than Anthropic's own.
        base_url: Option<Url>,
        /// The model's name.
        model: String,
        /// The key.
        key: SecretString,
    },
    /// Gemini's own API.
    Gemini {
        /// Another address than Google's own.
        base_url: Option<Url>,
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
    #[error(
        "{given} is set but no model is named; give --model NAME or set OPENAI_MODEL (--model demo is the built-in demo)"
    )]
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

/// The shortest key that is looked for in texts.
const MIN_KEY: usize = 8;

impl ModelConfig {
    /// The demo model.
    pub fn demo() -> Self {
        Self { backend: Backend::Demo, timeouts: Timeouts::default() }
    }

    /// The text without the model's key: a command can read its parents' environment, and what it prints goes
    /// into the transcript and to the model.
    pub fn redact(&self, text: String) -> String {
        let key = match &self.backend {
            Backend::Demo => None,
            Backend::OpenAi { key, .. } => key.as_ref(),
            Backend::Anthropic { key, .. } | Backend::Gemini { key, .. } => Some(key),
        };
        match key.map(|key| key.expose_secret()) {
            // A short "key" is a stand-in for servers that want any, and may be a word of the text.
            Some(key) if key.len() >= MIN_KEY && text.contains(key) => text.replace(key, "[the model's key]"),
            _ => text,
        }
    }

    /// Whether this is the demo model.
    pub fn is_demo(&self) -> bool {
        matches!(self.backend, Backend::Demo)
    }

    /// Finds the model: explicit values first, then the environment, read through `env`.
    ///
    /// - `demo` is the demo, and so is nothing at all.
    /// - A base URL that is given explicitly is OpenAI-compatible, whatever the model is called: gateways serve
    ///   `anthropic/…` under their own address.
    /// - A model named `claude-…` or `anthropic/…`, `gemini-…` or `gemini/…` goes to its maker, with the key of
    ///   `ANTHROPIC_API_KEY` or `GEMINI_API_KEY`, unless only `OPENAI_BASE_URL` says where a model is.
    /// - Any other model, and any of `OPENAI_BASE_URL` and `OPENAI_API_KEY`, is OpenAI-compatible. Without a
    ///   model that is an error rather than a guess that somebody pays for.
    ///
    /// # Errors
    /// What was given is incomplete or cannot be used.
    pub fn resolve(
        model: Option<String>,
        base_url: Option<String>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let clean = |value: Option<String>| value.map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let var = |name: &str| clean(env(name));
        let key = |name: &str| var(name).map(SecretString::from);
        let timeouts = Timeouts {
            header: seconds(HEADER_TIMEOUT_VAR, var(HEADER_TIMEOUT_VAR), Timeouts::default().header)?,
            read: seconds(READ_TIMEOUT_VAR, var(READ_TIMEOUT_VAR), Timeouts::default().read)?,
        };
        let flag_base = clean(base_url);
        let env_base = var("OPENAI_BASE_URL");
        let flag_model = clean(model);
        let named = flag_model.is_some();
        let model = flag_model.or_else(|| var("OPENAI_MODEL"));
        let openai_key = key("OPENAI_API_KEY");
        if model.as_deref() == Some("demo") {
            return Ok(Self { backend: Backend::Demo, timeouts });
        }
        let Some(model) = model else {
            return match (flag_base, env_base, openai_key) {
                (None, None, None) => Ok(Self { backend: Backend::Demo, timeouts }),
                (Some(_), ..) => Err(ConfigError::NoModel { given: "--base-url" }),
                (None, Some(_), _) => Err(ConfigError::NoModel { given: "OPENAI_BASE_URL" }),
                (None, None, Some(_)) => Err(ConfigError::NoModel { given: "OPENAI_API_KEY" }),
            };
        };
        if flag_base.is_none()
            && let Some((maker, name)) = Maker::of(&model)
        {
            let maker_key = maker.key_vars().iter().find_map(|name| key(name));
            if env_base.is_none() || (named && maker_key.is_some()) {
                let Some(key) = maker_key else {
                    return Err(ConfigError::NoKey { model, variable: maker.key_vars()[0] });
                };
                let base_url = var(maker.base_var()).map(|url| checked_url(&url)).transpose()?;
                let model = name.to_owned();
                let backend = match maker {
                    Maker::Anthropic => Backend::Anthropic { base_url, model, key },
                    Maker::Gemini => Backend::Gemini { base_url, model, key },
                };
                return Ok(Self { backend, timeouts });
            }
        }
        let base = flag_base.or(env_base);
        if base.is_none() && openai_key.is_none() {
            return Err(ConfigError::NoKey { model, variable: "OPENAI_API_KEY" });
        }
        let base_url = checked_url(base.as_deref().unwrap_or(OPENAI_BASE_URL))?;
        Ok(Self { backend: Backend::OpenAi { base_url, model, key: openai_key }, timeouts })
    }

    /// The line for start-up: what is used and where, without secrets.
    pub fn describe(&self) -> String {
        match &self.backend {
            Backend::Demo => "demo".to_owned(),
            Backend::OpenAi { base_url, model, .. } => format!("{model} at {}", http::shown_url(base_url)),
            Backend::Anthropic { base_url, model, .. } | Backend::Gemini { base_url, model, .. } => {
                let default = if matches!(self.backend, Backend::Anthropic { .. }) {
                    genai::ANTHROPIC_BASE_URL
                } else {
                    genai::GEMINI_BASE_URL
                };
                let shown = base_url.as_ref().map_or_else(|| default.to_owned(), http::shown_url);
                format!("{model} at {}", shown.trim_end_matches('/'))
            }
        }
    }

    /// The provider. Cheap: nothing is opened before the first request.
    pub fn provider(&self) -> Box<dyn Provider> {
        match &self.backend {
            Backend::Demo => Box::new(Demo),
            Backend::OpenAi { base_url, model, key } => {
                Box::new(OpenAi::new(base_url.clone(), model.clone(), key.clone(), self.timeouts))
            }
            Backend::Anthropic { base_url, model, key } => {
                Box::new(GenAi::anthropic(base_url.clone(), model.clone(), key.clone(), self.timeouts))
            }
            Backend::Gemini { base_url, model, key } => {
                Box::new(GenAi::gemini(base_url.clone(), model.clone(), key.clone(), self.timeouts))
            }
        }
    }
}

/// Who makes a model, as far as its name tells.
#[derive(Clone, Copy)]
enum Maker {
    Anthropic,
    Gemini,
}

impl Maker {
    /// The maker and the model's own name.
    fn of(model: &str) -> Option<(Self, &str)> {
        if let Some(name) = model.strip_prefix("anthropic/") {
            Some((Self::Anthropic, name))
        } else if let Some(name) = model.strip_prefix("gemini/") {
            Some((Self::Gemini, name))
        } else if model.starts_with("claude-") {
            Some((Self::Anthropic, model))
        } else if model.starts_with("gemini-") {
            Some((Self::Gemini, model))
        } else {
            None
        }
    }

    fn key_vars(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        }
    }

    fn base_var(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Gemini => "GEMINI_BASE_URL",
        }
    }
}

fn seconds(
    variable: &'static str,
    value: Option<String>,
    default: Duration,
) -> Result<Duration, ConfigError> {
    let Some(value) = value else { return Ok(default) };
    value
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        // A day is for ever here, and keeps sums of times far from any overflow.
        .filter(|time| !time.is_zero() && time.as_secs() <= 86_400)
        .ok_or(ConfigError::BadTimeout { variable, value })
}

/// Reads an address. One with credentials is refused: it would be shown, and keys have a place of their own.
fn checked_url(text: &str) -> Result<Url, ConfigError> {
    let bad =
        |url: &str, problem: &str| ConfigError::BadUrl { url: url.to_owned(), problem: problem.to_owned() };
    let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let url = Url::parse(text).map_err(|error| bad(shown, &error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(shown, "it holds a user name or password; put the key in OPENAI_API_KEY"));
    }
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad(shown, "it is not an http or https address"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_taken_out_of_what_a_tool_prints() {
        let env = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-very-secret".to_owned());
        let config = ModelConfig::resolve(Some("m".to_owned()), None, &env).unwrap();
        let printed = "OPENAI_API_KEY=sk-very-secret\n".to_owned();
        assert_eq!(config.redact(printed), "OPENAI_API_KEY=[the model's key]\n");
        assert_eq!(ModelConfig::demo().redact("sk-very-secret".to_owned()), "sk-very-secret");
    }

    fn resolve(model: &str, base: &str, vars: &[(&str, &str)]) -> Result<String, ConfigError> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let env = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        ModelConfig::resolve(some(model), some(base), &env).map(|config| {
            let provider = config.provider();
            assert_eq!(provider.describe(), config.describe());
            assert!(!format!("{config:?} {provider:?}").contains("sk-secret"));
            config.describe()
        })
    }

    const KEY: (&str, &str) = ("OPENAI_API_KEY", "sk-secret");
    const CLAUDE: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-secret");

    #[test]
    fn what_people_expect() {
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(resolve("", "", &[]), ok("demo"));
        assert_eq!(resolve("demo", "http://h/v1", &[KEY]), ok("demo"));
        assert_eq!(resolve("", "", &[("OPENAI_API_KEY", " "), CLAUDE]), ok("demo"));
        assert_eq!(resolve("m", "", &[KEY]), ok("m at https://api.openai.com/v1"));
        assert_eq!(resolve("", "", &[KEY, ("OPENAI_MODEL", "m")]), ok("m at https://api.openai.com/v1"));
        assert_eq!(resolve("m", "http://127.0.0.1:1234/v1/", &[]), ok("m at http://127.0.0.1:1234/v1"));
        assert_eq!(
            resolve("f", "http://flag", &[("OPENAI_BASE_URL", "http://env"), ("OPENAI_MODEL", "e")]),
            ok("f at http://flag")
        );
        assert_eq!(
            resolve("", "", &[("OPENAI_BASE_URL", "http://env"), ("OPENAI_MODEL", "e")]),
            ok("e at http://env")
        );
        assert_eq!(resolve("claude-x", "", &[CLAUDE]), ok("claude-x at https://api.anthropic.com/v1"));
        assert_eq!(
            resolve("anthropic/claude-x", "", &[CLAUDE, ("ANTHROPIC_BASE_URL", "http://a/v1/")]),
            ok("claude-x at http://a/v1")
        );
        assert_eq!(
            resolve("anthropic/claude-x", "http://gate/v1", &[CLAUDE]),
            ok("anthropic/claude-x at http://gate/v1")
        );
        assert_eq!(
            resolve("", "", &[("OPENAI_MODEL", "claude-x"), ("OPENAI_BASE_URL", "http://env"), CLAUDE]),
            ok("claude-x at http://env")
        );
        assert_eq!(
            resolve("claude-x", "", &[("OPENAI_BASE_URL", "http://env"), CLAUDE]),
            ok("claude-x at https://api.anthropic.com/v1")
        );
        assert_eq!(
            resolve("gemini-x", "", &[("GEMINI_API_KEY", "sk-secret")]),
            ok("gemini-x at https://generativelanguage.googleapis.com/v1beta")
        );
    }

    #[test]
    fn what_is_incomplete_says_what_to_set() {
        let error = |model: &str, base: &str, vars: &[(&str, &str)]| {
            resolve(model, base, vars).unwrap_err().to_string()
        };
        assert!(error("", "", &[KEY]).contains("--model"), "a key without a model");
        assert!(error("", "http://h", &[]).contains("--base-url is set but no model"));
        assert!(error("gpt-x", "", &[]).contains("OPENAI_API_KEY"));
        assert!(error("claude-x", "", &[KEY]).contains("ANTHROPIC_API_KEY"));
        assert!(error("m", "ftp://h", &[]).contains("http"));
        assert!(error("m", "127.0.0.1:80", &[]).contains("cannot be used"));
        assert!(!error("m", "http://u:sk-secret@h/v1", &[]).contains("sk-secret"));
        assert!(error("m", "http://h", &[(READ_TIMEOUT_VAR, "-1")]).contains(READ_TIMEOUT_VAR));
    }
}
