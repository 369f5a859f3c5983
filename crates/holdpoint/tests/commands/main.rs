//! The built binary against a small daemon: output, exit codes, signals.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

#[path = "../../src/fake_daemon.rs"]
#[expect(dead_code, reason = "the tests inside the binary use the rest of it")]
mod fake_daemon;

mod answers;
mod arguments;
mod looking;
mod output;
mod turns;

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::process::Command;

fn command(url: &str, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    command.args(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.env_clear().env("HOLDPOINT_URL", url).env("HOME", "/nonexistent");
    command
}

async fn run(url: &str, line: &[&str]) -> Output {
    command(url, line).output().await.unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json_lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Nobody listens on port 1 of loopback.
const NOBODY: &str = "http://127.0.0.1:1";

/// Two questions of the same minute, as the daemon names them: the ids begin alike.
const FIRST: &str = "q_01a22e6c4d5e7a0181c2d3e40f3a2b1c";
const SECOND: &str = "q_01a22e6c51b07fc29a07b8c95d6e7f80";
