//! A client of the agent, and a model that follows a script.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use camino::{Utf8Path, Utf8PathBuf};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use holdpoint_agent::provider::{Delta, Finish, ModelConfig, ModelTurn, Provider, ProviderError, Request};
use holdpoint_agent::tools::{ApprovalMode, Limits};
use holdpoint_agent::{AgentConfig, Exit, serve};
use holdpoint_model::history::{Content, FunctionCall, Part, Role};
use holdpoint_model::ids::CallId;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the scripted model says next.
pub(crate) enum Say {
    Turn(ModelTurn),
    Fail(ProviderError),
    /// Says this much and then nothing, until it is cancelled.
    Hang(&'static str),
}

/// A scripted model. Keeps what it was asked.
#[derive(Default)]
pub(crate) struct Script {
    lines: Mutex<VecDeque<Say>>,
    asked: Mutex<Vec<Vec<Content>>>,
    pub(crate) called: Notify,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    pub(crate) fn new(lines: impl IntoIterator<Item = Say>) -> Arc<Self> {
        let script = Self::default();
        script.lines.lock().unwrap().extend(lines);
        Arc::new(script)
    }

    /// The history of each call, in order.
    pub(crate) fn asked(&self) -> Vec<Vec<Content>> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The responses that the model read in its last call, as (call, text).
    pub(crate) fn last_results(&self) -> Vec<(String, String)> {
        let asked = self.asked();
        let results =
            asked.last().unwrap().iter().flat_map(|content| content.responses().cloned().collect::<Vec<_>>());
        results.map(|r| (r.id.as_ref().unwrap().to_string(), r.text())).collect()
    }
}

impl Provider for Script {
    fn stream<'a>(
        &'a self,
        request: Request<'a>,
        deltas: mpsc::Sender<Delta>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<ModelTurn, ProviderError>> {
        self.asked.lock().unwrap().push(request.history.to_vec());
        assert!(request.tools.iter().any(|tool| tool.name == "ask_user_question"));
        // R3: what is sent is complete, always.
        for (i, content) in request.history.iter().enumerate() {
            let calls: Vec<_> = content.calls().map(|call| call.id.clone()).collect();
            let answered: Vec<_> = match request.history.get(i + 1) {
                Some(next) => next.responses().map(|response| response.id.clone()).collect(),
                None => Vec::new(),
            };
            assert!(calls.is_empty() || calls == answered, "r3: {calls:?} answered by {answered:?}");
        }
        let line = self.lines.lock().unwrap().pop_front().expect("the script has another line");
        self.called.notify_one();
        async move {
            match line {
                Say::Turn(turn) => {
                    for part in &turn.parts {
                        if let Some(text) = &part.text {
                            let delta = if part.thought == Some(true) { Delta::Thought } else { Delta::Text };
                            let _ = deltas.send(delta(text.clone())).await;
                        }
                    }
                    Ok(turn)
                }
                Say::Fail(error) => Err(error),
                Say::Hang(text) => {
                    let _ = deltas.send(Delta::Text(text.to_owned())).await;
                    cancel.cancelled().await;
                    Err(ProviderError::Cancelled)
                }
            }
        }
        .boxed()
    }

    fn model(&self) -> &str {
        "scripted"
    }

    fn describe(&self) -> String {
        "scripted".to_owned()
    }
}

pub(crate) fn call(id: &str, name: &str, args: Value) -> Part {
    let id = (!id.is_empty()).then(|| CallId::new(id).unwrap());
    Part::call(FunctionCall { id, name: name.to_owned(), args })
}

pub(crate) fn question_args(header: &str) -> Value {
    json!({"questions": [{"question": format!("{header}?"), "header": header, "options": [
        {"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]})
}

pub(crate) fn question(id: &str) -> Part {
    call(id, "ask_user_question", question_args(id))
}

pub(crate) fn turn(parts: Vec<Part>, finish: Finish) -> Say {
    Say::Turn(ModelTurn { parts, finish, usage: None })
}

pub(crate) fn text(text: &str) -> Say {
    turn(vec![Part::text(text)], Finish::Stop)
}

pub(crate) fn calls(parts: Vec<Part>) -> Say {
    turn(parts, Finish::ToolCalls)
}

/// A directory with a workspace and a data directory.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub(crate) data: Utf8PathBuf,
    pub(crate) workspace: Utf8PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        let (data, workspace) = (root.join("data"), root.join("workspace"));
        std::fs::create_dir_all(&workspace).unwrap();
        Self { _dir: dir, data, workspace }
    }

    pub(crate) fn config(&self) -> AgentConfig {
        AgentConfig {
            data_dir: self.data.clone(),
            restore: true,
            model: ModelConfig::demo(),
            approval_mode: ApprovalMode::Default,
            max_steps: 20,
            limits: Limits::default(),
            version: "0.0.0".to_owned(),
        }
    }

    /// The records of a session, in file order.
    pub(crate) fn records(&self, session: &str) -> Vec<Value> {
        let path = self.data.join("sessions").join(format!("{session}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The results in a session's file, in file order, as (call, cause).
    pub(crate) fn results(&self, session: &str) -> Vec<(String, String)> {
        let records = self.records(session);
        let results = records.iter().filter(|record| record["type"] == "tool_result");
        results
            .map(|record| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (text(&record["toolCallResult"]["callId"]), text(&record["holdpoint"]["cause"]))
            })
            .collect()
    }
}

/// A request that the agent made.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
}

impl Asked {
    pub(crate) fn call(&self) -> String {
        self.params["toolCall"]["toolCallId"].as_str().unwrap().to_owned()
    }
}

type Reply = Result<Value, Value>;

#[derive(Default)]
struct Inbox {
    waiting: HashMap<u64, oneshot::Sender<Reply>>,
    stray: Vec<Value>,
}

/// The client's end of one agent.
pub(crate) struct Client {
    sink: Arc<tokio::sync::Mutex<DuplexStream>>,
    next: u64,
    inbox: Arc<Mutex<Inbox>>,
    asked: mpsc::Receiver<Asked>,
    updates: Arc<Mutex<Vec<Value>>>,
    changed: Arc<Notify>,
    pub(crate) shutdown: CancellationToken,
    agent: JoinHandle<Exit>,
}

pub(crate) fn daemon() -> Value {
    json!({"protocolVersion": 1, "_meta": {"holdpoint.daemon": {"v": 1}}})
}

impl Client {
    /// Starts an agent without a word said to it.
    pub(crate) fn start(config: AgentConfig, provider: Arc<Script>) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (source, their_sink) = tokio::io::duplex(1 << 20);
        let shutdown = CancellationToken::new();
        let agent = tokio::spawn(serve(config, provider, theirs, their_sink, shutdown.clone()));
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let updates = Arc::new(Mutex::new(Vec::new()));
        let changed = Arc::new(Notify::new());
        // More than any script asks.
        let (asks, asked) = mpsc::channel(64);
        tokio::spawn(read(source, Arc::clone(&inbox), Arc::clone(&updates), Arc::clone(&changed), asks));
        let sink = Arc::new(tokio::sync::Mutex::new(ours));
        Self { sink, next: 1, inbox, asked, updates, changed, shutdown, agent }
    }

    /// Starts an agent and initialises it as our daemon does.
    pub(crate) async fn daemon(config: AgentConfig, provider: Arc<Script>) -> Self {
        let mut client = Self::start(config, provider);
        client.call("initialize", daemon()).await.unwrap();
        client
    }

    pub(crate) async fn send_line(&self, line: &str) {
        let mut sink = self.sink.lock().await;
        sink.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request; its answer comes later.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> oneshot::Receiver<Reply> {
        let id = self.next;
        self.next += 1;
        let (sender, receiver) = oneshot::channel();
        self.inbox.lock().unwrap().waiting.insert(id, sender);
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
            .await;
        receiver
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Reply {
        self.begin(method, params).await.await.unwrap()
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// The next request of the agent.
    pub(crate) async fn asked(&mut self) -> Asked {
        within(self.asked.recv()).await.expect("the agent lives")
    }

    /// A request of the agent that is already there.
    pub(crate) fn asked_now(&mut self) -> Option<Asked> {
        self.asked.try_recv().ok()
    }

    pub(crate) async fn reply(&self, asked: &Asked, result: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "id": asked.id, "result": result}).to_string()).await;
    }

    pub(crate) async fn pick(&self, asked: &Asked, label: &str) {
        self.reply(asked, answered(label)).await;
    }

    /// Makes a session in the workspace.
    pub(crate) async fn new_session(&mut self, place: &Place) -> String {
        let made = self.call("session/new", json!({"cwd": place.workspace, "mcpServers": []})).await.unwrap();
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt with a prompt id; its end comes later.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> oneshot::Receiver<Reply> {
        let meta = json!({"qwen-code/invocation": {"version": 1, "sessionId": session, "promptId": format!("p-{}", text.replace(' ', "-"))}});
        let block = json!({"type": "text", "text": text});
        self.begin("session/prompt", json!({"sessionId": session, "prompt": [block], "_meta": meta})).await
    }

    /// [`Self::prompt`], and the JSON-RPC id of the request.
    pub(crate) async fn prompt_with_id(
        &mut self,
        session: &str,
        text: &str,
    ) -> (u64, oneshot::Receiver<Reply>) {
        let id = self.next;
        (id, self.prompt(session, text).await)
    }

    /// Sends a prompt without text, by a key of `_meta`.
    pub(crate) async fn special(&mut self, session: &str, key: &str) -> oneshot::Receiver<Reply> {
        let meta = json!({key: true, "qwen-code/invocation": {"version": 1, "sessionId": session, "promptId": "p-again"}});
        self.begin("session/prompt", json!({"sessionId": session, "prompt": [], "_meta": meta})).await
    }

    pub(crate) async fn restore(&mut self, session: &str) -> oneshot::Receiver<Reply> {
        self.special(session, "qwen.daemon.restoreAskUserQuestion").await
    }

    /// Loads a session with a replay in the response.
    pub(crate) async fn load(&mut self, place: &Place, session: &str, meta: Value) -> Value {
        let mut all = json!({"qwen.session.loadReplayMode": "bulk"});
        all.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        let params = json!({"sessionId": session, "cwd": place.workspace, "mcpServers": [], "_meta": all});
        self.call("session/load", params).await.unwrap()
    }

    /// All updates so far.
    pub(crate) fn updates(&self) -> Vec<Value> {
        self.updates.lock().unwrap().clone()
    }

    /// Waits until an update satisfies the predicate.
    pub(crate) async fn update(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let changed = self.changed.notified();
            if let Some(update) = self.updates().into_iter().find(|update| wanted(update)) {
                return update;
            }
            within(changed).await;
        }
    }

    /// What came that answers nothing.
    pub(crate) async fn stray(&self) -> Value {
        loop {
            let changed = self.changed.notified();
            if let Some(stray) = self.inbox.lock().unwrap().stray.pop() {
                return stray;
            }
            changed.await;
        }
    }

    /// The agent is gone from one moment to the next, and its locks with it.
    pub(crate) async fn kill(self) {
        self.agent.abort();
        let _ = self.agent.await;
    }

    /// Closes the agent's input and waits for its end.
    pub(crate) async fn hang_up(self) -> Exit {
        drop(self.sink);
        self.agent.await.unwrap()
    }

    /// Tells the agent to end, as a signal does.
    pub(crate) async fn terminate(self) -> Exit {
        self.shutdown.cancel();
        self.agent.await.unwrap()
    }
}

async fn read(
    source: DuplexStream,
    inbox: Arc<Mutex<Inbox>>,
    updates: Arc<Mutex<Vec<Value>>>,
    changed: Arc<Notify>,
    asks: mpsc::Sender<Asked>,
) {
    let mut lines = BufReader::new(source).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).expect("protocol only");
        match (message.get("id").cloned(), message["method"].as_str()) {
            (Some(id), Some(method)) => {
                let asked = Asked { id, method: method.to_owned(), params: message["params"].clone() };
                let _ = asks.try_send(asked);
            }
            (None, Some("session/update")) => {
                updates.lock().unwrap().push(message["params"]["update"].clone());
            }
            (None, Some(_)) => {}
            (id, None) => {
                let mut inbox = inbox.lock().unwrap();
                let waiting = id.and_then(|id| id.as_u64()).and_then(|id| inbox.waiting.remove(&id));
                match waiting {
                    Some(waiting) => {
                        let reply = match message.get("error") {
                            Some(error) => Err(error.clone()),
                            None => Ok(message["result"].clone()),
                        };
                        let _ = waiting.send(reply);
                    }
                    None => inbox.stray.push(message),
                }
            }
        }
        changed.notify_waiters();
    }
}

/// A test that waits for what never comes fails instead of hanging.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(60), future).await.expect("it comes at last")
}

/// What tells the daemon that the agent would ask again.
pub(crate) const HINT: &str = "qwen.daemon.restoreAskUserQuestion";

pub(crate) fn hinted(loaded: &Value) -> bool {
    loaded["_meta"][HINT] == json!(true)
}

/// Runs a session until it asks, and kills the agent there. The session's id.
pub(crate) async fn ask_and_die(place: &Place, parts: Vec<Part>, questions: usize) -> String {
    let mut client = Client::daemon(place.config(), Script::new([calls(parts)])).await;
    let session = client.new_session(place).await;
    let _end = client.prompt(&session, "go").await;
    for _ in 0..questions {
        client.asked().await;
    }
    client.kill().await;
    session
}

/// The answer to a question.
pub(crate) fn answered(label: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}, "answers": {"0": label}})
}

pub(crate) fn declined() -> Value {
    json!({"outcome": {"outcome": "cancelled"}, "_meta": {"holdpoint.cause": "declined"}})
}

pub(crate) fn caused(cause: &str) -> Value {
    json!({"outcome": {"outcome": "cancelled"}, "_meta": {"holdpoint.cause": cause}})
}

/// The stop reason of a prompt's answer.
pub(crate) fn stop_reason(reply: &Reply) -> &str {
    reply.as_ref().unwrap()["stopReason"].as_str().unwrap()
}

/// A history without what differs from run to run by nature.
pub(crate) fn shape(history: &[Content]) -> Value {
    json!(history.iter().filter(|content| !content.parts.is_empty()).collect::<Vec<_>>())
}

pub(crate) fn is_role(content: &Content, role: Role) -> bool {
    content.role == role
}
