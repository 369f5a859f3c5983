//! The agent by itself over stdio, for what has no route of the daemon.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::PATIENCE;

/// An agent process of its own, beside those of the daemon. It dies with this.
#[derive(Debug)]
pub(crate) struct Acp {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
    /// The result of `initialize`.
    pub(crate) greeting: Value,
}

impl Acp {
    /// Starts it and greets it as our daemon does.
    pub(crate) async fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acp = Self { _child: child, stdin, lines, next: 1, greeting: Value::Null };
        let params = json!({ "protocolVersion": 1, "_meta": { "holdpoint.daemon": { "v": 1 } } });
        acp.greeting = acp.call("initialize", params).await.unwrap();
        acp
    }

    /// Whether it says that it restores.
    pub(crate) fn restores(&self) -> &Value {
        &self.greeting["_meta"]["holdpoint.agent"]["restore"]
    }

    /// One request, and its answer.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.next;
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.stdin.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await.expect("an answer in time").unwrap();
            let message: Value = serde_json::from_str(&line.expect("the agent lives")).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }
}
