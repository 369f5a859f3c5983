//! Calls of the daemon.

use std::time::Duration;

use holdpoint_model::ids::{ClientId, PromptId, QuestionId, RequestId, SessionId};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{ApiError, ClientError};
use crate::login::LoginCode;
use crate::question::{AnswerRequest, Filter, Inbox, QuestionView, Receipt};
use crate::scheme::{is_tls_refusal, other_scheme, scheme_is};
use crate::session::{
    Accepted, Attached, Capabilities, Continued, NewSession, PendingPrompt, SessionList, SessionStatus,
    TranscriptPage, TranscriptQuery, Vote,
};
use crate::subscription::{Cursor, Subscription};

/// Where a daemon listens unless it is told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:4170";

/// For one ordinary call.
const CALL_TIME: Duration = Duration::from_secs(30);
/// A load has 60 s in the daemon; a little more, so that the daemon's own words arrive.
const RESTORE_TIME: Duration = Duration::from_secs(70);
/// Pauses before a repeat of an answer whose fate is not known. Together longer than a restart takes.
const ANSWER_PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(900),
    Duration::from_millis(1800),
    Duration::from_millis(3000),
];
/// Longest body that is read: the peer's largest replay is far below.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// What may stand in a path segment as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A daemon at an address. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Daemon {
    http: reqwest::Client,
    base: String,
    token: Option<SecretString>,
    client_id: Option<ClientId>,
    surface: Option<&'static str>,
}

impl Daemon {
    /// A daemon at this address (`http://…` or `https://…`). Nothing is sent yet.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(base_url: &str, token: Option<SecretString>) -> Result<Self, ClientError> {
        let invalid = |problem: String| ClientError::InvalidUrl { url: base_url.to_owned(), problem };
        let url = reqwest::Url::parse(base_url.trim())
            .map_err(|error| invalid(format!("{error}; write it as {DEFAULT_URL}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(invalid(format!("write it as {DEFAULT_URL}")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("give the token by itself, not in the address".to_owned()));
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("holdpoint/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10));
        if url.scheme() == "https" {
            // Fails only if one is installed already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        } else {
            // The default would read all root certificates of the system, for nothing.
            builder = builder.tls_backend_preconfigured(no_roots());
        }
        if is_loopback(&url) {
            // A proxy of the environment can't reach this machine's loopback address.
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| invalid(reason(&error)))?;
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { http, base, token, client_id: None, surface: None })
    }

    /// The same daemon, spoken to as this client.
    pub fn with_client_id(&self, id: ClientId) -> Self {
        Self { client_id: Some(id), ..self.clone() }
    }

    /// The same daemon, told what kind of surface this is (`cli`, `web`, …): an answer says where it was given.
    pub fn with_surface(&self, surface: &'static str) -> Self {
        Self { surface: Some(surface), ..self.clone() }
    }

    /// The address, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Who this client is, once it is attached.
    pub fn client_id(&self) -> Option<&ClientId> {
        self.client_id.as_ref()
    }

    // --- the daemon itself

    /// `GET /health`.
    ///
    /// # Errors
    /// The daemon is away, or says that it is not well.
    pub async fn health(&self) -> Result<Value, ClientError> {
        self.json("the health check", self.get("/health")).await
    }

    /// `GET /capabilities`.
    ///
    /// # Errors
    /// As any call.
    pub async fn capabilities(&self) -> Result<Capabilities, ClientError> {
        self.json("reading the capabilities", self.get("/capabilities")).await
    }

    /// `GET /daemon/status`.
    ///
    /// # Errors
    /// As any call.
    pub async fn daemon_status(&self) -> Result<Value, ClientError> {
        self.json("reading the daemon's status", self.get("/daemon/status")).await
    }

    // --- the life of a session

    /// `POST /session`.
    ///
    /// # Errors
    /// As any call.
    pub async fn create(&self, new: &NewSession) -> Result<Attached, ClientError> {
        self.json("creating a session", self.post("/session").json(new)).await
    }

    /// `POST /session/:id/load`: attach, with the history. A question that waits is asked again (R1).
    ///
    /// # Errors
    /// As any call.
    pub async fn load(&self, session: &SessionId) -> Result<Attached, ClientError> {
        self.restore("loading the session", session, "load").await
    }

    /// `POST /session/:id/resume`: attach, without the history. A question that waits is asked again (R1).
    ///
    /// # Errors
    /// As any call.
    pub async fn resume(&self, session: &SessionId) -> Result<Attached, ClientError> {
        self.restore("resuming the session", session, "resume").await
    }

    async fn restore(&self, call: &'static str, id: &SessionId, verb: &str) -> Result<Attached, ClientError> {
        let mut request = self.post(&session(id, verb)).json(&json!({})).timeout(RESTORE_TIME);
        if self.client_id.is_none() {
            // Without a client's id the daemon takes this for a look-up by nobody, and asks nothing (E6). An
            // id that it doesn't know is replaced by one of its own.
            let id = format!("client_{}", uuid::Uuid::new_v4());
            request = request.header("X-Qwen-Client-Id", id);
        }
        self.json(call, request).await
    }

    /// `POST /session/:id/detach`: this client goes. Never fails for a session that is gone.
    ///
    /// # Errors
    /// As any call.
    pub async fn detach(&self, id: &SessionId) -> Result<(), ClientError> {
        self.gone_is_fine("detaching", self.post(&session(id, "detach"))).await
    }

    /// `DELETE /session/:id`: unload the session; its transcript stays. Never fails for one that is not live.
    ///
    /// # Errors
    /// As any call.
    pub async fn close(&self, id: &SessionId) -> Result<(), ClientError> {
        let path = format!("/session/{}", segment(id.as_str()));
        self.gone_is_fine("closing the session", self.request(Method::DELETE, &path)).await
    }

    /// `GET /workspace/:cwd/sessions`: one page.
    ///
    /// # Errors
    /// As any call.
    pub async fn sessions(
        &self,
        cwd: &str,
        size: u32,
        cursor: Option<&str>,
    ) -> Result<SessionList, ClientError> {
        let mut query = vec![("size", size.to_string())];
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        let request = self.get(&with_query(&format!("/workspace/{}/sessions", segment(cwd)), &query));
        self.json("listing sessions", request).await
    }

    /// `GET /session/:id/status` (live sessions only).
    ///
    /// # Errors
    /// As any call.
    pub async fn status(&self, id: &SessionId) -> Result<SessionStatus, ClientError> {
        self.json("reading the session's status", self.get(&session(id, "status"))).await
    }

    /// `GET /session/:id/transcript`: one page, without loading the session.
    ///
    /// # Errors
    /// As any call.
    pub async fn transcript(
        &self,
        id: &SessionId,
        page: &TranscriptQuery,
    ) -> Result<TranscriptPage, ClientError> {
        let mut query = Vec::new();
        query.extend(page.limit.map(|limit| ("limit", limit.to_string())));
        query.extend(page.cursor.as_ref().map(|cursor| ("cursor", cursor.clone())));
        if page.backward {
            query.push(("direction", "backward".to_owned()));
        }
        self.json("reading the transcript", self.get(&with_query(&session(id, "transcript"), &query))).await
    }

    // --- turns

    /// `POST /session/:id/prompt` with one text. Prompts sent while a turn runs or waits are queued (D5).
    ///
    /// # Errors
    /// As any call.
    pub async fn prompt(&self, id: &SessionId, text: &str) -> Result<Accepted, ClientError> {
        let body = json!({"prompt": [{"type": "text", "text": text}]});
        self.json("sending the prompt", self.post(&session(id, "prompt")).json(&body)).await
    }

    /// `GET /session/:id/pending-prompts`: what runs and what is queued.
    ///
    /// # Errors
    /// As any call.
    pub async fn pending_prompts(&self, id: &SessionId) -> Result<Vec<PendingPrompt>, ClientError> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Body {
            #[serde(default)]
            pending_prompts: Vec<PendingPrompt>,
        }
        let body: Body = self.json("reading the queue", self.get(&session(id, "pending-prompts"))).await?;
        Ok(body.pending_prompts)
    }

    /// `DELETE /session/:id/pending-prompts/:promptId`: whether it was still queued and is now removed.
    ///
    /// # Errors
    /// As any call.
    pub async fn remove_prompt(&self, id: &SessionId, prompt: &PromptId) -> Result<bool, ClientError> {
        let path = format!("{}/{}", session(id, "pending-prompts"), segment(prompt.as_str()));
        let body: Value = self.json("removing the prompt", self.request(Method::DELETE, &path)).await?;
        Ok(body.get("removed").and_then(Value::as_bool).unwrap_or(false))
    }

    /// `POST /session/:id/cancel`: ends the turn that runs or waits.
    ///
    /// # Errors
    /// As any call.
    pub async fn cancel(&self, id: &SessionId) -> Result<(), ClientError> {
        self.send("cancelling", self.post(&session(id, "cancel")).json(&json!({}))).await.map(drop)
    }

    /// `POST /session/:id/continue`: goes on with a turn that was cut off.
    ///
    /// # Errors
    /// As any call.
    pub async fn continue_turn(&self, id: &SessionId) -> Result<Continued, ClientError> {
        self.json("continuing", self.post(&session(id, "continue"))).await
    }

    /// `POST /login/code`: a one-time way into the page for a browser.
    ///
    /// # Errors
    /// As any call; a daemon without a page (`--no-web`) knows no such route.
    pub async fn login_code(&self) -> Result<LoginCode, ClientError> {
        self.json("making a login", self.post("/login/code")).await
    }

    /// The session's events from a cursor on. Nothing is sent until the first [`Subscription::next`].
    pub fn events(&self, id: &SessionId, from: Cursor) -> Subscription {
        Subscription::new(self.clone(), id.clone(), from)
    }

    // --- decisions

    /// `POST /session/:id/permission/:requestId`: a vote on a live asking. `false`: nothing (any more) to vote on.
    ///
    /// # Errors
    /// As any call.
    pub async fn vote(&self, id: &SessionId, request: &RequestId, vote: &Vote) -> Result<bool, ClientError> {
        let path = format!("{}/{}", session(id, "permission"), segment(request.as_str()));
        match self.send("voting", self.post(&path).json(&vote.body())).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(api)) if api.status == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `GET /questions`: one page of the inbox (D2).
    ///
    /// # Errors
    /// As any call.
    pub async fn questions(&self, filter: &Filter) -> Result<Inbox, ClientError> {
        self.json("reading the inbox", self.get(&with_query("/questions", &filter.query()))).await
    }

    /// All pages of the inbox, in the daemon's order.
    ///
    /// # Errors
    /// As any call.
    pub async fn all_questions(&self, filter: &Filter) -> Result<Vec<QuestionView>, ClientError> {
        let mut filter = filter.clone();
        let mut all = Vec::new();
        loop {
            let page = self.questions(&filter).await?;
            let empty = page.questions.is_empty();
            all.extend(page.questions);
            // A page that is empty, or a cursor that does not move, would go on for ever.
            match page.next_cursor {
                Some(next) if !empty && filter.cursor.as_ref() != Some(&next) => filter.cursor = Some(next),
                _ => return Ok(all),
            }
        }
    }

    /// `GET /questions/:id`: one whole question, with its outcome (D2).
    ///
    /// # Errors
    /// As any call.
    pub async fn question(&self, id: &QuestionId) -> Result<QuestionView, ClientError> {
        self.json("reading the question", self.get(&format!("/questions/{}", segment(id.as_str())))).await
    }

    /// `POST /questions/:id/answer` (D2). When the connection breaks on the way it is sent again: the response
    /// id makes that harmless. The receipt of a vote that does not decide (202) has the status `recorded`.
    ///
    /// # Errors
    /// As any call; [`crate::Refusal`] says what is true now.
    pub async fn answer(&self, id: &QuestionId, answer: &AnswerRequest) -> Result<Receipt, ClientError> {
        let body = answer.body();
        let path = format!("/questions/{}/answer", segment(id.as_str()));
        let mut pauses = ANSWER_PAUSES.iter();
        let mut sent = false;
        loop {
            let error = match self.json("answering", self.post(&path).json(&body)).await {
                Ok(receipt) => return Ok(receipt),
                Err(error) => error,
            };
            // Nobody there from the start: say so at once. Cut off in between: ask again what became of it.
            sent |= matches!(error, ClientError::Broken { .. });
            match pauses.next() {
                Some(pause) if sent && error.is_outage() => tokio::time::sleep(*pause).await,
                _ => return Err(error),
            }
        }
    }

    /// `POST /questions/:id/shown`: this surface has rendered the question (D4).
    ///
    /// # Errors
    /// As any call.
    pub async fn shown(&self, view: &QuestionView) -> Result<(), ClientError> {
        let path = format!("/questions/{}/shown", segment(view.question_id.as_str()));
        let body = json!({ "surface": self.surface.unwrap_or("http"), "generation": view.generation });
        self.gone_is_fine("saying that a question is shown", self.post(&path).json(&body)).await
    }

    // --- plumbing

    fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path)
    }

    /// A request with this client's headers. The time limit is that of one ordinary call.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.open_ended(method, path).timeout(CALL_TIME);
        if let Some(id) = &self.client_id {
            request = request.header("X-Qwen-Client-Id", id.as_str());
        }
        request
    }

    /// A request without a time limit and without a client's id.
    pub(crate) fn open_ended(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        if let Some(surface) = self.surface {
            request = request.header("X-Holdpoint-Surface", surface);
        }
        request
    }

    async fn gone_is_fine(&self, call: &'static str, request: RequestBuilder) -> Result<(), ClientError> {
        match self.send(call, request).await {
            Err(ClientError::Refused(api)) if api.status == 404 => Ok(()),
            other => other.map(drop),
        }
    }

    async fn json<T: DeserializeOwned>(
        &self,
        call: &'static str,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let response = self.send(call, request).await?;
        let body = self.body(call, response).await?;
        serde_json::from_slice(&body).map_err(|error| self.unreadable(call, error.to_string()))
    }

    /// Sends and turns every status of refusal into an error.
    pub(crate) async fn send(
        &self,
        call: &'static str,
        request: RequestBuilder,
    ) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.transport(call, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        if status.is_redirection() || status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(self.unreadable(call, format!("HTTP status {}", status.as_u16())));
        }
        let retry_after = response
            .headers()
            .get(reqwest::header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.trim().parse().ok())
            .map(Duration::from_secs);
        let body = self.body(call, response).await.unwrap_or_default();
        if status == StatusCode::BAD_REQUEST && is_tls_refusal(&self.base, &body) {
            return Err(self.unreadable(call, scheme_is("https")));
        }
        Err(Box::new(ApiError::read(status.as_u16(), retry_after, self.token.is_some(), &body)).into())
    }

    async fn body(&self, call: &'static str, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.transport(call, &error))? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(self.unreadable(call, format!("more than {MAX_BODY} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Sorts the failures of the transport by what is known about the call.
    pub(crate) fn transport(&self, call: &'static str, error: &reqwest::Error) -> ClientError {
        let url = self.base.clone();
        let tls = self.base.starts_with("https:");
        if let Some(scheme) = other_scheme(tls, error) {
            return ClientError::Unreadable { url, call, problem: scheme_is(scheme) };
        }
        if error.is_connect() {
            ClientError::Unreachable { url, reason: reason(error) }
        } else if error.is_timeout() {
            ClientError::TimedOut { url, call }
        } else {
            ClientError::Broken { url, call, reason: reason(error) }
        }
    }

    pub(crate) fn unreadable(&self, call: &'static str, problem: String) -> ClientError {
        ClientError::Unreadable { url: self.base.clone(), call, problem }
    }
}

/// A path with its query.
pub(crate) fn with_query(path: &str, query: &[(&'static str, String)]) -> String {
    let query: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", segment(value))).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// A path below one session.
pub(crate) fn session(id: &SessionId, rest: &str) -> String {
    format!("/session/{}/{rest}", segment(id.as_str()))
}

fn is_loopback(url: &reqwest::Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// The innermost reason: the outer ones say "error sending request", which helps nobody.
pub(crate) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// TLS that trusts nobody, for connections that have none.
fn no_roots() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring serves the default protocol versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_none_say_how_to_write_one() {
        for url in ["", "localhost", "127.0.0.1:4170", "ftp://x", "http://", "unix:/x"] {
            let error = Daemon::new(url, None).unwrap_err();
            assert!(error.to_string().contains("http://127.0.0.1:4170"), "{url}: {error}");
        }
        let error = Daemon::new("http://me:secret@host", None).unwrap_err();
        assert!(matches!(error, ClientError::InvalidUrl { .. }));
    }

    #[test]
    fn one_slash_at_the_end_makes_no_difference() {
        let daemon = Daemon::new("http://127.0.0.1:1/", None).unwrap();
        assert_eq!(daemon.url(), "http://127.0.0.1:1");
    }

    #[test]
    fn loopback_is_known_in_all_its_forms() {
        for (url, want) in [
            ("http://localhost:1", true),
            ("http://127.0.0.1", true),
            ("http://127.3.4.5", true),
            ("http://[::1]:3", true),
            ("http://10.0.0.1", false),
            ("https://example.org", false),
        ] {
            assert_eq!(is_loopback(&reqwest::Url::parse(url).unwrap()), want, "{url}");
        }
    }

    #[test]
    fn the_token_is_not_in_the_debug_output() {
        let daemon = Daemon::new(DEFAULT_URL, Some("s3cret".to_owned().into())).unwrap();
        assert!(!format!("{daemon:?}").contains("s3cret"));
    }
}
