//! `run_shell_command` with real processes. Nothing sleeps: each wait is for a signal of the processes themselves.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::time::Duration;

use camino::Utf8PathBuf;
use holdpoint_agent::tools::{Effects, Limits, ToolResult, Tools};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine; nothing is measured against it.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    dir: TempDir,
    tools: Tools,
}

impl World {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tools = Tools::new(Utf8PathBuf::try_from(dir.path().to_owned()).unwrap(), limits);
        Self { dir, tools }
    }

    async fn run(&self, args: Value) -> ToolResult {
        let planned = self.tools.plan("run_shell_command", &args).await.unwrap();
        self.tools.run(planned, CancellationToken::new()).await
    }

    async fn refusal(&self, args: Value) -> String {
        self.tools.plan("run_shell_command", &args).await.unwrap_err().to_string()
    }

    /// A named pipe: its reader learns when processes have started, and by its end that all are gone.
    async fn fifo(&self) -> pipe::Receiver {
        let path = self.dir.path().join("alive");
        let made = tokio::process::Command::new("mkfifo").arg(&path).status().await.unwrap();
        assert!(made.success());
        pipe::OpenOptions::new().open_receiver(path).unwrap()
    }
}

/// Waits until `count` process ids have come through the pipe.
async fn pids(pipe: &mut pipe::Receiver, count: usize) -> Vec<Pid> {
    let mut text = String::new();
    let mut piece = [0; 256];
    tokio::time::timeout(PATIENCE, async {
        loop {
            match pipe.read(&mut piece).await {
                Ok(0) => tokio::task::yield_now().await,
                Ok(n) => text.push_str(std::str::from_utf8(&piece[..n]).unwrap()),
                Err(error) => panic!("{error}"),
            }
            if text.lines().count() >= count && text.ends_with('\n') {
                break;
            }
        }
    })
    .await
    .unwrap();
    text.lines().map(|line| Pid::from_raw(line.parse().unwrap()).unwrap()).collect()
}

/// Waits until no process holds the pipe open any more.
async fn closed(mut pipe: pipe::Receiver) {
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, pipe.read_to_end(&mut rest)).await.unwrap().unwrap();
}

/// A shell and a child of it, both holding the pipe, both deaf to SIGTERM if `stubborn`.
fn family(stubborn: bool) -> String {
    let trap = if stubborn { "trap '' TERM; " } else { "" };
    format!(
        "exec 9>alive; {trap}bash -c '{trap2}echo $$ >&9; while :; do read -t 1 <> <(:) ; done' & echo $$ >&9; wait; wait",
        trap2 = if stubborn { "trap \"\" TERM; " } else { "" }
    )
}

#[tokio::test]
async fn output_exit_code_and_signal_are_told() {
    let world = World::new();
    let result = world.run(json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert!(result.is_error);
    assert!(
        result.text.contains("out") && result.text.contains("err") && result.text.contains("[exit code 3]"),
        "{}",
        result.text
    );
    let result = world.run(json!({"command": "kill -9 $$"})).await;
    assert!(result.is_error && result.text.contains("ended by signal 9"), "{}", result.text);
    let result = world.run(json!({"command": "true"})).await;
    assert!(!result.is_error && result.text.contains("[no output]\n[exit code 0]"), "{}", result.text);
}

#[tokio::test]
async fn it_runs_in_the_workspace_or_a_directory_of_it_without_input() {
    let world = World::new();
    std::fs::create_dir(world.dir.path().join("sub")).unwrap();
    let here = world.tools.workspace().to_owned();
    assert!(world.run(json!({"command": "pwd"})).await.text.starts_with(here.as_str()));
    assert!(
        world
            .run(json!({"command": "pwd", "directory": "sub"}))
            .await
            .text
            .starts_with(here.join("sub").as_str())
    );
    assert!(world.run(json!({"command": "cat; echo end"})).await.text.starts_with("end"));
    assert!(world.run(json!({"command": "pwd", "directory": "none"})).await.is_error);
}

#[tokio::test]
async fn what_a_person_agrees_to_is_the_whole_command() {
    let world = World::new();
    let long = format!("echo {}; rm -rf x", "a ".repeat(200));
    let planned = world.tools.plan("run_shell_command", &json!({"command": long})).await.unwrap();
    assert_eq!((planned.kind, planned.effects), ("execute", Effects::Executes));
    assert!(planned.title.chars().count() < 130);
    assert!(planned.content[0]["content"]["text"].as_str().unwrap().ends_with("rm -rf x"));
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_way_out() {
    let world = World::new();
    assert!(world.refusal(json!({"command": "sleep 1", "is_background": true})).await.contains("background"));
    assert!(world.refusal(json!({"command": "a", "timeout": 0})).await.contains("milliseconds"));
    assert!(world.refusal(json!({"command": "a", "timeout": 600_001})).await.contains("600000"));
    assert!(world.refusal(json!({"command": " "})).await.contains("empty"));
    assert!(world.refusal(json!({"command": "a\0b"})).await.contains("NUL"));
}

#[tokio::test]
async fn a_firehose_is_cut_in_the_middle() {
    let world = World::with(Limits { output_bytes: 1000, ..Limits::default() });
    let result = world
        .run(json!({"command": "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"}))
        .await;
    assert!(
        result.text.starts_with("first")
            && result.text.contains("bytes left out")
            && result.text.contains("last")
    );
    assert!(result.text.len() < 1200, "{}", result.text.len());
}

#[tokio::test]
async fn a_cancel_ends_the_whole_group() {
    for stubborn in [false, true] {
        let world = World::with(Limits { command_grace: Duration::from_millis(50), ..Limits::default() });
        let mut alive = world.fifo().await;
        let planned =
            world.tools.plan("run_shell_command", &json!({"command": family(stubborn)})).await.unwrap();
        let cancel = CancellationToken::new();
        let (tools, token) = (world.tools.clone(), cancel.clone());
        let run = tokio::spawn(async move { tools.run(planned, token).await });
        pids(&mut alive, 2).await;
        cancel.cancel();
        let result = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
        assert!(result.is_error && result.text.contains("cancelled"), "{}", result.text);
        closed(alive).await;
    }
}

#[tokio::test]
async fn a_dropped_call_ends_the_whole_group() {
    let world = World::new();
    let mut alive = world.fifo().await;
    let planned = world.tools.plan("run_shell_command", &json!({"command": family(true)})).await.unwrap();
    let tools = world.tools.clone();
    let run = tokio::spawn(async move { tools.run(planned, CancellationToken::new()).await });
    let pids = pids(&mut alive, 2).await;
    run.abort();
    closed(alive).await;
    // The shell itself is reaped by the runtime; the pipe's end has shown that it runs no more.
    assert_eq!(pids.len(), 2);
}

#[tokio::test]
async fn the_time_limit_ends_the_whole_group_and_keeps_the_output() {
    let world = World::new();
    let alive = world.fifo().await;
    let result =
        world.run(json!({"command": format!("echo before; {}", family(false)), "timeout": 1500})).await;
    assert!(
        result.is_error && result.text.starts_with("before") && result.text.contains("1.5 s"),
        "{}",
        result.text
    );
    closed(alive).await;
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let world = World::new();
    let mut alive = world.fifo().await;
    let left = "exec 9>alive; (echo $BASHPID >&9; exec sleep 1000) & read -r x < <(echo started); echo $x";
    let planned = world.tools.plan("run_shell_command", &json!({"command": left})).await.unwrap();
    let tools = world.tools.clone();
    let run = tokio::spawn(async move { tools.run(planned, CancellationToken::new()).await });
    let child = pids(&mut alive, 1).await[0];
    let result = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
    assert!(!result.is_error && result.text.contains("started"), "{}", result.text);
    closed(alive).await;
    let _ = test_kill_process(child);
}

#[tokio::test]
async fn keys_are_not_handed_to_commands() {
    // Set for a process of its own, since the environment is the whole process's.
    if std::env::var_os("OPENAI_API_KEY").is_none() {
        let status = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "keys_are_not_handed_to_commands"])
            .env("OPENAI_API_KEY", "sk-secret")
            .status()
            .await
            .unwrap();
        assert!(status.success());
        return;
    }
    let result = World::new().run(json!({"command": "env; echo ${OPENAI_API_KEY:-none}"})).await;
    assert!(!result.text.contains("sk-secret") && result.text.contains("none"), "{}", result.text);
}
