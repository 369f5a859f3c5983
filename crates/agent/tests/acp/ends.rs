//! Turns that end early, and processes that do.

use holdpoint_agent::provider::ProviderError;
use holdpoint_agent::tools::ApprovalMode;
use holdpoint_agent::{AgentConfig, Exit};
use holdpoint_model::history::Role;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn a_cancel_while_the_model_speaks_keeps_what_was_said() {
    let place = Place::new();
    let script = Script::new([Say::Hang("I was about to"), text("again")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    client.update(|u| u["content"]["text"] == "I was about to").await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "cancelled");
    assert_eq!(place.records(&session)[1]["holdpoint"]["partial"], true);
    client.prompt(&session, "next").await.await.unwrap().unwrap();
    let asked = script.asked();
    let last = asked.last().unwrap();
    assert_eq!(last.len(), 3);
    assert!(is_role(&last[1], Role::Model));
}

#[tokio::test]
async fn a_cancel_while_a_tool_runs_kills_it_and_leaves_a_consistent_session() {
    let place = Place::new();
    let config = AgentConfig { approval_mode: ApprovalMode::Yolo, ..place.config() };
    let shell = call("s", "run_shell_command", json!({"command": "echo started > mark; sleep 300"}));
    let after = call("w", "write_file", json!({"path": "after", "content": "x"}));
    let script = Script::new([calls(vec![shell, after]), text("ok")]);
    let mut client = Client::daemon(config, script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    client.update(|u| u["toolCallId"] == "s" && u["status"] == "in_progress").await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "cancelled");
    assert!(!place.workspace.join("after").exists());
    client.prompt(&session, "next").await.await.unwrap().unwrap();
    let read = script.last_results();
    assert_eq!(read.len(), 2);
    assert!(read[1].1.contains("Nothing was done"), "{read:?}");
}

#[tokio::test]
async fn a_cancel_before_a_permission_is_given_runs_nothing() {
    let place = Place::new();
    let write = call("w", "write_file", json!({"path": "a", "content": "x"}));
    let script = Script::new([calls(vec![write])]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    client.reply(&asked, json!({"outcome": {"outcome": "cancelled"}})).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "cancelled");
    assert!(!place.workspace.join("a").exists());
    assert_eq!(place.results(&session), [("w".to_owned(), "cancelled_before_answer".to_owned())]);
}

#[tokio::test]
async fn a_failed_request_ends_the_turn_with_what_to_do_and_the_session_goes_on() {
    let place = Place::new();
    let failed = ProviderError::Cancelled;
    let text_of_error = failed.to_string();
    let script = Script::new([Say::Fail(failed), text("hello again")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let error = client.prompt(&session, "go").await.await.unwrap().unwrap_err();
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!(text_of_error)));
    let records = place.records(&session);
    assert_eq!(records[1]["systemPayload"]["state"], "error");
    assert_eq!(records[1]["systemPayload"]["error"], json!(text_of_error));
    assert_eq!(stop_reason(&client.prompt(&session, "next").await.await.unwrap()), "end_turn");
    assert_eq!(script.asked().last().unwrap().len(), 2);
}

#[tokio::test]
async fn r20_a_turn_that_failed_after_its_answers_does_not_go_on_by_itself_but_can_be_continued() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("q")]), Say::Fail(ProviderError::Cancelled), text("now")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    client.pick(&asked, "Red").await;
    assert!(end.await.unwrap().is_err());
    let loaded = client.load(&place, &session, json!({})).await;
    assert_eq!(loaded["_meta"].get("qwen.daemon.restoreAskUserQuestion"), None);
    let end = client.special(&session, "holdpoint.continue").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert!(script.last_results()[0].1.contains("Red"));
}

#[tokio::test]
async fn the_end_of_the_agent_kills_what_its_tools_started() {
    let place = Place::new();
    let config = AgentConfig { approval_mode: ApprovalMode::Yolo, ..place.config() };
    let command = "sleep 300 & echo $! > pid.tmp; mv pid.tmp pid; wait";
    let script = Script::new([calls(vec![call("s", "run_shell_command", json!({"command": command}))])]);
    let mut client = Client::daemon(config, script.clone()).await;
    let session = client.new_session(&place).await;
    let _end = client.prompt(&session, "go").await;
    let path = place.workspace.join("pid");
    while !path.exists() {
        tokio::task::yield_now().await;
    }
    let pid = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    let before = place.records(&session);
    assert_eq!(client.terminate().await, Exit::Closed);
    assert_eq!(place.records(&session), before);
    // A killed process may stay a zombie until its reaper comes; it does not run.
    let gone = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
        })
    };
    while !gone() {
        tokio::task::yield_now().await;
    }
}
