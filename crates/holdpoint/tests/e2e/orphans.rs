//! What a session started does not outlive it, whoever is killed.

use rustix::process::{Signal, kill_process};

use crate::support::{Rig, until};

/// The processes of the command that runs: its shell, and what that started.
async fn sleeping(rig: &Rig) -> Vec<String> {
    let path = rig.work().join("sleeping");
    let pids = until("the command runs", async || {
        let text = std::fs::read_to_string(&path).ok()?;
        text.ends_with('\n').then(|| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    });
    let pids = pids.await;
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| runs(pid)));
    pids
}

/// Whether a process runs; one that nobody has collected does not.
fn runs(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

/// Waits for the end of every one of them.
async fn ended(pids: Vec<String>) {
    until("the command ends", async || (!pids.iter().any(|pid| runs(pid))).then_some(())).await;
}

#[tokio::test]
async fn a_command_does_not_outlive_an_agent_that_is_killed() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please SLEEP").await;
    let processes = sleeping(&rig).await;
    for agent in rig.daemon().children() {
        kill_process(agent, Signal::KILL).unwrap();
    }
    ended(processes).await;
}

#[tokio::test]
async fn a_command_does_not_outlive_a_daemon_and_an_agent_that_are_killed_at_once() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please SLEEP").await;
    let processes = sleeping(&rig).await;
    let agents = rig.daemon().children();
    rig.kill().await;
    for agent in agents {
        // It may have seen the daemon's end already.
        let _ = kill_process(agent, Signal::KILL);
    }
    ended(processes).await;
}

#[tokio::test]
async fn a_command_does_not_outlive_a_daemon_that_is_killed_or_stopped() {
    for signal in [Signal::KILL, Signal::TERM] {
        let mut rig = Rig::started().await;
        let session = rig.api().create("yolo").await;
        let api = rig.api().of(&session.client);
        api.prompt(&session, "please SLEEP").await;
        let processes = sleeping(&rig).await;
        rig.daemon().signal(signal);
        ended(processes).await;
    }
}
