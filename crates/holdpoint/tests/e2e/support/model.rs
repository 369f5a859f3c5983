//! A scripted model behind an OpenAI-compatible endpoint. What it does next follows from the newest prompt and
//! from the results that came after it, so the same history always gets the same reply, ids included.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};

use super::until;

/// The model. It listens as long as it lives.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) base_url: String,
    heard: Arc<Mutex<Vec<Value>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Model {
    pub(crate) async fn start() -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let app = Router::new().route("/v1/chat/completions", post(reply)).with_state(Arc::clone(&heard));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { base_url, heard, task }
    }

    /// The messages of every request so far, without the system prompt.
    pub(crate) fn histories(&self) -> Vec<Vec<Value>> {
        let heard = self.heard.lock().unwrap();
        heard.iter().map(|body| messages(body).cloned().collect()).collect()
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    /// Waits until it was called so often.
    pub(crate) async fn called(&self, times: usize) {
        until(&format!("{times} calls of the model"), async || (self.calls() >= times).then_some(())).await;
    }
}

fn messages(body: &Value) -> impl Iterator<Item = &Value> {
    body["messages"].as_array().into_iter().flatten().filter(|message| message["role"] != "system")
}

async fn reply(State(heard): State<Arc<Mutex<Vec<Value>>>>, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let says = says(&messages(&body).cloned().collect::<Vec<_>>());
    heard.lock().unwrap().push(body);
    match says {
        Says::Text(text) => stream(json!({ "content": text }), "stop"),
        Says::Calls(calls) => stream(json!({ "tool_calls": calls }), "tool_calls"),
        Says::Nothing => {
            let silence = futures::stream::pending::<Result<Vec<u8>, Infallible>>();
            ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(silence)).into_response()
        }
        Says::Status(status) => (status, "{\"error\":{\"message\":\"scripted\"}}").into_response(),
    }
}

fn stream(delta: Value, finish: &str) -> Response {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let text = chunk(delta, Value::Null) + &chunk(json!({}), json!(finish)) + "data: [DONE]\n\n";
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}

/// What the model does.
enum Says {
    Text(String),
    Calls(Vec<Value>),
    Nothing,
    Status(StatusCode),
}

/// One part of a question: two options, named after its number.
pub(crate) fn part(n: usize) -> Value {
    json!({
        "question": format!("Which one for item {n}?"),
        "header": format!("Item {n}"),
        "options": [
            { "label": format!("Red{n}"), "description": "the warm one" },
            { "label": format!("Blue{n}"), "description": "the cold one" },
        ],
    })
}

/// The script. The last word of the prompt chooses; `results` of the calls that it led to decide the step.
fn says(messages: &[Value]) -> Says {
    let start = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
    let prompt = match &messages[start]["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let results: Vec<&Value> =
        messages[start..].iter().filter(|message| message["role"] == "tool").map(|m| &m["content"]).collect();
    let earlier = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten().count();
    let calls = |list: Vec<(&str, Value)>| {
        let call = |(i, (name, args)): (usize, (&str, Value))| {
            let arguments = match args {
                Value::String(raw) => raw,
                args => args.to_string(),
            };
            json!({
                "index": i,
                "id": format!("call_{}", earlier + i + 1),
                "type": "function",
                "function": { "name": name, "arguments": arguments },
            })
        };
        Says::Calls(list.into_iter().enumerate().map(call).collect())
    };
    let ask = |numbers: &[usize]| {
        let parts: Vec<Value> = numbers.iter().map(|n| part(*n)).collect();
        ("ask_user_question", json!({ "questions": parts }))
    };
    let sleep = || {
        let command = "sleep 600 & echo $$ $! > sleeping; wait";
        ("run_shell_command", json!({ "command": command, "description": "takes its time" }))
    };
    let shell =
        || ("run_shell_command", json!({ "command": "echo ran >> ran.txt", "description": "leaves a mark" }));
    let done = || {
        let read: Vec<String> = results.iter().map(|result| result.to_string()).collect();
        Says::Text(if read.is_empty() { "Hello.".to_owned() } else { format!("Read: {}", read.join(" ")) })
    };
    let word = prompt.rsplit(' ').next().unwrap_or_default();
    match (word, results.len()) {
        ("ASK", 0) => calls(vec![ask(&[1])]),
        ("ASK_TWO", 0) => calls(vec![ask(&[1]), ask(&[2])]),
        ("ASK_THREE", 0) => calls(vec![ask(&[1]), ask(&[2]), ask(&[3])]),
        ("ASK_FOUR", 0) => calls(vec![ask(&[1]), ask(&[2]), ask(&[3]), ask(&[4])]),
        ("ASK_Q3", 0) => calls(vec![ask(&[1, 2, 3])]),
        ("ASK_CHAIN", n @ 0..2) => calls(vec![ask(&[n + 1])]),
        ("SHELL_AND_ASK", 0) => calls(vec![shell(), ask(&[1])]),
        ("ASK_THEN_SHELL", 0) => calls(vec![ask(&[1])]),
        ("ASK_THEN_SHELL", 1) | ("SHELL", 0) => calls(vec![shell()]),
        ("BAD_ARGUMENTS", 0) => calls(vec![("ask_user_question", json!({ "questions": [] }))]),
        ("BAD_JSON", 0) => calls(vec![("ask_user_question", json!("{\"questions\": [{"))]),
        ("UNKNOWN_TOOL", 0) => calls(vec![("make_coffee", json!({ "strength": 3 }))]),
        ("SLEEP", 0) => calls(vec![sleep()]),
        ("SLEEP_AND_ASK", 0) => calls(vec![sleep(), ask(&[1])]),
        ("HANG", _) => Says::Nothing,
        ("REFUSED", _) => Says::Status(StatusCode::BAD_REQUEST),
        _ => done(),
    }
}
