//! Anthropic and Gemini, by the `genai` crate. Its types stay in this file: it changes often.
//!
//! Same meaning as our own streamer: a reply counts only with a stop reason, a cut one is asked for again, ids
//! that the crate invents are dropped, and reasoning keeps its signatures (I10).

use std::collections::VecDeque;
use std::sync::OnceLock;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use genai::adapter::AdapterKind;
use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatRole, ChatStreamEvent, ContentPart, CustomPart,
    MessageContent, StopReason, StreamEnd, Tool, ToolCall, ToolResponse,
};
use genai::resolver::{AuthData, Endpoint as Base};
use genai::webc::StreamTimeout;
use genai::{Client, ModelIden, ServiceTarget};
use holdpoint_model::history::{FunctionCall, Part};
use holdpoint_model::ids::CallId;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::time::Duration;

use super::config::Timeouts;
use super::http::{self, Attempt, Failure, LazyClient, Policy, Tap};
use super::turns::{ModelPart, Turn, turns};
use super::{Delta, Endpoint, Finish, ModelTurn, ORIGIN_KEY, Request, Usage, parse_arguments};

/// Where Anthropic's models are.
pub const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com/v1/";
/// Where Gemini's models are.
pub const GEMINI_BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta/";

/// `Part::extra` key of a block that only its provider can read, such as redacted reasoning. Kept as it came.
const BLOCK_KEY: &str = "holdpoint.block";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anthropic,
    Gemini,
}

impl Kind {
    fn origin(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    fn adapter(self) -> AdapterKind {
        match self {
            Self::Anthropic => AdapterKind::Anthropic,
            Self::Gemini => AdapterKind::Gemini,
        }
    }
}

/// A model of Anthropic or Gemini.
#[derive(Debug)]
pub struct GenAi {
    kind: Kind,
    base: Option<Url>,
    at: Endpoint,
    key: SecretString,
    timeouts: Timeouts,
    policy: Policy,
    http: LazyClient,
    client: OnceLock<Client>,
}

impl GenAi {
    /// A model of Anthropic, at another address if `base` is given.
    pub fn anthropic(base: Option<Url>, model: String, key: SecretString, timeouts: Timeouts) -> Self {
        Self::new(Kind::Anthropic, base, model, key, timeouts)
    }

    /// A model of Gemini, at another address if `base` is given.
    pub fn gemini(base: Option<Url>, model: String, key: SecretString, timeouts: Timeouts) -> Self {
        Self::new(Kind::Gemini, base, model, key, timeouts)
    }

    /// The same with another first wait between attempts; for tests that must not wait.
    #[doc(hidden)]
    #[must_use]
    pub fn with_first_wait(mut self, wait: Duration) -> Self {
        self.policy.base = wait;
        self
    }

    fn new(kind: Kind, base: Option<Url>, model: String, key: SecretString, timeouts: Timeouts) -> Self {
        let (default, key_var) = match kind {
            Kind::Anthropic => (ANTHROPIC_BASE_URL, "ANTHROPIC_API_KEY"),
            Kind::Gemini => (GEMINI_BASE_URL, "GEMINI_API_KEY"),
        };
        let shown = base.as_ref().map_or_else(|| default.trim_end_matches('/').to_owned(), http::shown_url);
        Self {
            kind,
            base,
            at: Endpoint { shown, key_var, model },
            key,
            timeouts,
            policy: Policy::default(),
            http: LazyClient::default(),
            client: OnceLock::new(),
        }
    }

    fn base_text(&self) -> String {
        match &self.base {
            // The crate appends to the address as it is, so it must end in a slash.
            Some(url) => format!("{}/", url.as_str().trim_end_matches('/')),
            None if self.kind == Kind::Anthropic => ANTHROPIC_BASE_URL.to_owned(),
            None => GEMINI_BASE_URL.to_owned(),
        }
    }

    fn client(&self) -> Result<Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let base = Url::parse(&self.base_text()).map_err(|error| Failure::Malformed(error.to_string()))?;
        let built = Client::builder()
            .with_reqwest(self.http.get(&base)?)
            .build()
            .map_err(|error| self.malformed(&error.to_string()))?;
        Ok(self.client.get_or_init(|| built).clone())
    }

    async fn attempt(&self, request: Request<'_>, tap: &mut Tap) -> Result<ModelTurn, Failure> {
        let target = ServiceTarget {
            endpoint: Base::from_owned(self.base_text()),
            auth: AuthData::from_single(self.key.expose_secret()),
            model: ModelIden::new(self.kind.adapter(), self.at.model.as_str()),
        };
        let mut options = ChatOptions::default()
            .with_stream_header_timeout(self.timeouts.header)
            .with_stream_read_timeout(self.timeouts.read)
            .with_capture_usage(true)
            .with_capture_reasoning_content(true);
        if self.kind == Kind::Anthropic {
            options = options.with_cache_control(CacheControl::Ephemeral);
        }
        let response = self
            .client()?
            .exec_chat_stream(target, self.request(request), Some(&options))
            .await
            .map_err(|error| self.failure(&error))?;
        let mut stream = response.stream;
        let mut reply = Collected::default();
        let mut total = 0;
        while let Some(event) = stream.next().await {
            match event.map_err(|error| self.failure(&error))? {
                ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => {}
                ChatStreamEvent::Chunk(chunk) => {
                    total += chunk.content.len();
                    reply.text(&chunk.content);
                    tap.send(Delta::Text(chunk.content)).await;
                }
                ChatStreamEvent::ReasoningChunk(chunk) => {
                    total += chunk.content.len();
                    reply.thought(&chunk.content);
                    tap.send(Delta::Thought(chunk.content)).await;
                }
                ChatStreamEvent::ThoughtSignatureChunk(chunk) => {
                    total += chunk.content.len();
                    // Anthropic's come again with their whole blocks at the end.
                    if self.kind == Kind::Gemini {
                        reply.signatures.push_back(chunk.content);
                    }
                }
                ChatStreamEvent::ToolCallChunk(chunk) => {
                    // Each chunk of one call holds all of its arguments so far.
                    if let Some(delta) = reply.call(self.kind, chunk.tool_call) {
                        tap.send(delta).await;
                    }
                }
                ChatStreamEvent::End(end) => return self.end(reply, end),
            }
            if total.saturating_add(reply.arguments_bytes) > http::REPLY_LIMIT {
                return Err(Failure::Malformed("the reply is too large".to_owned()));
            }
        }
        Err(cut())
    }

    fn end(&self, reply: Collected, end: StreamEnd) -> Result<ModelTurn, Failure> {
        let Some(reason) = end.captured_stop_reason else { return Err(cut()) };
        if let StopReason::Other(reason) = &reason
            && reason == "MALFORMED_FUNCTION_CALL"
        {
            let message = "the model began a tool call that cannot be read".to_owned();
            return Err(Failure::Reported { message, may_pass: true });
        }
        let has_calls = reply.parts.iter().any(|part| part.function_call.is_some());
        let finish = match reason {
            StopReason::MaxTokens(_) => Finish::MaxTokens,
            StopReason::ContentFilter(_) => Finish::Refusal,
            _ if has_calls => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        let usage = end.captured_usage.map(|usage| {
            let count = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            Usage {
                input: count(usage.prompt_tokens),
                output: count(usage.completion_tokens),
                total: count(usage.total_tokens),
                thought: count(usage.completion_tokens_details.and_then(|details| details.reasoning_tokens)),
                cached_read: count(usage.prompt_tokens_details.and_then(|details| details.cached_tokens)),
            }
        });
        let mut parts = reply.parts;
        // A signature without a part of its own is kept all the same (I10).
        parts.extend(
            reply.signatures.into_iter().map(|s| Part { thought_signature: Some(s), ..Part::text("") }),
        );
        if self.kind == Kind::Anthropic
            && let Some(content) = end.captured_content
        {
            // The crate gives whole reasoning blocks, redacted ones among them, only here and in their order.
            let blocks = thought_blocks(content);
            if !blocks.is_empty() {
                parts.retain(|part| part.thought != Some(true));
                parts.splice(0..0, blocks);
            }
        }
        for part in &mut parts {
            if part.thought == Some(true) || part.thought_signature.is_some() {
                part.extra.insert(ORIGIN_KEY.to_owned(), self.kind.origin().into());
            }
        }
        parts.retain(|part| {
            part.text.as_deref().is_none_or(|text| !text.is_empty())
                || part.thought_signature.is_some()
                || part.extra.contains_key(BLOCK_KEY)
        });
        Ok(ModelTurn { parts, finish, usage })
    }

    fn request(&self, request: Request<'_>) -> ChatRequest {
        let mut messages = Vec::new();
        for turn in turns(request.history) {
            match turn {
                Turn::User(texts) => messages.push(ChatMessage::user(texts.join("\n\n"))),
                Turn::Results(results) => {
                    let parts: Vec<ContentPart> = results
                        .into_iter()
                        .map(|result| {
                            ContentPart::ToolResponse(
                                ToolResponse::new(result.id, result.text).with_fn_name(result.name),
                            )
                        })
                        .collect();
                    messages.push(ChatMessage::new(ChatRole::Tool, MessageContent::from_parts(parts)));
                }
                Turn::Model(parts) => {
                    let parts: Vec<ContentPart> =
                        parts.iter().flat_map(|part| self.model_part(part)).collect();
                    if !parts.is_empty() {
                        messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                    }
                }
            }
        }
        let mut chat = ChatRequest::new(messages);
        if !request.system.is_empty() {
            chat = chat.with_system(request.system);
        }
        if !request.tools.is_empty() {
            chat = chat.with_tools(request.tools.iter().map(|tool| {
                Tool::new(tool.name.as_str())
                    .with_description(tool.description.as_str())
                    .with_schema(tool.parameters.clone())
            }));
        }
        chat
    }

    fn model_part(&self, part: &ModelPart<'_>) -> Vec<ContentPart> {
        let own =
            |part: &Part| part.extra.get(ORIGIN_KEY).and_then(Value::as_str) == Some(self.kind.origin());
        let signature = |part: &Part| part.thought_signature.clone().filter(|_| own(part));
        match part {
            ModelPart::Call { id, call, part } => {
                let fn_arguments = match &call.args {
                    Value::Object(_) => call.args.clone(),
                    // These providers take nothing but an object.
                    Value::String(raw) => json!({ "invalid_json": raw }),
                    _ => json!({}),
                };
                vec![ContentPart::ToolCall(ToolCall {
                    call_id: id.clone(),
                    fn_name: call.name.clone(),
                    fn_arguments,
                    thought_signatures: signature(part).map(|signature| vec![signature]),
                })]
            }
            ModelPart::Part(part) if part.thought == Some(true) => {
                if !own(part) {
                    return Vec::new();
                }
                if let Some(block) = part.extra.get(BLOCK_KEY) {
                    return vec![ContentPart::Custom(CustomPart { model_iden: None, data: block.clone() })];
                }
                let Some(signature) = signature(part) else { return Vec::new() };
                vec![
                    ContentPart::ThoughtSignature(signature),
                    ContentPart::ReasoningContent(part.text.clone().unwrap_or_default()),
                ]
            }
            ModelPart::Part(part) => {
                let mut parts: Vec<_> =
                    signature(part).map(ContentPart::ThoughtSignature).into_iter().collect();
                if let Some(text) = part.text.as_ref().filter(|text| !text.is_empty() || !parts.is_empty()) {
                    parts.push(ContentPart::Text(text.clone()));
                }
                parts
            }
        }
    }

    fn malformed(&self, text: &str) -> Failure {
        Failure::Malformed(http::quote(text, Some(&self.key)))
    }

    fn failure(&self, error: &genai::Error) -> Failure {
        if let genai::Error::WebStream { error, .. } = error {
            if let Some(timeout) = error.downcast_ref::<StreamTimeout>() {
                return match timeout {
                    StreamTimeout::Headers => Failure::HeaderTimeout,
                    StreamTimeout::Read => Failure::ReadTimeout,
                };
            }
            if let Some(error) = error.downcast_ref::<genai::Error>() {
                return self.failure(error);
            }
            if let Some(error) = error.downcast_ref::<reqwest::Error>() {
                let text = http::quote(&http::innermost(error), Some(&self.key));
                return if error.is_connect() { Failure::Connect(text) } else { Failure::CutOff(text) };
            }
        }
        match error {
            genai::Error::HttpError { status, body, headers, .. } => Failure::Status {
                status: status.as_u16(),
                message: http::error_message(body.as_bytes(), Some(&self.key)),
                retry_after: asked_wait(headers),
            },
            genai::Error::ChatResponse { body, .. } => {
                let words = body.to_string();
                let code = body.pointer("/error/code").and_then(Value::as_u64);
                let may_pass = code.is_some_and(|code| u16::try_from(code).is_ok_and(http::transient))
                    || ["overloaded_error", "rate_limit_error", "api_error", "UNAVAILABLE"]
                        .iter()
                        .any(|word| words.contains(word));
                let said = http::said_in(body).unwrap_or("it gave no reason");
                Failure::Reported { message: http::quote(said, Some(&self.key)), may_pass }
            }
            genai::Error::WebStream { cause, .. } => Failure::CutOff(http::quote(cause, Some(&self.key))),
            genai::Error::StreamParse { serde_error, .. } => {
                self.malformed(&format!("a piece of its reply is not JSON: {serde_error}"))
            }
            other => self.malformed(&other.to_string()),
        }
    }
}

impl Attempt for GenAi {
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

fn cut() -> Failure {
    Failure::CutOff("the stream ended before the model said that it was done".to_owned())
}

fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    http::retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, Timestamp::now())
}

/// The reply as its events tell it.
#[derive(Default)]
struct Collected {
    parts: Vec<Part>,
    /// Signatures that came and whose part is still to come: the crate sends those of one chunk first.
    signatures: VecDeque<String>,
    /// The id of the call that is being streamed.
    open_call: Option<String>,
    calls: usize,
    arguments_bytes: usize,
}

impl Collected {
    fn text(&mut self, text: &str) {
        let signature = self.signatures.pop_front();
        self.open_call = None;
        match self.parts.last_mut() {
            Some(Part { text: Some(last), thought: None, .. }) if signature.is_none() => last.push_str(text),
            _ => self.parts.push(Part { thought_signature: signature, ..Part::text(text) }),
        }
    }

    fn thought(&mut self, text: &str) {
        self.open_call = None;
        match self.parts.last_mut() {
            Some(Part { text: Some(last), thought: Some(true), .. }) => last.push_str(text),
            _ => self.parts.push(Part::thought(text)),
        }
    }

    fn call(&mut self, kind: Kind, call: ToolCall) -> Option<Delta> {
        let args = match call.fn_arguments {
            Value::String(raw) => parse_arguments(raw),
            Value::Null => json!({}),
            args => args,
        };
        let continues = kind == Kind::Anthropic && self.open_call.as_deref() == Some(&call.call_id);
        if continues && let Some(open) = self.parts.last_mut().and_then(|part| part.function_call.as_mut()) {
            open.args = args;
            return None;
        }
        // What the crate makes up where the provider sends no id is not one.
        let id = Some(call.call_id).filter(|id| !id.starts_with("call#") && !id.is_empty());
        let signature = call.thought_signatures.and_then(|mut signatures| signatures.pop());
        if let Some(own) = &signature {
            // It was among those sent first, and a text before this call may have taken it for its own.
            self.signatures.retain(|pending| pending != own);
            for part in &mut self.parts {
                part.thought_signature.take_if(|taken| taken == own);
            }
        }
        self.open_call.clone_from(&id);
        let index = self.calls;
        self.calls += 1;
        let delta = Delta::ToolCallStarted { index, name: call.fn_name.clone(), id: id.clone() };
        let mut part =
            Part::call(FunctionCall { id: id.and_then(|id| CallId::new(id).ok()), name: call.fn_name, args });
        part.thought_signature = signature;
        self.parts.push(part);
        Some(delta)
    }
}

fn thought_blocks(content: MessageContent) -> Vec<Part> {
    let mut blocks: Vec<Part> = Vec::new();
    for part in content.into_parts() {
        match part {
            ContentPart::ThoughtSignature(signature) => {
                blocks.push(Part { thought_signature: Some(signature), ..Part::thought("") });
            }
            ContentPart::ReasoningContent(text) => {
                if let Some(last) = blocks.last_mut().filter(|part| part.thought_signature.is_some()) {
                    last.text = Some(text);
                }
            }
            ContentPart::Custom(custom) => {
                let mut part = Part { thought: Some(true), ..Part::default() };
                part.extra.insert(BLOCK_KEY.to_owned(), custom.data);
                blocks.push(part);
            }
            _ => {}
        }
    }
    blocks
}
