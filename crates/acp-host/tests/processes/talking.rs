//! Sessions with a real child process that speaks ACP.

use std::sync::Arc;

use crate::support::{Host, Session, new_session, session_id, take_up, within};
use holdpoint_acp_host::Restore;
use holdpoint_engine::port::{AgentError, Agents, FromAgent, PromptKind, StoredEnd};
use holdpoint_model::ids::{CallId, RecordId};
use serde_json::json;
use tokio::sync::mpsc;

#[tokio::test]
async fn a_turn_arrives_in_the_order_in_which_the_agent_sent_it() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    assert_eq!(agent.info().name, "fake");
    assert_eq!(agent.info().model.as_deref(), Some("scripted"));
    assert!(agent.info().ours && agent.info().can_load && agent.info().can_resume);
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    assert_eq!(session.id.as_str(), "ses-1");

    session.prompt("p-1", "say one; say two; ask call-9; say three");
    assert_eq!(session.text().await, "one");
    assert_eq!(session.text().await, "two");
    let (params, responder) = session.ask().await;
    assert_eq!(params["toolCall"]["toolCallId"], "call-9");
    responder.respond(json!({ "outcome": { "outcome": "selected", "optionId": "proceed_once" }, "answers": { "0": "Rust" } }));
    // What typed messages would lose is still there.
    assert!(session.text().await.contains(r#""answers": {"0": "Rust"}"#));
    assert_eq!(session.text().await, "three");
    let (prompt, end) = session.ended().await;
    let end = end.unwrap();
    assert_eq!((prompt.as_str(), end.stop_reason.as_str()), ("p-1", "end_turn"));
    assert_eq!(end.meta, json!({ "promptId": "p-1" }));

    let received = host.received();
    let initialize = &received[0]["params"];
    assert_eq!(initialize["_meta"], json!({ "holdpoint.daemon": { "v": 1 } }));
    assert_eq!(initialize["clientInfo"]["version"], "1.2.3");
    assert_eq!(
        received[2]["params"]["_meta"]["qwen-code/invocation"],
        json!({ "version": 1, "sessionId": "ses-1", "promptId": "p-1", "originatorClientId": "client-1" })
    );
}

#[tokio::test]
async fn the_end_of_a_prompt_comes_after_thousands_of_updates_and_before_the_next_prompt() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 1).await;
    session.prompt("p-1", "flood 5000");
    for number in 0..5000 {
        assert_eq!(session.text().await, number.to_string());
    }
    session.ended().await.1.unwrap();
}

#[tokio::test]
async fn restore_and_continue_prompts_are_marked() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    session.send("p-1", PromptKind::Restore);
    let (params, responder) = session.ask().await;
    assert_eq!(params["toolCall"]["toolCallId"], "restored");
    responder.refuse("no longer asked".into());
    assert!(session.text().await.contains("no longer asked"));
    session.ended().await.1.unwrap();
    session.send("p-2", PromptKind::Continue);
    assert_eq!(session.text().await, "continued");
    assert_eq!(session.ended().await.0, "p-2");
}

#[tokio::test]
async fn an_error_of_a_prompt_is_its_end_with_the_words_of_the_agent() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    session.prompt("p-1", "error the key is wrong");
    let (_, end) = session.ended().await;
    match end {
        Err(AgentError::Refused { code, message, .. }) => {
            assert_eq!((code, message.as_str()), (-32603, "Internal error: the key is wrong"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn r21_a_take_up_carries_what_the_agent_must_know_and_brings_back_what_it_says() {
    let host = Host::new(&["--ours", "--bulk"]);
    let agent = host.connect().await;
    let (sink, mut inbox) = mpsc::channel(16);
    let mut take = take_up(&host, "old-1");
    take.suppress = true;
    take.approval_mode = Some("plan".into());
    take.stored = vec![StoredEnd {
        turn: Some(RecordId::new("rec-1").unwrap()),
        call: CallId::new("call-1").unwrap(),
        response: json!({ "outcome": { "outcome": "cancelled" } }),
    }];
    let taken = within(agent.take_up(take.clone(), sink.clone())).await.unwrap();
    assert_eq!(taken.session, Some(session_id("old-1")));
    assert!(taken.hint && taken.replay.is_empty());
    let tail = taken.tail.unwrap();
    assert_eq!(tail.turn.unwrap().as_str(), "rec-1");
    assert_eq!(tail.open, [CallId::new("call-1").unwrap()]);
    assert_eq!(tail.last_prompt.unwrap().as_str(), "p-0");
    assert_eq!(taken.state["modes"]["method"], "session/resume");
    assert_eq!(
        taken.state["modes"]["meta"],
        json!({
            "qwen.daemon.suppressRestoreAskUserQuestion": true,
            "holdpoint.storedAnswers": [{
                "turnRecord": "rec-1", "callId": "call-1", "response": { "outcome": { "outcome": "cancelled" } },
            }],
            "holdpoint.approvalMode": "plan",
        })
    );
    for expected in ["meanwhile", "live"] {
        match within(inbox.recv()).await.unwrap() {
            FromAgent::Update(update) => assert_eq!(update["content"]["text"], expected),
            other => panic!("{other:?}"),
        }
    }

    // Again on the live session, with a replay this time; the sink has room for nothing else.
    let (sink, mut inbox) = mpsc::channel(1);
    take.replay = true;
    let taken = within(agent.take_up(take, sink)).await.unwrap();
    assert_eq!(taken.state["modes"]["method"], "session/load");
    assert_eq!(taken.state["modes"]["meta"]["qwen.session.loadReplayMode"], "bulk");
    assert_eq!(taken.replay.len(), 3);
    assert_eq!(taken.replay[2]["content"]["text"], "old 2");
    for expected in ["meanwhile", "live"] {
        match within(inbox.recv()).await.unwrap() {
            FromAgent::Update(update) => assert_eq!(update["content"]["text"], expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_streamed_replay_is_collected_and_not_told_as_live() {
    for replay in [true, false] {
        let host = Host::new(&["--no-resume"]);
        let agent = host.connect().await;
        let (sink, mut inbox) = mpsc::channel(1);
        let mut take = take_up(&host, "old-1");
        take.replay = replay;
        let taken = within(agent.take_up(take, sink)).await.unwrap();
        assert_eq!(taken.replay.len(), if replay { 3 } else { 0 });
        match within(inbox.recv()).await.unwrap() {
            FromAgent::Update(update) => assert_eq!(update["content"]["text"], "live"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_session_that_the_agent_does_not_know_is_told_apart() {
    let host = Host::new(&[]);
    let agent = host.connect().await;
    let (sink, mut inbox) = mpsc::channel(1);
    let error = within(agent.take_up(take_up(&host, "unknown-1"), sink)).await.unwrap_err();
    assert_eq!(error, AgentError::NoSession("Internal error: Session not found".into()));
    assert!(within(inbox.recv()).await.is_none(), "its route is gone");
}

#[tokio::test]
async fn r2_an_agent_that_cannot_restore_is_always_suppressed_and_not_believed() {
    let host = Host::with(&[], |config| config.agents.get_mut("fake").unwrap().restore = Restore::Off);
    let agent = host.connect().await;
    let (sink, _inbox) = mpsc::channel(16);
    let taken = within(agent.take_up(take_up(&host, "old-1"), sink)).await.unwrap();
    assert!(!taken.hint);
    assert_eq!(taken.state["modes"]["meta"]["qwen.daemon.suppressRestoreAskUserQuestion"], true);
}

#[tokio::test]
async fn an_agent_that_is_not_ours_is_told_its_mode_in_the_way_of_acp() {
    let host = Host::new(&[]);
    let agent = host.connect().await;
    let (sink, _inbox) = mpsc::channel(16);
    let mut new = new_session(&host, "ses-1");
    new.approval_mode = Some("plan".into());
    let taken = within(agent.new_session(new.clone(), sink.clone())).await.unwrap();
    assert_eq!(taken.session, Some(session_id("theirs-1")));
    assert_eq!(host.received()[2]["method"], "session/set_mode");
    assert_eq!(host.received()[2]["params"], json!({ "sessionId": "theirs-1", "modeId": "plan" }));

    new.approval_mode = Some("bad".into());
    let error = within(agent.new_session(new, sink)).await.unwrap_err();
    assert!(matches!(error, AgentError::Refused { code: -32602, .. }), "{error:?}");
    within(agent.set_mode(&session_id("theirs-1"), "plan")).await.unwrap();
    let error = within(agent.set_mode(&session_id("theirs-1"), "bad")).await.unwrap_err();
    assert_eq!(error.to_string(), "no such mode");
}

#[tokio::test]
async fn i12_a_request_that_is_let_go_stays_unanswered() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    session.prompt("p-1", "ask let-go");
    drop(session.ask().await);
    // Whatever was said before is with the agent when this is done.
    within(agent.set_mode(&session.id, "plan")).await.unwrap();
    session.prompt("p-2", "ask answered");
    let (_, responder) = session.ask().await;
    responder.respond(json!({ "yes": true }));
    assert_eq!(session.text().await, r#"{"yes": true}"#);
    assert_eq!(session.ended().await.0, "p-2");
    let answers: Vec<_> =
        host.received().into_iter().filter(|message| message.get("method").is_none()).collect();
    assert_eq!(answers, [json!({ "jsonrpc": "2.0", "id": "r2", "result": { "yes": true } })]);
}

#[tokio::test]
async fn requests_that_are_not_for_us_are_refused() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    session.prompt("p-1", "request fs/read_text_file; request session/request_permission nobody");
    let refusal = session.text().await;
    assert!(refusal.contains("-32601") && refusal.contains("fs/read_text_file"), "{refusal}");
    let refusal = session.text().await;
    assert!(refusal.contains("-32602") && refusal.contains("nobody"), "{refusal}");
    session.ended().await.1.unwrap();
}

#[tokio::test]
async fn too_many_open_requests_are_refused_and_the_limit_counts_only_open_ones() {
    let host = Host::with(&["--ours"], |config| config.limits.max_open_requests = 1);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    session.prompt("p-1", "ask one");
    let (_, one) = session.ask().await;
    session.prompt("p-2", "ask two");
    assert!(session.text().await.contains("too many requests"));
    session.ended().await.1.unwrap();
    one.respond(json!(1));
    assert_eq!(session.text().await, "1");
    session.ended().await.1.unwrap();
    session.prompt("p-3", "ask three");
    session.ask().await.1.respond(json!(3));
    assert_eq!(session.text().await, "3");
}

#[tokio::test]
async fn lines_that_are_no_acp_are_skipped_and_what_follows_is_read() {
    let host = Host::new(&["--ours", "--chatty"]);
    let agent = host.connect().await;
    let mut session = Session::start(&host, &agent, "ses-1", 16).await;
    session.prompt("p-1", "garbage 90; array; stray-answer; say still here; garbage 90; say and here");
    assert_eq!(session.text().await, "still here");
    assert_eq!(session.text().await, "and here");
    session.ended().await.1.unwrap();
    // Nothing was said about them: an echo of its own garbage helps no agent.
    assert!(
        host.received()
            .iter()
            .all(|message| message["id"] != json!(null) || message["method"] != json!(null))
    );
}

#[tokio::test]
async fn a_flood_waits_for_its_session_and_another_session_of_the_process_goes_on_after_it_is_closed() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let mut busy = Session::start(&host, &agent, "ses-1", 4).await;
    let mut other = Session::start(&host, &agent, "ses-2", 4).await;
    busy.prompt("p-1", "flood 200000");
    assert_eq!(busy.text().await, "0");
    // The pipe is shared, so while nobody reads the busy session the other one waits behind it.
    other.prompt("p-2", "say hello");
    within(agent.close(&busy.id)).await;
    assert_eq!(other.text().await, "hello");
    other.ended().await.1.unwrap();
    // Nothing came to the closed one but what had been given to it before.
    let mut after = 0;
    while let Ok(FromAgent::Update(_)) = busy.inbox.try_recv() {
        after += 1;
    }
    assert!(after <= 4, "{after}");
    assert!(within(busy.inbox.recv()).await.is_none(), "its route is gone");
}

#[tokio::test]
async fn a_session_whose_sink_is_gone_is_dropped_silently() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let left = Session::start(&host, &agent, "ses-1", 4).await;
    let mut other = Session::start(&host, &agent, "ses-2", 4).await;
    left.prompt("p-1", "say one; flood 1000; ask nobody");
    drop(left);
    other.prompt("p-2", "say hello; ask you");
    assert_eq!(other.text().await, "hello");
    other.ask().await.1.respond(json!(1));
    assert_eq!(other.text().await, "1");
    other.ended().await.1.unwrap();
    within(agent.set_mode(&session_id("ses-2"), "plan")).await.unwrap();
    let answers = host.received().into_iter().filter(|message| message.get("method").is_none());
    assert_eq!(answers.count(), 1, "the question of the session that was left is not answered");
}

#[tokio::test]
async fn a_cancel_and_a_close_reach_the_agent() {
    let host = Host::new(&["--ours"]);
    let agent = host.connect().await;
    let session = Session::start(&host, &agent, "ses-1", 4).await;
    agent.cancel(&session.id);
    within(agent.close(&session.id)).await;
    let methods: Vec<_> =
        host.received().iter().map(|m| m["method"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/cancel", "session/close"]);
}

#[tokio::test]
async fn concurrent_connects_share_one_process_and_each_workspace_has_its_own() {
    let host = Host::new(&["--ours"]);
    let (one, two) = tokio::join!(host.connect(), host.connect());
    assert!(Arc::ptr_eq(&one, &two));
    assert_eq!(host.agents.alive(), 1);
    let elsewhere = tempfile::tempdir().unwrap();
    let three = within(host.agents.connect("fake", elsewhere.path().to_str().unwrap())).await.unwrap();
    assert_ne!(one.pid(), three.pid());
    assert_eq!(host.agents.alive(), 2);
}

#[tokio::test]
async fn a_request_that_the_agent_does_not_answer_times_out() {
    let host = Host::with(&["--ours"], |config| config.limits.request = std::time::Duration::from_millis(50));
    let agent = host.connect().await;
    let (sink, _inbox) = mpsc::channel(16);
    let mut new = new_session(&host, "ses-1");
    new.approval_mode = Some("never".into());
    assert!(matches!(within(agent.new_session(new, sink)).await, Err(AgentError::TimedOut(_))));
}
