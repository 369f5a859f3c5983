//! How processes end, and what their sessions are told.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Host, Session, dies, lives, new_session, take_up, within};
use holdpoint_engine::port::{AgentError, Agents, FromAgent};
use serde_json::json;
use tokio::sync::mpsc;

#[tokio::test]
async fn an_exit_is_told_once_after_everything_that_was_sent_before_it() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut one = Session::start(&host, &agent, "ses-1", 4).await;
    let mut two = Session::start(&host, &agent, "ses-2", 4).await;
    one.prompt("p-1", "print about to leave; secret; flood 300; torn; exit 3");
    for number in 0..300 {
        assert_eq!(one.text().await, number.to_string());
    }
    let exit = one.gone().await;
    assert_eq!((exit.code, exit.signal), (Some(3), None));
    assert_eq!(exit.stderr_tail, "about to leave\nmy secret is [redacted]");
    assert_eq!(two.gone().await, exit);

    // It is replaced at the next connect; the old handle says what happened.
    let error = within(agent.new_session(new_session(&host, "ses-3"), mpsc::channel(1).0)).await.unwrap_err();
    assert_eq!(error, AgentError::Gone(exit));
    let next = host.connect().await;
    assert!(!Arc::ptr_eq(&agent, &next));
    assert_eq!(host.agents.alive(), 1);
}

#[tokio::test]
async fn a_signal_is_told_as_such() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 4).await;
    session.prompt("p-1", "signal 6");
    let exit = session.gone().await;
    assert_eq!((exit.code, exit.signal), (None, Some(6)));
}

#[tokio::test]
async fn a_take_up_that_the_process_does_not_survive_fails_with_its_exit() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let session = Session::start(&host, &agent, "ses-1", 4).await;
    session.prompt("p-1", "exit 5");
    let (sink, mut inbox) = mpsc::channel(64);
    loop {
        match within(agent.take_up(take_up(&host, "old-1"), sink.clone())).await {
            // It was faster than the exit.
            Ok(_) => {}
            Err(AgentError::Gone(exit)) => {
                assert_eq!(exit.code, Some(5));
                break;
            }
            Err(other) => panic!("{other:?}"),
        }
        while inbox.try_recv().is_ok() {}
    }
}

#[tokio::test]
async fn an_agent_that_closes_its_output_is_ended() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 4).await;
    session.prompt("p-1", "close-stdout");
    assert_eq!(session.gone().await.signal, Some(9));
    assert!(!host.record().contains(&"eof".to_owned()), "it was dead before its input was closed");
}

#[tokio::test]
async fn an_agent_that_prints_only_garbage_is_ended_with_a_clear_text() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 4).await;
    session.prompt("p-1", "garbage 200");
    let exit = session.gone().await;
    assert_eq!(exit.signal, Some(9));
    assert_eq!(
        exit.stderr_tail,
        "(ended by the daemon: it printed 101 lines in a row that are no ACP messages, the last one \
         \"garbage 100 [redacted]\")"
    );
}

#[tokio::test]
async fn a_line_without_end_ends_the_process_before_it_fills_the_memory() {
    let host = Host::with(&["--ours"], |config| config.limits.max_frame = 100_000);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 4).await;
    session.prompt("p-1", "say before; long 1000000; say after");
    assert_eq!(session.text().await, "before");
    let exit = session.gone().await;
    assert!(exit.stderr_tail.contains("more than 100000 bytes"), "{}", exit.stderr_tail);
    assert!(exit.stderr_tail.len() < 500);
}

#[tokio::test]
async fn an_agent_that_does_not_read_its_input_is_ended() {
    let host = Host::with(&["--ours"], |config| config.limits.max_unsent_answers = 100);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 4).await;
    session.prompt("p-1", "deaf; stray-requests 100000");
    let exit = session.gone().await;
    assert_eq!(exit.signal, Some(9));
    assert!(exit.stderr_tail.contains("does not read its input"), "{}", exit.stderr_tail);
}

#[tokio::test]
async fn i12_stop_kills_the_group_before_the_pipes_close_and_answers_nothing() {
    for flags in [&["--ours"][..], &["--ours", "--ignore-term"], &[]] {
        let host = Host::new(flags);
        let agent = host.connect().await;
        let mut session = Session::start(&host, &agent, "ses-1", 16).await;
        session.prompt("p-1", "spawn; ask one");
        let grandchild = session.text().await;
        let (_, responder) = session.ask().await;
        assert!(lives(&grandchild));
        within(host.agents.stop()).await;
        dies(&grandchild).await;
        assert_eq!(host.agents.alive(), 0);
        // Too late, whatever it is.
        responder.respond(json!({ "outcome": { "outcome": "cancelled" } }));
        session.gone().await;

        let record = host.record();
        assert!(!record.contains(&"eof".to_owned()), "{record:?}");
        assert!(host.received().iter().all(|message| message.get("method").is_some()), "{record:?}");
        // An agent that we do not know could write something down on SIGTERM.
        assert_eq!(record.contains(&"sigterm".to_owned()), !flags.is_empty(), "{record:?}");
        match host.try_connect().await {
            Err(AgentError::Start(text)) => assert!(text.contains("stopping"), "{text}"),
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
}

#[tokio::test]
async fn i12_stop_does_not_wait_for_sessions_that_do_not_read() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 1).await;
    session.prompt("p-1", "flood 100000");
    assert_eq!(session.text().await, "0");
    within(host.agents.stop()).await;
    assert_eq!(host.agents.alive(), 0);
    while let FromAgent::Update(_) = session.next().await {}
}

#[tokio::test]
async fn i12_a_host_that_is_dropped_kills_its_processes() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    session.prompt("p-1", "spawn; hang");
    let grandchild = session.text().await;
    let Host { agents, dir } = host;
    drop(agents);
    session.gone().await;
    dies(&grandchild).await;
    let record = std::fs::read_to_string(dir.path().join("record")).unwrap();
    assert!(!record.contains("eof"), "{record}");
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    let short =
        |config: &mut holdpoint_acp_host::HostConfig| config.limits.initialize = Duration::from_secs(1);
    let hangs = Host::with(&["--hang"], short);
    let error = hangs.try_connect().await.map(|_| ()).unwrap_err();
    assert!(matches!(error, AgentError::StartTimedOut { seconds: 1, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("did not answer initialize within 1 s"), "{text}");
    let text = Host::new(&["--exit"]).failure().await;
    assert!(text.contains("ended before it answered initialize (exit code 7)"), "{text}");
    assert!(text.ends_with("its last words: no configuration found"), "{text}");
    let text = Host::new(&["--garbage"]).failure().await;
    assert!(text.contains("no ACP messages, the last one \"Usage: 100\""), "{text}");
    let text = Host::new(&["--v2"]).failure().await;
    assert!(text.contains("version 2 of ACP"), "{text}");
    let missing = Host::with(&[], |config| {
        config.agents.get_mut("fake").unwrap().program = "no-such-command-here".into();
    });
    let text = missing.failure().await;
    assert_eq!(
        text,
        "the command no-such-command-here was not found; install it, or give its full path in the configuration"
    );
    let host = Host::new(&[]);
    let error = within(host.agents.connect("other", host.cwd())).await.err().unwrap();
    assert_eq!(error.to_string(), "the agent could not be started: there is no agent other; there are: fake");
    let error = within(host.agents.connect("fake", "/no/such/place")).await.err().unwrap();
    assert!(error.to_string().contains("workspace /no/such/place cannot be read"), "{error}");
}

#[tokio::test]
async fn a_start_that_failed_can_be_tried_again() {
    let host = Host::new(&["--exit"]);
    host.failure().await;
    host.failure().await;
    assert_eq!(host.agents.alive(), 0);
    assert_eq!(host.record(), host.record());
    assert_eq!(host.record().iter().filter(|line| *line == "started").count(), 2);
}
