//! A small daemon for tests: one session, scripted turns, questions that can be answered, and restarts.
//! Shared by the tests inside the binary and those that run it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The session of the fake.
pub(crate) const SESSION: &str = "0195aaaa-0000-7000-8000-000000000001";

#[derive(Default)]
struct State {
    questions: BTreeMap<String, Value>,
    /// What the session's stream holds.
    ring: Vec<Value>,
    epoch: u64,
    live: bool,
    /// What a prompt, an answer or a resume after a restart does.
    on_prompt: Vec<Value>,
    on_answer: Vec<Value>,
    on_resume: Vec<Value>,
    /// What the next answers get instead of a receipt.
    refusals: VecDeque<(u16, Value)>,
    history: Vec<Value>,
    has_active_prompt: bool,
    /// An answer stays on disk, and the agent gets it with the next resume.
    holds_answers: bool,
    issues: Value,
    /// Openings of the event stream that a test has waited for.
    reads_awaited: u64,
    seen: Vec<(String, Value)>,
}

/// The daemon. It stops with the runtime that it was started on.
#[derive(Clone)]
pub(crate) struct FakeDaemon {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    /// Event streams that were opened.
    readers: watch::Sender<u64>,
    /// (lives, changes): a new life ends every stream, a change wakes them.
    pulse: watch::Sender<(u64, u64)>,
}

impl FakeDaemon {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback can be bound");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state =
            Arc::new(Mutex::new(State { live: true, epoch: 1, issues: json!([]), ..State::default() }));
        let daemon = Self {
            url: format!("http://{address}"),
            state,
            readers: watch::channel(0).0,
            pulse: watch::channel((0, 0)).0,
        };
        let handler = daemon.clone();
        let app = axum::Router::new().fallback(move |request: Request<Body>| {
            let daemon = handler.clone();
            async move { daemon.handle(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        daemon
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with the lock")
    }

    /// What a prompt makes the agent do.
    pub(crate) fn on_prompt(&self, events: Vec<Value>) {
        self.state().on_prompt = events;
    }

    /// What an answer makes the agent do.
    pub(crate) fn on_answer(&self, events: Vec<Value>) {
        self.state().on_answer = events;
    }

    /// What a resume after a restart makes the agent do.
    pub(crate) fn on_resume(&self, events: Vec<Value>) {
        self.state().on_resume = events;
    }

    /// What the next answer gets.
    pub(crate) fn refuse(&self, status: u16, body: Value) {
        self.state().refusals.push_back((status, body));
    }

    /// Answers are kept, and reach the agent only with the next resume.
    pub(crate) fn hold_answers(&self) {
        self.state().holds_answers = true;
    }

    /// A turn runs.
    pub(crate) fn runs(&self) {
        self.state().has_active_prompt = true;
    }

    /// What the daemon says is wrong.
    pub(crate) fn issues(&self, issues: Value) {
        self.state().issues = issues;
    }

    /// The history that a load gives.
    pub(crate) fn history(&self, events: Vec<Value>) {
        self.state().history = events;
    }

    /// Puts a question into the inbox.
    pub(crate) fn question(&self, question: Value) {
        let id = question["questionId"].as_str().expect("a question has an id").to_owned();
        self.state().questions.insert(id, question);
    }

    /// Something happens in the session.
    pub(crate) fn publish(&self, events: &[Value]) {
        publish(&mut self.state(), events);
        self.pulse.send_modify(|pulse| pulse.1 += 1);
    }

    /// Somebody else answers.
    pub(crate) fn settle(&self, id: &str, by: Value, answers: Value) {
        if let Some(question) = self.state().questions.get_mut(id) {
            question["state"] = "answered".into();
            question["outcome"] = json!({"state": "answered", "answeredBy": by, "answers": answers,
                "answeredAt": "2026-03-01T10:00:00Z", "delivered": true});
        }
        self.publish(&[resolved(id, by, answers)]);
    }

    /// The daemon is killed and started again: streams end, the session is asleep, ids start anew.
    pub(crate) fn restart(&self) {
        let mut state = self.state();
        state.ring.clear();
        state.epoch += 1;
        state.live = false;
        drop(state);
        self.pulse.send_modify(|pulse| pulse.0 += 1);
    }

    /// Waits until somebody reads the session's events, once more than the last time.
    pub(crate) async fn reads(&self) {
        let before = self.state().reads_awaited;
        let mut readers = self.readers.subscribe();
        let _ = readers.wait_for(|readers| *readers > before).await;
        self.state().reads_awaited = before + 1;
    }

    /// What was asked so far: method and path, and the body.
    pub(crate) fn seen(&self) -> Vec<(String, Value)> {
        self.state().seen.clone()
    }

    async fn handle(&self, request: Request<Body>) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let path = parts.uri.path().to_owned();
        self.state().seen.push((format!("{} {path}", parts.method), body.clone()));
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (&parts.method, segments.as_slice()) {
            (&Method::GET, ["health"]) => ok(json!({"status": "ok"})),
            (&Method::GET, ["capabilities"]) => {
                ok(json!({"v": 1, "features": ["durable_questions"], "workspaceCwd": "/proj/site"}))
            }
            (&Method::GET, ["daemon", "status"]) => {
                let issues = self.state().issues.clone();
                ok(json!({"v": 1, "issues": issues, "daemon": {"restoreAskUserQuestion": true}}))
            }
            (&Method::POST, ["session"]) => ok(self.attached(false)),
            (&Method::POST, ["session", _, "load" | "resume"]) => self.restore(segments[2] == "load"),
            (&Method::POST, ["session", _, "prompt"]) => self.prompt(),
            (&Method::GET, ["session", _, "events"]) => self.events(&parts.headers),
            (&Method::GET, ["session", _, "status"]) => {
                ok(json!({"sessionId": SESSION, "hasActivePrompt": self.state().has_active_prompt}))
            }
            (&Method::GET, ["session", _, "pending-prompts"]) => ok(json!({"pendingPrompts": []})),
            (&Method::POST, ["session", _, "detach" | "cancel"]) => StatusCode::NO_CONTENT.into_response(),
            (&Method::GET, ["workspace", _, "sessions"]) => ok(
                json!({"sessions": [{"sessionId": SESSION, "displayName": "Redo the header", "isWaitingForUserQuestion": true}]}),
            ),
            (&Method::GET, ["questions"]) => self.list(parts.uri.query().unwrap_or_default()),
            (&Method::GET, ["questions", id]) => match self.state().questions.get(*id) {
                Some(question) => ok(question.clone()),
                None => {
                    refused(404, json!({"error": "there is no such question", "code": "question_not_found"}))
                }
            },
            (&Method::POST, ["questions", id, "answer"]) => self.answer(id, &body),
            _ => refused(404, json!({"error": "no such route"})),
        }
    }

    fn attached(&self, attached: bool) -> Value {
        let state = self.state();
        json!({"sessionId": SESSION, "clientId": "client_a", "workspaceCwd": "/proj/site", "attached": attached,
               "hasActivePrompt": state.has_active_prompt, "lastEventId": 0, "eventEpoch": state.epoch.to_string(),
               "compactedReplay": state.history})
    }

    fn restore(&self, with_history: bool) -> Response {
        let was_live = {
            let mut state = self.state();
            let was_live = std::mem::replace(&mut state.live, true);
            if !was_live {
                state.holds_answers = false;
                for question in state.questions.values_mut() {
                    if question["outcome"]["delivered"] == false {
                        question["outcome"]["delivered"] = true.into();
                    }
                }
                let events = std::mem::take(&mut state.on_resume);
                state.has_active_prompt = !events.is_empty();
                publish(&mut state, &events);
            }
            was_live
        };
        let mut body = self.attached(was_live);
        if !with_history {
            body["compactedReplay"] = json!([]);
        }
        ok(body)
    }

    fn prompt(&self) -> Response {
        let mut state = self.state();
        let last = state.ring.len();
        let events = state.on_prompt.clone();
        state.has_active_prompt = true;
        publish(&mut state, &events);
        let body = json!({"promptId": "p1", "lastEventId": last, "eventEpoch": state.epoch.to_string()});
        drop(state);
        self.pulse.send_modify(|pulse| pulse.1 += 1);
        (StatusCode::ACCEPTED, body.to_string()).into_response()
    }

    fn list(&self, query: &str) -> Response {
        let parameter =
            |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)).unwrap_or_default();
        let (wanted, ending) = (parameter("state="), parameter("ending="));
        let state = self.state();
        let questions: Vec<&Value> = state
            .questions
            .iter()
            .filter(|(id, _)| id.ends_with(ending))
            .map(|(_, question)| question)
            .filter(|question| matches!(wanted, "" | "all") || question["state"] == *wanted)
            .collect();
        ok(json!({ "questions": questions }))
    }

    fn answer(&self, id: &str, body: &Value) -> Response {
        let mut state = self.state();
        if let Some((status, body)) = state.refusals.pop_front() {
            return refused(status, body);
        }
        let held = state.holds_answers;
        let Some(question) = state.questions.get_mut(id) else {
            return refused(404, json!({"error": "there is no such question", "code": "question_not_found"}));
        };
        let receipt = |question: &Value| {
            let outcome = &question["outcome"];
            json!({"status": question["state"], "questionId": id, "generation": question["generation"],
                "responseId": body["responseId"], "answers": outcome["answers"], "answeredBy": outcome["answeredBy"],
                "delivery": if outcome["delivered"] == true { "delivered" } else { "delivering" },
                "answeredAt": outcome["answeredAt"]})
        };
        if question["state"] != "open" {
            if question["responseId"] == body["responseId"] {
                return ok(receipt(question));
            }
            return refused(
                409,
                json!({"error": "this question was answered already", "code": "already_answered",
                       "answeredBy": {"name": "Ada", "surface": "slack"}, "answeredAt": "2026-03-01T10:00:00Z"}),
            );
        }
        let declined = body["decline"] == true;
        question["state"] = if declined { "declined" } else { "answered" }.into();
        question["responseId"] = body["responseId"].clone();
        question["outcome"] = json!({"state": question["state"], "answers": body["answers"],
            "answeredBy": {"surface": "http"}, "answeredAt": "2026-03-01T10:00:00Z", "delivered": !held});
        let receipt = receipt(question);
        if held {
            return ok(receipt);
        }
        let mut events = vec![resolved(id, json!({"surface": "http"}), body["answers"].clone())];
        events.append(&mut state.on_answer.clone());
        publish(&mut state, &events);
        drop(state);
        self.pulse.send_modify(|pulse| pulse.1 += 1);
        ok(receipt)
    }

    fn events(&self, headers: &HeaderMap) -> Response {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let state = self.state();
        if !state.live {
            return refused(404, json!({"error": "this session is not live", "code": "session_not_found"}));
        }
        let epoch = state.epoch.to_string();
        drop(state);
        self.readers.send_modify(|readers| *readers += 1);
        let mut cursor = header("last-event-id").and_then(|id| id.parse::<usize>().ok());
        let mut first = String::from("retry: 3000\n\n");
        if header("x-qwen-event-epoch").is_some_and(|theirs| theirs != epoch) {
            cursor = Some(0);
            let resync = json!({"v": 1, "type": "state_resync_required", "data": {"reason": "epoch_reset"}});
            first.push_str(&format!("data: {resync}\n\n"));
        }
        let mut next = cursor.unwrap_or_else(|| self.state().ring.len());
        let mut replay = cursor.is_some();
        let daemon = self.clone();
        let mut pulse = self.pulse.subscribe();
        let life = pulse.borrow_and_update().0;
        let stream = futures::stream::unfold(Some(first), move |mut out| {
            // Everything that there is, then `replay_complete` once, then whatever comes.
            let (daemon, mut pulse) = (daemon.clone(), pulse.clone());
            let from = next;
            let ring = daemon.state().ring.clone();
            let mut text = out.take().unwrap_or_default();
            for event in ring.iter().skip(from) {
                text.push_str(&format!("id: {}\ndata: {event}\n\n", event["id"]));
            }
            next = ring.len().max(from);
            if std::mem::take(&mut replay) {
                let done = json!({"v": 1, "type": "replay_complete", "data": {"replayedCount": ring.len() - from.min(ring.len())}});
                text.push_str(&format!("data: {done}\n\n"));
            }
            async move {
                if text.is_empty() {
                    pulse.mark_unchanged();
                    let more = || daemon.state().ring.len() > from;
                    while !more() && pulse.borrow().0 == life {
                        pulse.changed().await.ok()?;
                    }
                    if pulse.borrow().0 != life {
                        return None;
                    }
                }
                Some((Ok::<_, std::io::Error>(Bytes::from(text)), Some(String::new())))
            }
        });
        Response::builder()
            .header("content-type", "text/event-stream")
            .header("X-Qwen-Event-Epoch", epoch)
            .body(Body::from_stream(stream))
            .expect("the parts of the response are fixed")
    }
}

fn publish(state: &mut State, events: &[Value]) {
    for event in events {
        let mut event = event.clone();
        event["id"] = (state.ring.len() + 1).into();
        event["v"] = 1.into();
        if event["type"] == "turn_complete" || event["type"] == "turn_error" {
            state.has_active_prompt = false;
        }
        state.ring.push(event);
    }
}

fn ok(body: Value) -> Response {
    (StatusCode::OK, body.to_string()).into_response()
}

fn refused(status: u16, body: Value) -> Response {
    (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body.to_string())
        .into_response()
}

// --- events of a turn

/// The agent says something.
pub(crate) fn says(text: &str) -> Value {
    update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

/// An update of the session.
pub(crate) fn update(update: Value) -> Value {
    json!({"type": "session_update", "promptId": "p1", "data": {"sessionId": SESSION, "update": update}})
}

/// A tool call.
pub(crate) fn tool(id: &str, name: &str, title: &str, status: &str) -> Value {
    update(
        json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "status": status, "_meta": {"toolName": name}}),
    )
}

/// Somebody said something, in a history.
pub(crate) fn heard(text: &str) -> Value {
    update(json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}))
}

/// A call that asks for a colour, in a history.
pub(crate) fn asks_in_history(call: &str, status: &str, result: &str) -> Value {
    let kind = if status == "pending" { "tool_call" } else { "tool_call_update" };
    let content = json!([{"type": "content", "content": {"type": "text", "text": result}}]);
    update(json!({"sessionUpdate": kind, "toolCallId": call, "status": status, "content": content,
        "rawInput": {"questions": colour("q_0")["questions"]}, "_meta": {"toolName": "ask_user_question"}}))
}

/// The agent asks the question with this id.
pub(crate) fn asks(question: &str, request: &str) -> Value {
    json!({"type": "permission_request", "promptId": "p1", "data": {"sessionId": SESSION, "requestId": request,
        "questionId": question, "generation": 1, "toolCall": {"_meta": {"toolName": "ask_user_question"}}, "options": []}})
}

/// The question was answered.
pub(crate) fn resolved(question: &str, by: Value, answers: Value) -> Value {
    json!({"type": "permission_resolved", "data": {"requestId": "r", "questionId": question, "answeredBy": by, "answers": answers,
        "outcome": {"outcome": "selected", "optionId": "proceed_once"}}})
}

/// The turn ends.
pub(crate) fn ends(reason: &str) -> Value {
    json!({"type": "turn_complete", "data": {"sessionId": SESSION, "promptId": "p1", "stopReason": reason}})
}

/// A question with one part.
pub(crate) fn colour(id: &str) -> Value {
    json!({"questionId": id, "generation": 1, "sessionId": SESSION, "kind": "user_question", "state": "open",
        "title": "Which colour?", "workspaceCwd": "/proj/site", "askedAt": "2026-03-01T10:00:00Z", "live": true,
        "requestId": "r1", "sessionTitle": "Redo the header",
        "questions": [{"question": "Which colour?", "header": "Colour",
            "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]})
}
