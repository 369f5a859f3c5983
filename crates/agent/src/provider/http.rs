//! What every HTTP provider shares: a client built on first use, failures, and when to try again.

use std::sync::OnceLock;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::config::{HEADER_TIMEOUT_VAR, READ_TIMEOUT_VAR, Timeouts};
use super::{Delta, Endpoint, ModelTurn, Provider, ProviderError, Request};

/// Largest reply that is read, in bytes: far above any model's limit, far below a machine's.
pub(crate) const REPLY_LIMIT: usize = 32 * 1024 * 1024;
/// Most of an error's body that is read.
pub(crate) const ERROR_LIMIT: usize = 64 * 1024;
/// Most of a provider's own words that a message of ours repeats, in characters.
const QUOTE_LIMIT: usize = 400;
/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(15);

/// When to try again. The schedule is fixed (no jitter): one person's agent is no herd, and a fixed one can be
/// told and tested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Attempts in all.
    pub(crate) attempts: u32,
    /// Attempts in all where nothing listens: a wrong address is told soon.
    pub(crate) connect_attempts: u32,
    /// Attempts in all where one has already waited a whole time-out.
    pub(crate) timed_out_attempts: u32,
    /// The first wait; each further one is twice as long.
    pub(crate) base: Duration,
    /// The longest wait of the schedule.
    pub(crate) longest: Duration,
    /// The longest `Retry-After` that is waited for; beyond it the person decides.
    pub(crate) longest_asked: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts: 5,
            connect_attempts: 3,
            timed_out_attempts: 2,
            base: Duration::from_secs(1),
            longest: Duration::from_secs(16),
            longest_asked: Duration::from_secs(120),
        }
    }
}

impl Policy {
    /// How long to wait before the attempt after `attempt`; `None` to give up.
    pub(crate) fn wait(&self, attempt: u32, failure: &Failure) -> Option<Duration> {
        let allowed = match failure {
            Failure::HeaderTimeout | Failure::ReadTimeout => self.timed_out_attempts,
            Failure::Connect(_) => self.connect_attempts,
            failure if failure.may_pass() => self.attempts,
            _ => return None,
        };
        if attempt >= allowed {
            return None;
        }
        let scheduled = self.base.saturating_mul(1 << (attempt - 1).min(16)).min(self.longest);
        match failure {
            Failure::Status { retry_after: Some(asked), .. } if *asked > self.longest_asked => None,
            Failure::Status { retry_after: Some(asked), .. } => Some(*asked),
            _ => Some(scheduled),
        }
    }
}

/// Why one attempt gave no reply.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// A status that is not success.
    Status { status: u16, message: String, retry_after: Option<Duration> },
    /// No connection.
    Connect(String),
    /// No head of a response in time.
    HeaderTimeout,
    /// No further piece in time.
    ReadTimeout,
    /// The reply ended early.
    CutOff(String),
    /// An error inside the reply; whether it may pass.
    Reported { message: String, may_pass: bool },
    /// Not what the protocol says.
    Malformed(String),
}

impl Failure {
    fn may_pass(&self) -> bool {
        match self {
            Self::Status { status, .. } => transient(*status),
            Self::Connect(_) | Self::HeaderTimeout | Self::ReadTimeout | Self::CutOff(_) => true,
            Self::Reported { may_pass, .. } => *may_pass,
            Self::Malformed(_) => false,
        }
    }

    /// In words, for the notice of a retry.
    fn reason(&self) -> String {
        match self {
            Self::Status { status, message, .. } => format!("HTTP {status}: {message}"),
            Self::Connect(message) => format!("no connection: {message}"),
            Self::HeaderTimeout | Self::ReadTimeout => "nothing came in time".to_owned(),
            Self::CutOff(message) => format!("the reply was cut off: {message}"),
            Self::Reported { message, .. } | Self::Malformed(message) => message.clone(),
        }
    }

    fn into_error(self, at: &Endpoint, attempts: u32, timeouts: Timeouts) -> ProviderError {
        let at = at.clone();
        match self {
            Self::Status { status, message, retry_after } => match status {
                401 | 403 => ProviderError::Unauthorised { at, status, message },
                404 | 405 => ProviderError::NotFound { at, status, message },
                _ if transient(status) => {
                    ProviderError::Unavailable { at, status, attempts, message, retry_after }
                }
                _ => ProviderError::Rejected { at, status, message },
            },
            Self::Connect(message) => ProviderError::Connect { at, attempts, message },
            Self::HeaderTimeout => ProviderError::TimedOut {
                at,
                what: "no reply",
                after: timeouts.header,
                attempts,
                var: HEADER_TIMEOUT_VAR,
            },
            Self::ReadTimeout => ProviderError::TimedOut {
                at,
                what: "no more of its reply",
                after: timeouts.read,
                attempts,
                var: READ_TIMEOUT_VAR,
            },
            Self::CutOff(message) => ProviderError::CutOff { at, attempts, message },
            Self::Reported { message, .. } => ProviderError::Reported { at, attempts, message },
            Self::Malformed(message) => ProviderError::Malformed { at, message },
        }
    }
}

/// Whether a status may be another one soon.
pub(crate) fn transient(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}

/// The reader of one request's deltas.
#[derive(Debug)]
pub(crate) struct Tap {
    sender: mpsc::Sender<Delta>,
    /// Something of this attempt was shown.
    shown: bool,
}

impl Tap {
    /// Sends one delta and waits for room. A reader that is gone is no reason to stop.
    pub(crate) async fn send(&mut self, delta: Delta) {
        self.shown |= matches!(delta, Delta::Text(_) | Delta::Thought(_));
        let _ = self.sender.send(delta).await;
    }
}

/// One attempt at a time; [`ask`] does the rest.
pub(crate) trait Attempt: std::fmt::Debug + Send + Sync {
    /// Sends the request once.
    fn once<'a>(
        &'a self,
        request: Request<'a>,
        tap: &'a mut Tap,
    ) -> BoxFuture<'a, Result<ModelTurn, Failure>>;
    /// Where it goes.
    fn at(&self) -> &Endpoint;
    /// Its time limits.
    fn timeouts(&self) -> Timeouts;
    /// When to try again.
    fn policy(&self) -> Policy;
}

/// Whatever asks over HTTP is a provider in the same way.
impl<T: Attempt> Provider for T {
    fn stream<'a>(
        &'a self,
        request: Request<'a>,
        deltas: mpsc::Sender<Delta>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<ModelTurn, ProviderError>> {
        ask(self, request, deltas, cancel).boxed()
    }

    fn model(&self) -> &str {
        &self.at().model
    }

    fn describe(&self) -> String {
        format!("{} at {}", self.at().model, self.at())
    }
}

/// Asks until there is a reply, or no hope. A reply that broke off is asked for again even where text of it
/// was shown: nothing is acted on before a reply is whole, and the reader is told that it starts again.
pub(crate) async fn ask(
    provider: &impl Attempt,
    request: Request<'_>,
    deltas: mpsc::Sender<Delta>,
    cancel: CancellationToken,
) -> Result<ModelTurn, ProviderError> {
    let attempts = async {
        let mut tap = Tap { sender: deltas, shown: false };
        let mut attempt = 1;
        loop {
            let failure = match provider.once(request, &mut tap).await {
                Ok(turn) => return Ok(turn),
                Err(failure) => failure,
            };
            let Some(after) = provider.policy().wait(attempt, &failure) else {
                return Err(failure.into_error(provider.at(), attempt, provider.timeouts()));
            };
            attempt += 1;
            tracing::debug!(attempt, ?after, reason = failure.reason(), "asking the model again");
            let restarts = std::mem::take(&mut tap.shown);
            tap.send(Delta::Retrying { attempt, after, reason: failure.reason(), restarts }).await;
            tokio::time::sleep(after).await;
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ProviderError::Cancelled),
        outcome = attempts => outcome,
    }
}

/// An HTTP client that is built by the first request: TLS and its certificates cost memory that an agent which
/// only waits shall not have.
#[derive(Debug, Default)]
pub(crate) struct LazyClient(OnceLock<reqwest::Client>);

impl LazyClient {
    /// The client for `base`.
    pub(crate) fn get(&self, base: &Url) -> Result<reqwest::Client, Failure> {
        if let Some(client) = self.0.get() {
            return Ok(client.clone());
        }
        let client = build_client(base).map_err(|error| {
            let hint =
                if base.scheme() == "https" { " (are the system's CA certificates installed?)" } else { "" };
            Failure::Malformed(format!("the HTTP client cannot start: {}{hint}", innermost(&error)))
        })?;
        Ok(self.0.get_or_init(|| client).clone())
    }
}

fn build_client(base: &Url) -> Result<reqwest::Client, reqwest::Error> {
    // An error means that the process has a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("holdpoint/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIME)
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(1);
    if base.scheme() == "http" {
        // Without TLS no certificate is needed: saves the memory, and works where the system has none.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// Scheme, host, port and path: what may be shown of an address.
pub(crate) fn shown_url(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or(""), url.path())
        .trim_end_matches('/')
        .to_owned()
}

/// Reads `Retry-After`: seconds, or a date.
pub(crate) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// The innermost cause of an error: what the system said, without the address around it.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A failure of the transport before or within a response.
pub(crate) fn transport(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    if error.is_builder() {
        Failure::Malformed(innermost(&error))
    } else if error.is_connect() {
        Failure::Connect(innermost(&error))
    } else {
        Failure::CutOff(innermost(&error))
    }
}

/// What a provider said in an error's body, shortened and without the key.
pub(crate) fn error_message(body: &[u8], key: Option<&SecretString>) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(body).ok();
    let json = match json {
        Some(serde_json::Value::Array(list)) => list.into_iter().next(),
        other => other,
    };
    let said = json.as_ref().and_then(said_in).map(str::to_owned);
    let text = said.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        if text.is_empty() {
            "it gave no reason".to_owned()
        } else if text.starts_with('<') {
            "it answered with a web page".to_owned()
        } else {
            text.to_owned()
        }
    });
    quote(&text, key)
}

/// The message in an error object, in the shapes that are about.
pub(crate) fn said_in(value: &serde_json::Value) -> Option<&str> {
    let error = value.get("error");
    [error.and_then(|error| error.get("message")), error, value.get("message"), value.get("detail")]
        .into_iter()
        .flatten()
        .find_map(serde_json::Value::as_str)
}

/// A provider's words for a message of ours: one line, not too long, and never the key.
pub(crate) fn quote(text: &str, key: Option<&SecretString>) -> String {
    let mut text = text.to_owned();
    if let Some(key) = key.map(SecretString::expose_secret).filter(|key| !key.is_empty()) {
        text = text.replace(key, "[key]");
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(QUOTE_LIMIT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> Failure {
        Failure::Status { status, message: String::new(), retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn the_schedule_doubles_is_capped_and_ends() {
        let policy = Policy { attempts: 8, ..Policy::default() };
        let waits: Vec<_> = (1..=8)
            .map(|attempt| policy.wait(attempt, &status(503, None)).map(|wait| wait.as_secs()))
            .collect();
        assert_eq!(waits, [Some(1), Some(2), Some(4), Some(8), Some(16), Some(16), Some(16), None]);
    }

    #[test]
    fn retry_after_counts_up_to_its_cap() {
        let policy = Policy::default();
        assert_eq!(policy.wait(1, &status(429, Some(7))), Some(Duration::from_secs(7)));
        assert_eq!(policy.wait(1, &status(429, Some(3600))), None);
        assert_eq!(policy.wait(1, &status(400, Some(1))), None);
        assert_eq!(policy.wait(1, &status(401, None)), None);
        assert_eq!(policy.wait(2, &Failure::HeaderTimeout), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:30Z".parse().unwrap();
        assert_eq!(retry_after(" 12 ", now), Some(Duration::from_secs(12)));
        assert_eq!(retry_after("0.5", now), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:07 GMT", now), Some(Duration::ZERO));
        for bad in ["", "-1", "soon", "NaN", "inf", "1e400"] {
            assert_eq!(retry_after(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn messages_are_found_shortened_and_without_the_key() {
        let key = SecretString::from("sk-secret");
        let read = |body: &str| error_message(body.as_bytes(), Some(&key));
        assert_eq!(read(r#"{"error":{"message":"bad key sk-secret"}}"#), "bad key [key]");
        assert_eq!(read(r#"[{"error":{"message":"quota"}}]"#), "quota");
        assert_eq!(read(r#"{"error":"plain"}"#), "plain");
        assert_eq!(read(r#"{"detail":"gone"}"#), "gone");
        assert_eq!(read("<html>"), "it answered with a web page");
        assert_eq!(read(" \n"), "it gave no reason");
        assert_eq!(read(&"x".repeat(1000)).chars().count(), QUOTE_LIMIT + 1);
        assert_eq!(error_message(&[0xff, b'a'], None), "\u{fffd}a");
    }

    #[test]
    fn addresses_are_shown_without_credentials_and_query() {
        let url = Url::parse("http://u:p@host:81/v1/?key=x#y").unwrap();
        assert_eq!(shown_url(&url), "http://host:81/v1");
        assert!(is_loopback(&Url::parse("http://[::1]:80/").unwrap()));
        assert!(!is_loopback(&Url::parse("http://10.0.0.1/").unwrap()));
    }
}
