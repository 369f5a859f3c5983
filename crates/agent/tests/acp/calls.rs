//! Calls of the workspace's tools: permission, order, ids, limits.

use holdpoint_agent::AgentConfig;
use holdpoint_agent::provider::Finish;
use holdpoint_agent::tools::ApprovalMode;
use holdpoint_model::history::Part;
use serde_json::{Value, json};

use crate::harness::*;

fn write(id: &str, path: &str) -> Part {
    call(id, "write_file", json!({"path": path, "content": "hello\n"}))
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

#[tokio::test]
async fn v6_a_change_is_asked_for_with_what_it_would_do() {
    let place = Place::new();
    let script = Script::new([calls(vec![write("w", "a.txt")]), text("done")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    let tool = &asked.params["toolCall"];
    assert_eq!((&tool["kind"], &tool["_meta"]["toolName"]), (&json!("edit"), &json!("write_file")));
    assert_eq!(tool["content"][0]["type"], "diff");
    assert_eq!(tool["locations"][0]["path"], json!(place.workspace.join("a.txt")));
    assert_eq!(tool["_meta"]["holdpoint.turnRecord"], place.records(&session)[1]["uuid"]);
    let options: Vec<_> =
        asked.params["options"].as_array().unwrap().iter().map(|o| o["optionId"].clone()).collect();
    assert_eq!(options, [json!("proceed_once"), json!("proceed_always"), json!("cancel")]);
    assert!(!place.workspace.join("a.txt").exists());
    client.reply(&asked, selected("proceed_once")).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert_eq!(std::fs::read_to_string(place.workspace.join("a.txt")).unwrap(), "hello\n");
    let done = client.update(|u| u["status"] == "completed").await;
    assert_eq!(done["content"][0]["type"], "diff");
    // A replay shows the same.
    let loaded = client.load(&place, &session, json!({})).await;
    let replayed = loaded["_meta"]["qwen.session.loadReplay"]["updates"].as_array().unwrap().clone();
    assert!(replayed.contains(&done), "{replayed:#?}");
}

#[tokio::test]
async fn a_declined_change_is_not_made_and_the_model_reads_who_declined() {
    let place = Place::new();
    let script = Script::new([calls(vec![write("w", "a.txt")]), text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    client.reply(&asked, selected("cancel")).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert!(!place.workspace.join("a.txt").exists());
    assert!(script.last_results()[0].1.starts_with("The person declined this call"));
    assert_eq!(place.results(&session), [("w".to_owned(), "not_allowed".to_owned())]);
}

#[tokio::test]
async fn always_holds_for_the_session_and_calls_run_in_order() {
    let place = Place::new();
    let read = call("r", "read_file", json!({"path": "a.txt"}));
    let script = Script::new([calls(vec![write("w1", "a.txt"), read, write("w2", "b.txt")]), text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    client.reply(&asked, selected("proceed_always")).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert!(client.asked_now().is_none());
    let order: Vec<_> = place.results(&session).into_iter().map(|(call, _)| call).collect();
    assert_eq!(order, ["w1", "r", "w2"]);
    assert!(script.last_results()[1].1.contains("hello"));
}

#[tokio::test]
async fn plan_mode_refuses_a_change_without_asking() {
    let place = Place::new();
    let config = AgentConfig { approval_mode: ApprovalMode::Plan, ..place.config() };
    let script = Script::new([calls(vec![write("w", "a.txt")]), text("ok")]);
    let mut client = Client::daemon(config, script.clone()).await;
    let session = client.new_session(&place).await;
    client.prompt(&session, "go").await.await.unwrap().unwrap();
    assert_eq!(place.results(&session), [("w".to_owned(), "policy".to_owned())]);
}

#[tokio::test]
async fn a_question_waits_beside_running_calls() {
    let place = Place::new();
    let config = AgentConfig { approval_mode: ApprovalMode::Yolo, ..place.config() };
    let script = Script::new([calls(vec![question("q"), write("w", "a.txt")]), text("ok")]);
    let mut client = Client::daemon(config, script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    client.update(|u| u["toolCallId"] == "w" && u["status"] == "completed").await;
    client.pick(&asked, "Red").await;
    end.await.unwrap().unwrap();
    let order: Vec<_> = script.last_results().into_iter().map(|(call, _)| call).collect();
    assert_eq!(order, ["q", "w"]);
}

#[tokio::test]
async fn ids_that_a_provider_repeats_or_omits_are_minted() {
    let place = Place::new();
    let list = |id: &str| call(id, "list_directory", json!({}));
    let script = Script::new([
        calls(vec![list("call_0"), list("")]),
        calls(vec![list("call_0"), question("call_0")]),
        text("ok"),
    ]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    assert_ne!(asked.call(), "call_0");
    while place.results(&session).len() < 3 {
        tokio::task::yield_now().await;
    }
    client.kill().await;
    drop(end);
    // Also after a restart, when the used ids are known from the file only.
    let script = Script::new([calls(vec![list("call_0")]), text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    client.load(&place, &session, json!({})).await;
    let end = client.restore(&session).await;
    let again = client.asked().await;
    assert_eq!(again.call(), asked.call());
    client.pick(&again, "Red").await;
    end.await.unwrap().unwrap();
    let ids: Vec<_> = script.last_results().into_iter().map(|(call, _)| call).collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 5, "{ids:?}");
}

#[tokio::test]
async fn a_turn_has_a_step_limit_with_a_clear_end() {
    let place = Place::new();
    let config = AgentConfig { max_steps: 2, ..place.config() };
    let list = |id: &str| call(id, "list_directory", json!({}));
    let script = Script::new([calls(vec![list("a")]), calls(vec![list("b")]), text("on we go")]);
    let mut client = Client::daemon(config, script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await.await.unwrap();
    assert_eq!(stop_reason(&end), "max_turn_requests");
    assert_eq!(script.calls(), 2);
    assert!(
        client.updates().iter().any(|u| u["content"]["text"].as_str().is_some_and(|t| t.contains("2 times")))
    );
    assert_eq!(place.results(&session).len(), 2, "everything that was called has a result");
    assert_eq!(stop_reason(&client.prompt(&session, "on").await.await.unwrap()), "end_turn");
}

#[tokio::test]
async fn limits_and_refusals_of_the_model_are_stop_reasons() {
    let place = Place::new();
    for (finish, reason) in [(Finish::MaxTokens, "max_tokens"), (Finish::Refusal, "refusal")] {
        let script = Script::new([turn(vec![Part::text("so far")], finish)]);
        let mut client = Client::daemon(place.config(), script).await;
        let session = client.new_session(&place).await;
        assert_eq!(stop_reason(&client.prompt(&session, "go").await.await.unwrap()), reason);
    }
}
