//! Orderly stops: for open questions they are what a crash is (I12).

use std::time::Duration;

use rustix::process::{Signal, test_kill_process};
use tokio::time::Instant;

use crate::support::{Asking, Rig, same, selected, undisturbed, until};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// To whom a signal goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whom {
    /// The daemon.
    Daemon,
    /// The daemon's process group, as Ctrl-C in a terminal does it.
    Group,
    /// The group and the agents too, whatever group they are in: as a session's end or a service manager does
    /// it.
    Everybody,
}

async fn stops(signal: Signal, whom: Whom) {
    let mut rig = Rig::started().await;
    let Asking { session, mut events, prompt, question, .. } = rig.asking("please ASK").await;
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();
    let mut daemon = rig.take_daemon();
    let agents = daemon.children();
    assert!(!agents.is_empty());

    let start = Instant::now();
    match whom {
        Whom::Daemon => daemon.signal(signal),
        Whom::Group | Whom::Everybody => daemon.signal_group(signal),
    }
    if whom == Whom::Everybody {
        for agent in &agents {
            // One that has ended already needs no signal.
            let _ = rustix::process::kill_process(*agent, signal);
        }
    }
    let status = daemon.ended().await;
    let took = start.elapsed();
    assert_eq!(status.code(), Some(0), "{signal:?} {whom:?}");
    assert!(took < Duration::from_secs(3), "{signal:?} {whom:?}: it took {took:?}");
    events.drain().await;
    assert!(events.saw("session_died"), "the stream says why it ends: {:#?}", events.seen);
    assert!(!events.saw("permission_resolved"), "{:#?}", events.seen);
    assert!(!events.saw("turn_complete"), "{:#?}", events.seen);
    for agent in agents {
        until("the agent is gone", async || test_kill_process(agent).is_err().then_some(())).await;
    }
    assert_eq!(std::fs::read(rig.transcript_path(&session)).unwrap(), before, "nothing is written");

    let api = rig.start().await.of(&session.client);
    let rows = api.inbox().await;
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0]["questionId"], question.id.as_str());
    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}

#[tokio::test]
async fn i12_sigterm() {
    stops(Signal::TERM, Whom::Daemon).await;
    stops(Signal::TERM, Whom::Group).await;
    stops(Signal::TERM, Whom::Everybody).await;
}

#[tokio::test]
async fn i12_sigint() {
    stops(Signal::INT, Whom::Daemon).await;
    stops(Signal::INT, Whom::Group).await;
    stops(Signal::INT, Whom::Everybody).await;
}

#[tokio::test]
async fn i12_sighup() {
    stops(Signal::HUP, Whom::Daemon).await;
    stops(Signal::HUP, Whom::Group).await;
    stops(Signal::HUP, Whom::Everybody).await;
}

#[tokio::test]
async fn i12_a_question_that_was_restored_survives_a_stop_too() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    rig.api().of(&session.client).prompt(&session, "please ASK").await;
    let [question] = rig.api().of(&session.client).wait_asked(&session).await;
    for _ in 0..2 {
        let mut daemon = rig.take_daemon();
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.ended().await.code(), Some(0));
        let api = rig.start().await.of(&session.client);
        api.load(&session).await;
        let [again] = api.wait_asked(&session).await;
        assert_eq!(again.id, question.id);
    }
}

#[tokio::test]
async fn e_a_second_signal_ends_the_daemon_at_once() {
    // The two are on their way before the daemon has taken the first: whichever that is, the other one is not lost.
    for (first, second) in
        [(Signal::INT, Signal::TERM), (Signal::TERM, Signal::INT), (Signal::HUP, Signal::TERM)]
    {
        let mut rig = Rig::started().await;
        let Asking { session, question, .. } = rig.asking("please ASK").await;
        let mut daemon = rig.take_daemon();
        let agents = daemon.children();
        assert!(!agents.is_empty());
        // Agents that do not hear the first: the stop cannot be over before the second.
        for agent in &agents {
            rustix::process::kill_process(*agent, Signal::STOP).unwrap();
        }
        daemon.signal(first);
        daemon.signal(second);
        assert_eq!(daemon.ended().await.code(), Some(0), "{first:?}, {second:?}");
        // What it said last is copied to the log a moment after its end.
        until("it stops at once", async || rig.log().contains("stopping at once").then_some(())).await;
        for agent in agents {
            until("the agent is gone", async || test_kill_process(agent).is_err().then_some(())).await;
        }
        let api = rig.start().await.of(&session.client);
        api.load(&session).await;
        let [again] = api.wait_asked(&session).await;
        assert_eq!(again.id, question.id);
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_turn_ends_in_time() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please HANG").await;
    rig.model.called(1).await;
    let mut daemon = rig.take_daemon();
    let start = Instant::now();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(3), "it took {:?}", start.elapsed());
}
