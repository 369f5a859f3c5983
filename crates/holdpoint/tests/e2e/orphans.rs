//! What a session started does not outlive it, whoever is killed.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::support::{PATIENCE, Rig, until};

/// The processes of the command that runs: its shell, and what that started.
async fn sleeping(rig: &Rig) -> Vec<OwnedFd> {
    let path = rig.work().join("sleeping");
    let pids = until("the command runs", async || {
        let text = std::fs::read_to_string(&path).ok()?;
        text.ends_with('\n')
            .then(|| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>())
    });
    let pids = pids.await;
    assert_eq!(pids.len(), 2);
    pids.into_iter()
        .map(|pid| pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap())
        .collect()
}

/// Waits for the end of every one of them.
async fn ended(processes: Vec<OwnedFd>) {
    for process in processes {
        let process = AsyncFd::register(process).unwrap();
        let end = timeout(PATIENCE, process.readable()).await;
        drop(end.expect("it still runs").unwrap());
    }
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
