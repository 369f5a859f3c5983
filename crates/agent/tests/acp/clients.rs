//! Clients that are not our daemon.

use serde_json::json;

use crate::harness::*;

fn forms() -> serde_json::Value {
    json!({"protocolVersion": 1, "clientCapabilities": {"elicitation": {"form": {}}}})
}

#[tokio::test]
async fn q3_q5_a_client_with_forms_is_asked_by_elicitation() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("q1")]), text("ok")]);
    let mut client = Client::start(place.config(), script.clone());
    client.call("initialize", forms()).await.unwrap();
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    assert_eq!(asked.method, "elicitation/create");
    assert_eq!((&asked.params["mode"], &asked.params["toolCallId"]), (&json!("form"), &json!("q1")));
    let properties = &asked.params["requestedSchema"]["properties"];
    assert_eq!(properties["0"]["oneOf"][1]["const"], "Blue");
    assert_eq!(properties["0_other"]["type"], "string");
    client.reply(&asked, json!({"action": "accept", "content": {"0": "Blue"}})).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert!(script.last_results()[0].1.contains("Blue"));
}

#[tokio::test]
async fn q3_a_plain_client_gets_one_choice_as_a_permission_and_more_is_an_error_for_the_model() {
    let place = Place::new();
    let two = json!({"questions": [question_args("x")["questions"][0], question_args("y")["questions"][0]]});
    let script = Script::new([
        calls(vec![call("two", "ask_user_question", two)]),
        calls(vec![question("q1")]),
        text("ok"),
    ]);
    let mut client = Client::start(place.config(), script.clone());
    client.call("initialize", json!({"protocolVersion": 1})).await.unwrap();
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    assert_eq!(asked.call(), "q1");
    let names: Vec<_> =
        asked.params["options"].as_array().unwrap().iter().map(|o| o["name"].clone()).collect();
    assert_eq!(names, [json!("Red"), json!("Blue"), json!("Decline")]);
    client.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "choice_0"}})).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    let read = script.last_results();
    assert!(read[0].1.contains("one question at a time"), "{read:?}");
    assert!(read[1].1.contains("Red"), "{read:?}");
}

#[tokio::test]
async fn r1_with_a_client_that_cannot_restore_nothing_is_left_open() {
    let place = Place::new();
    let mut client = Client::daemon(place.config(), Script::new([calls(vec![question("q1")])])).await;
    let session = client.new_session(&place).await;
    let _end = client.prompt(&session, "go").await;
    client.asked().await;
    client.kill().await;
    let mut client = Client::start(place.config(), Script::new([]));
    client.call("initialize", json!({"protocolVersion": 1})).await.unwrap();
    let loaded = client.load(&place, &session, json!({})).await;
    assert_eq!(loaded["_meta"].get("qwen.daemon.restoreAskUserQuestion"), None);
    let updates = loaded["_meta"]["qwen.session.loadReplay"]["updates"].as_array().unwrap();
    assert_eq!(updates.last().unwrap()["status"], "failed");
}

#[tokio::test]
async fn d5_qwen_serve_is_asked_and_hinted_as_our_daemon_is() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("q1")]), text("ok")]);
    let mut client = Client::start(place.config(), script.clone());
    client
        .call("initialize", json!({"protocolVersion": 1, "clientInfo": {"name": "qwen-code"}}))
        .await
        .unwrap();
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    assert_eq!(asked.method, "session/request_permission");
    client.pick(&asked, "Red").await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
}
