//! Any endpoint with OpenAI's `chat/completions`, streamed by our own reader.
//!
//! Most people's models are reached this way, and the streams of such endpoints break rules in many ways (trap
//! 15): a reply counts only when the model said that it is done, whatever else is missing.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use holdpoint_model::history::Part;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use tokio::time::{Duration, timeout};

use super::config::Timeouts;
use super::http::{self, Attempt, Failure, LazyClient, Policy, Tap};
use super::reply::{CALLS_MAX, ORIGIN, Reply};
use super::sse::SseReader;
use super::turns::{ModelPart, Turn, turns};
use super::{Delta, Endpoint, ModelTurn, ORIGIN_KEY, Request};

/// How long the rest of a stream (usage, `[DONE]`) is waited for once the model has said that it is done.
const TAIL_TIME: Duration = Duration::from_secs(5);

/// A model behind an OpenAI-compatible endpoint.
#[derive(Debug)]
pub struct OpenAi {
    base: Url,
    url: Url,
    at: Endpoint,
    key: Option<SecretString>,
    timeouts: Timeouts,
    policy: Policy,
    client: LazyClient,
    /// The endpoint has refused `stream_options`; it is left out from then on.
    plain_stream: AtomicBool,
}

impl OpenAi {
    /// A model at `base`, an `http` or `https` address such as `http://127.0.0.1:8000/v1`.
    pub fn new(base: Url, model: String, key: Option<SecretString>, timeouts: Timeouts) -> Self {
        let mut url = base.clone();
        url.set_path(&format!("{}/chat/completions", base.path().trim_end_matches('/')));
        let at = Endpoint { shown: http::shown_url(&base), key_var: "OPENAI_API_KEY", model };
        Self {
            base,
            url,
            at,
            key,
            timeouts,
            policy: Policy::default(),
            client: LazyClient::default(),
            plain_stream: AtomicBool::new(false),
        }
    }

    /// The same with another first wait between attempts; for tests that must not wait.
    #[doc(hidden)]
    #[must_use]
    pub fn with_first_wait(mut self, wait: Duration) -> Self {
        self.policy.base = wait;
        self
    }

    async fn attempt(&self, request: Request<'_>, tap: &mut Tap) -> Result<ModelTurn, Failure> {
        let plain = self.plain_stream.load(Ordering::Relaxed);
        match self.send(body(request, &self.at.model, !plain)).await {
            Ok(response) => self.read(response, tap).await,
            Err(Failure::Status { status: 400 | 422, message, .. })
                if !plain && message.contains("stream_options") =>
            {
                self.plain_stream.store(true, Ordering::Relaxed);
                let response = self.send(body(request, &self.at.model, false)).await?;
                self.read(response, tap).await
            }
            Err(failure) => Err(failure),
        }
    }

    async fn send(&self, body: Vec<u8>) -> Result<reqwest::Response, Failure> {
        let mut request =
            self.client.get(&self.base)?.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let response = timeout(self.timeouts.header, request.body(body).send())
            .await
            .map_err(|_| Failure::HeaderTimeout)?
            .map_err(http::transport)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_redirection() {
            let to =
                response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("somewhere else");
            let message = http::quote(&format!("it redirects to {to}"), self.key.as_ref());
            return Err(Failure::Status { status: 404, message, retry_after: None });
        }
        let retry_after = asked_wait(response.headers());
        let body = self.error_body(response).await;
        let message = http::error_message(&body, self.key.as_ref());
        Err(Failure::Status { status: status.as_u16(), message, retry_after })
    }

    /// As much of an error's body as comes in time.
    async fn error_body(&self, response: reqwest::Response) -> Vec<u8> {
        let mut body = Vec::new();
        let mut stream = response.bytes_stream();
        while let Ok(Some(Ok(piece))) = timeout(self.timeouts.read, stream.next()).await {
            body.extend_from_slice(&piece[..piece.len().min(http::ERROR_LIMIT - body.len())]);
            if body.len() >= http::ERROR_LIMIT {
                break;
            }
        }
        body
    }

    async fn read(&self, response: reqwest::Response, tap: &mut Tap) -> Result<ModelTurn, Failure> {
        let mut stream = response.bytes_stream();
        let mut reading = Reading::new(self.key.as_ref());
        let mut total = 0;
        loop {
            let wait = if reading.reply.is_finished() {
                TAIL_TIME.min(self.timeouts.read)
            } else {
                self.timeouts.read
            };
            let piece: Bytes = match timeout(wait, stream.next()).await {
                Ok(Some(Ok(piece))) => piece,
                // Once the model has said that it is done, how the stream ends no longer matters.
                Ok(Some(Err(_))) | Err(_) if reading.reply.is_finished() => break,
                Ok(Some(Err(error))) => return Err(http::transport(error)),
                Err(_) => return Err(Failure::ReadTimeout),
                Ok(None) => break,
            };
            total += piece.len();
            if total > http::REPLY_LIMIT {
                return Err(too_large());
            }
            let news = reading.push(&piece)?;
            for delta in news {
                tap.send(delta).await;
            }
            if reading.done {
                break;
            }
        }
        let (turn, news) = reading.end()?;
        for delta in news {
            tap.send(delta).await;
        }
        Ok(turn)
    }
}

impl Attempt for OpenAi {
    fn once<'a>(
        &'a self,
        request: Request<'a>,
        tap: &'a mut Tap,
    ) -> BoxFuture<'a, Result<ModelTurn, Failure>> {
        self.attempt(request, tap).boxed()
    }

    fn at(&self) -> &Endpoint {
        &self.at
    }

    fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    fn policy(&self) -> Policy {
        self.policy
    }
}

fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    http::retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, Timestamp::now())
}

fn too_large() -> Failure {
    Failure::Malformed(format!("the reply is larger than {} MiB", http::REPLY_LIMIT / 1024 / 1024))
}

/// One response being read: a stream of events, or one JSON document where the server does not stream. The first
/// byte tells them apart, since servers get the content type wrong.
struct Reading<'a> {
    key: Option<&'a SecretString>,
    reply: Reply,
    form: Form,
    done: bool,
}

enum Form {
    Unknown(Vec<u8>),
    Events(SseReader),
    Document(Vec<u8>),
}

impl<'a> Reading<'a> {
    fn new(key: Option<&'a SecretString>) -> Self {
        Self { key, reply: Reply::default(), form: Form::Unknown(Vec::new()), done: false }
    }

    fn push(&mut self, piece: &[u8]) -> Result<Vec<Delta>, Failure> {
        if let Form::Unknown(start) = &mut self.form {
            start.extend_from_slice(piece);
            let Some(first) = start.iter().find(|byte| !byte.is_ascii_whitespace()) else {
                return Ok(Vec::new());
            };
            let first = *first;
            let start = std::mem::take(start);
            self.form = match first {
                b'{' | b'[' => Form::Document(Vec::new()),
                b'<' => return Err(Failure::Malformed("it answered with a web page".to_owned())),
                _ => Form::Events(SseReader::new(http::REPLY_LIMIT)),
            };
            return self.push(&start);
        }
        let mut news = Vec::new();
        match &mut self.form {
            Form::Unknown(_) => {}
            Form::Document(document) => document.extend_from_slice(piece),
            Form::Events(reader) => {
                reader.push(piece).map_err(|_| too_large())?;
                while let Some(event) = reader.next_event() {
                    if is_done(&event) {
                        self.done = true;
                        break;
                    }
                    let chunk = serde_json::from_slice(&event).map_err(|error| {
                        Failure::Malformed(format!("a piece of its reply is not JSON: {error}"))
                    })?;
                    news.extend(take(&mut self.reply, &chunk, self.key)?);
                }
            }
        }
        Ok(news)
    }

    fn end(mut self) -> Result<(ModelTurn, Vec<Delta>), Failure> {
        let cut = "the stream ended before the model said that it was done";
        let mut news = Vec::new();
        match std::mem::replace(&mut self.form, Form::Unknown(Vec::new())) {
            Form::Unknown(_) => return Err(Failure::CutOff("the reply is empty".to_owned())),
            Form::Document(document) => {
                let value = serde_json::from_slice(&document).map_err(|error| {
                    if error.is_eof() {
                        Failure::CutOff("the JSON of the reply is incomplete".to_owned())
                    } else {
                        Failure::Malformed(format!("its reply is not JSON: {error}"))
                    }
                })?;
                news.extend(take(&mut self.reply, &value, self.key)?);
            }
            Form::Events(reader) => {
                if let Some(rest) = reader.rest().filter(|rest| !self.done && !is_done(rest))
                    && let Ok(chunk) = serde_json::from_slice(&rest)
                {
                    news.extend(take(&mut self.reply, &chunk, self.key)?);
                }
            }
        }
        let turn = self.reply.finish().ok_or_else(|| Failure::CutOff(cut.to_owned()))?;
        Ok((turn, news))
    }
}

fn is_done(event: &[u8]) -> bool {
    event.trim_ascii() == b"[DONE]"
}

fn take(reply: &mut Reply, chunk: &Value, key: Option<&SecretString>) -> Result<Vec<Delta>, Failure> {
    let error = chunk.get("error").filter(|error| !error.is_null());
    if error.is_some() || chunk.get("object").and_then(Value::as_str) == Some("error") {
        return Err(reported(chunk, key));
    }
    let news = reply.apply(chunk);
    if reply.has_too_many_calls() {
        return Err(Failure::Malformed(format!("its reply holds more than {CALLS_MAX} tool calls")));
    }
    Ok(news)
}

/// An error object inside a reply. It is tried again only where it names a reason that passes.
fn reported(chunk: &Value, key: Option<&SecretString>) -> Failure {
    let error = chunk.get("error").filter(|error| error.is_object()).unwrap_or(chunk);
    let code = ["code", "status"].iter().find_map(|name| error.get(name));
    let number = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let words = ["type", "code", "status"]
        .iter()
        .filter_map(|name| error.get(name).and_then(Value::as_str))
        .collect::<Vec<_>>()
        .join(" ")
        .to_ascii_lowercase();
    let may_pass = number.is_some_and(|code| u16::try_from(code).is_ok_and(http::transient))
        || ["overloaded", "rate_limit", "server_error", "unavailable", "timeout"]
            .iter()
            .any(|word| words.contains(word));
    let message = http::quote(http::said_in(chunk).unwrap_or("it gave no reason"), key);
    Failure::Reported { message, may_pass }
}

fn body(request: Request<'_>, model: &str, with_usage: bool) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("messages".to_owned(), messages(request).into());
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                json!({ "type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters } })
            })
            .collect();
        body.insert("tools".to_owned(), tools.into());
    }
    body.insert("stream".to_owned(), true.into());
    if with_usage {
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    }
    Value::Object(body).to_string().into_bytes()
}

fn messages(request: Request<'_>) -> Vec<Value> {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for turn in turns(request.history) {
        match turn {
            Turn::User(texts) => messages.push(json!({ "role": "user", "content": texts.join("\n\n") })),
            Turn::Results(results) => {
                messages.extend(results.into_iter().map(
                    |result| json!({ "role": "tool", "tool_call_id": result.id, "content": result.text }),
                ))
            }
            Turn::Model(parts) => messages.extend(assistant(&parts)),
        }
    }
    messages
}

fn assistant(parts: &[ModelPart<'_>]) -> Option<Value> {
    let mut text = String::new();
    let mut reasoning = String::new();
    let mut calls = Vec::new();
    for part in parts {
        match part {
            ModelPart::Part(part) if is_own_reasoning(part) => {
                reasoning.push_str(part.text.as_deref().unwrap_or(""))
            }
            ModelPart::Part(part) => text.push_str(part.visible_text().unwrap_or("")),
            ModelPart::Call { id, call, .. } => {
                let arguments = match &call.args {
                    Value::String(raw) => raw.clone(),
                    Value::Null => "{}".to_owned(),
                    args => args.to_string(),
                };
                calls.push(json!({ "id": id, "type": "function",
                    "function": { "name": call.name, "arguments": arguments } }));
            }
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), if text.is_empty() { Value::Null } else { text.into() });
    if !reasoning.is_empty() {
        message.insert("reasoning_content".to_owned(), reasoning.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Some(Value::Object(message))
}

fn is_own_reasoning(part: &Part) -> bool {
    part.thought == Some(true) && part.extra.get(ORIGIN_KEY).and_then(Value::as_str) == Some(ORIGIN)
}

#[cfg(test)]
mod tests {
    use holdpoint_model::history::{Content, FunctionCall, FunctionResponse, Role};
    use holdpoint_model::ids::CallId;

    use super::*;

    fn call(id: Option<&str>, args: Value) -> Part {
        Part::call(FunctionCall { id: id.map(|id| CallId::new(id).unwrap()), name: "f".to_owned(), args })
    }

    fn response(id: Option<&str>, text: &str) -> Content {
        let id = id.map(|id| CallId::new(id).unwrap());
        Content::response(FunctionResponse { id, name: "f".to_owned(), response: json!({ "output": text }) })
    }

    fn sent(history: &[Content]) -> Value {
        messages(Request { system: "", history, tools: &[] }).into()
    }

    #[test]
    fn q4_results_go_back_in_call_order_before_other_text() {
        let history = [
            Content::user_text("go"),
            Content {
                role: Role::Model,
                parts: vec![
                    Part::text("ok"),
                    call(Some("a"), json!({"x":1})),
                    call(Some("b"), json!("{oops")),
                ],
            },
            Content::user_text("notice"),
            response(Some("b"), "second"),
            response(Some("a"), "first"),
        ];
        assert_eq!(
            sent(&history),
            json!([
                {"role":"user","content":"go"},
                {"role":"assistant","content":"ok","tool_calls":[
                    {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
                    {"id":"b","type":"function","function":{"name":"f","arguments":"{oops"}}]},
                {"role":"tool","tool_call_id":"a","content":"first"},
                {"role":"tool","tool_call_id":"b","content":"second"},
                {"role":"user","content":"notice"}
            ])
        );
    }

    #[test]
    fn calls_without_id_are_paired_and_strays_become_text() {
        let history = [
            Content { role: Role::Model, parts: vec![call(None, Value::Null), call(None, json!({}))] },
            response(None, "one"),
            response(None, "two"),
            response(Some("gone"), "stray"),
        ];
        assert_eq!(
            sent(&history),
            json!([
                {"role":"assistant","content":null,"tool_calls":[
                    {"id":"call_0_0","type":"function","function":{"name":"f","arguments":"{}"}},
                    {"id":"call_0_1","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"call_0_0","content":"one"},
                {"role":"tool","tool_call_id":"call_0_1","content":"two"},
                {"role":"user","content":"Result of f: stray"}
            ])
        );
    }

    #[test]
    fn reasoning_goes_back_only_where_it_came_from() {
        let mut own = Part::thought("mine");
        own.extra.insert(ORIGIN_KEY.to_owned(), ORIGIN.into());
        let history = [
            Content { role: Role::Model, parts: vec![own, Part::thought("theirs"), Part::text("a")] },
            Content { role: Role::Model, parts: vec![Part::thought("only thought")] },
        ];
        assert_eq!(sent(&history), json!([{"role":"assistant","content":"a","reasoning_content":"mine"}]));
    }

    #[test]
    fn the_path_is_appended_whatever_the_base_looks_like() {
        for (base, url) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("http://h/v1/", "http://h/v1/chat/completions"),
            ("http://h", "http://h/chat/completions"),
            ("http://h/a/b/?api-version=1", "http://h/a/b/chat/completions?api-version=1"),
        ] {
            let model = OpenAi::new(Url::parse(base).unwrap(), "m".to_owned(), None, Timeouts::default());
            assert_eq!(model.url.as_str(), url);
        }
    }
}
