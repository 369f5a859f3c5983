//! The agent by itself over stdio, as an editor has it, and for what has no route of the daemon.

use std::collections::{HashMap, VecDeque};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::PATIENCE;

/// An agent process of its own, beside those of the daemon. It dies with this.
#[derive(Debug)]
pub(crate) struct Acp {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
    /// Answers that came and nobody has waited for yet.
    answers: HashMap<u64, Result<Value, Value>>,
    /// Requests of the agent that nobody has looked at yet.
    asked: VecDeque<Value>,
    /// The result of `initialize`.
    pub(crate) greeting: Value,
}

impl Acp {
    /// Starts it and greets it as our daemon does.
    pub(crate) async fn start(command: Command) -> Self {
        let params = json!({ "protocolVersion": 1, "_meta": { "holdpoint.daemon": { "v": 1 } } });
        Self::greeted(command, params).await
    }

    /// Starts it and greets it with these params of `initialize`.
    pub(crate) async fn greeted(mut command: Command, params: Value) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acp = Self {
            child,
            stdin,
            lines,
            next: 1,
            answers: HashMap::new(),
            asked: VecDeque::new(),
            greeting: Value::Null,
        };
        acp.greeting = acp.call("initialize", params).await.unwrap();
        acp
    }

    /// Whether it says that it restores.
    pub(crate) fn restores(&self) -> &Value {
        &self.greeting["_meta"]["holdpoint.agent"]["restore"]
    }

    /// One request, and its answer.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// Sends a request; gives its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// The answer to a request.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            self.read().await;
        }
    }

    /// The next request of the agent.
    pub(crate) async fn asked(&mut self) -> Value {
        loop {
            if let Some(request) = self.asked.pop_front() {
                return request;
            }
            self.read().await;
        }
    }

    /// Whether the agent has asked something that nobody has looked at.
    pub(crate) fn has_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Answers a request of the agent.
    pub(crate) async fn reply(&mut self, request: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    /// How many bytes the process has read so far, from files and pipes.
    pub(crate) fn bytes_read(&self) -> u64 {
        let counts = std::fs::read_to_string(format!("/proc/{}/io", self.child.id().unwrap())).unwrap();
        let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.unwrap().parse().unwrap()
    }

    /// Ends its input, and waits for its end.
    pub(crate) async fn end(mut self) {
        drop(self.stdin);
        timeout(PATIENCE, self.child.wait()).await.expect("the agent ends").unwrap();
    }

    async fn send(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Takes one message of the agent.
    async fn read(&mut self) {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("a message in time").unwrap();
        let message: Value = serde_json::from_str(&line.expect("the agent lives")).unwrap();
        match (message["id"].as_u64(), message.get("method")) {
            (_, Some(_)) if message.get("id").is_some() => self.asked.push_back(message),
            (Some(id), None) => {
                let answer = match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
                self.answers.insert(id, answer);
            }
            _ => {}
        }
    }
}
