//! Faults that tests switch on: compiled in for tests only (the feature `faults`), never into what is shipped.
//!
//! `POST /__faults` sets the faults, the whole of them; `GET /__faults` gives them, and what they did:
//!
//! ```json
//! {"events": [{"type": "…", "contains": "…", "action": "drop|delay|duplicate|swap", "ms": 500, "times": 1}],
//!  "fail": [{"method": "GET", "path": "a regular expression", "status": 500, "code": "…", "times": 1}],
//!  "hide": true, "silent": true}
//! ```
//!
//! `events` are for the streams, the first that fits; a sign of life is meant only where it is named. `fail` is for routes,
//! by path and query; without a status the connection breaks. `hide`: no list, status, journal or replay shows a question
//! or a permission. `silent`: streams stay open and carry nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where the faults are set.
const PATH: &str = "/__faults";
/// How late a late event is unless its rule says so.
const LATE: Duration = Duration::from_millis(500);
/// What is remembered of what was done.
const MOST_LOGGED: usize = 1000;

/// The faults of one daemon.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<Now>>);

#[derive(Default, Serialize)]
struct Now {
    faults: Set,
    log: VecDeque<Value>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Set {
    events: Vec<EventRule>,
    fail: Vec<FailRule>,
    hide: bool,
    silent: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct EventRule {
    r#type: Option<String>,
    contains: Option<String>,
    action: Action,
    ms: Option<u64>,
    times: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Drop,
    Delay,
    Duplicate,
    Swap,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FailRule {
    method: Option<String>,
    path: Pattern,
    status: Option<u16>,
    code: Option<String>,
    times: Option<u64>,
}

/// A regular expression.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, regex::Error> {
        Regex::new(&text).map(Self)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0.as_str().to_owned()
    }
}

/// Uses a rule up by one; `false` where it is used up.
fn spend(times: &mut Option<u64>) -> bool {
    match times {
        None => true,
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
    }
}

/// Stands before every route.
pub(crate) async fn intercept(State(faults): State<Faults>, request: Request, next: Next) -> Response {
    if request.uri().path() == PATH {
        return faults.control(request).await;
    }
    let target = request.uri().path_and_query().map_or("", |target| target.as_str()).to_owned();
    if let Some(rule) = faults.failing(request.method(), &target) {
        return failed(rule);
    }
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if kind.contains("text/event-stream") {
        return response.map(|body| Body::from_stream(stream(faults, body.into_data_stream())));
    }
    if response.status() == StatusCode::OK && kind.contains("json") && faults.now().faults.hide {
        return without_questions(&target, response).await;
    }
    response
}

fn failed(rule: FailRule) -> Response {
    let Some(status) = rule.status.and_then(|status| StatusCode::from_u16(status).ok()) else {
        let broken = futures::stream::once(async { Err::<Bytes, _>("a fault of the test") });
        return Response::new(Body::from_stream(broken));
    };
    (status, axum::Json(json!({ "error": "a fault of the test", "code": rule.code }))).into_response()
}

impl Faults {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn control(&self, request: Request) -> Response {
        if request.method() == Method::GET {
            return axum::Json(&*self.now()).into_response();
        }
        let set = match to_bytes(request.into_body(), crate::MAX_BODY).await {
            Ok(bytes) if bytes.is_empty() => Ok(Set::default()),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match set {
            Ok(set) => {
                self.now().faults = set;
                StatusCode::NO_CONTENT.into_response()
            }
            Err(problem) => (StatusCode::BAD_REQUEST, problem).into_response(),
        }
    }

    fn failing(&self, method: &Method, target: &str) -> Option<FailRule> {
        let mut now = self.now();
        let fits = |rule: &&mut FailRule| {
            rule.method.as_ref().is_none_or(|wanted| wanted == method.as_str())
                && rule.path.0.is_match(target)
        };
        let rule = now
            .faults
            .fail
            .iter_mut()
            .filter(fits)
            .find_map(|rule| spend(&mut rule.times).then(|| rule.clone()))?;
        now.note(json!({ "method": method.as_str(), "path": target, "failed": true }));
        Some(rule)
    }

    /// What is done with a frame.
    fn on_event(&self, text: &str) -> Option<(Action, Duration)> {
        let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
        let frame: Value = serde_json::from_str(data).ok()?;
        let kind = frame["type"].as_str().unwrap_or_default();
        let mut now = self.now();
        if now.faults.hide && kind == "permission_request" && frame.get("id").is_none() {
            return Some((Action::Drop, Duration::ZERO));
        }
        let fits = |rule: &&mut EventRule| {
            let of_kind = rule.r#type.as_deref().map_or(kind != "alive", |wanted| wanted == kind);
            of_kind && rule.contains.as_ref().is_none_or(|part| data.contains(part))
        };
        let rule = now
            .faults
            .events
            .iter_mut()
            .filter(fits)
            .find_map(|rule| spend(&mut rule.times).then(|| rule.clone()))?;
        now.note(json!({ "event": kind, "id": frame.get("id"), "action": rule.action }));
        Some((rule.action, rule.ms.map_or(LATE, Duration::from_millis)))
    }
}

impl Now {
    fn note(&mut self, what: Value) {
        if self.log.len() == MOST_LOGGED {
            self.log.pop_front();
        }
        self.log.push_back(what);
    }
}

/// A stream with its faults.
struct Faulty {
    faults: Faults,
    inner: BodyDataStream,
    ready: VecDeque<Bytes>,
    held: Option<Bytes>,
    late: FuturesUnordered<BoxFuture<'static, Bytes>>,
}

fn stream(faults: Faults, inner: BodyDataStream) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    let start = Faulty { faults, inner, ready: VecDeque::new(), held: None, late: FuturesUnordered::new() };
    futures::stream::unfold(start, async |mut faulty| {
        loop {
            if let Some(bytes) = faulty.ready.pop_front() {
                if faulty.faults.now().faults.silent {
                    continue;
                }
                return Some((Ok(bytes), faulty));
            }
            tokio::select! {
                Some(bytes) = faulty.late.next(), if !faulty.late.is_empty() => faulty.ready.push_back(bytes),
                // One chunk of the body is one frame.
                chunk = faulty.inner.next() => faulty.take(chunk?.ok()?),
            }
        }
    })
}

impl Faulty {
    fn take(&mut self, chunk: Bytes) {
        let text = String::from_utf8_lossy(&chunk);
        // A sign of life goes between whatever else there is.
        let alive = text.starts_with("event: alive");
        match self.faults.on_event(&text) {
            Some((Action::Drop, _)) => return,
            Some((Action::Delay, by)) => {
                return self.late.push(
                    async move {
                        tokio::time::sleep(by).await;
                        chunk
                    }
                    .boxed(),
                );
            }
            Some((Action::Swap, _)) => {
                self.held = Some(chunk);
                return;
            }
            Some((Action::Duplicate, _)) => self.ready.push_back(chunk.clone()),
            None => {}
        }
        self.ready.push_back(chunk);
        if !alive {
            self.ready.extend(self.held.take());
        }
    }
}

/// A response in which nothing waits for a person.
async fn without_questions(target: &str, response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else {
        return Response::from_parts(head, Body::from(bytes));
    };
    let path = target.split('?').next().unwrap_or_default();
    if path == "/questions" {
        value["questions"] = json!([]);
    } else if path.ends_with("/status") && path.starts_with("/session/") {
        hide(&mut value);
    } else if path.ends_with("/load") {
        if let Some(journal) = value["liveJournal"].as_array_mut() {
            journal.retain(|event| event["type"] != "permission_request");
        }
    } else if path.ends_with("/sessions") {
        for row in value["sessions"].as_array_mut().into_iter().flatten() {
            hide(row);
        }
    }
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(value.to_string()))
}

fn hide(status: &mut Value) {
    for (key, value) in [
        ("pendingInteractions", json!([])),
        ("pendingInteractionCount", json!(0)),
        ("openQuestionCount", json!(0)),
        ("isWaitingForUserQuestion", json!(false)),
        ("isWaitingForPermission", json!(false)),
    ] {
        status[key] = value;
    }
}
