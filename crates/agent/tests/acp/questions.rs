//! Questions in their first life.

use holdpoint_agent::provider::Finish;
use holdpoint_model::asked::texts;
use holdpoint_model::history::Part;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn q5_q8_a_question_is_on_disk_before_it_is_asked_and_its_answer_before_the_model_is_called() {
    let place = Place::new();
    let script = Script::new([
        turn(vec![Part::thought("hm"), Part::text("Let me ask."), question("q1")], Finish::ToolCalls),
        text("Blue it is."),
    ]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "paint").await;
    let asked = client.asked().await;

    // Asked as WIRE d.5 says.
    assert_eq!(asked.method, "session/request_permission");
    let tool = &asked.params["toolCall"];
    assert_eq!(tool["toolCallId"], "q1");
    assert_eq!((&tool["status"], &tool["kind"]), (&json!("pending"), &json!("think")));
    assert_eq!(tool["title"], "Ask user 1 question(s)");
    assert_eq!(tool["rawInput"], question_args("q1"));
    assert_eq!(tool["_meta"]["qwenInteractionKind"], "user_question");
    assert_eq!(tool["_meta"]["qwenQuestions"], question_args("q1")["questions"]);
    let options: Vec<_> =
        asked.params["options"].as_array().unwrap().iter().map(|o| o["optionId"].clone()).collect();
    assert_eq!(options, [json!("proceed_once"), json!("cancel")]);

    // On disk: the prompt and the turn that asks.
    let records = place.records(&session);
    assert_eq!(records.len(), 2);
    assert_eq!(records[1]["uuid"], tool["_meta"]["holdpoint.turnRecord"]);
    assert_eq!(records[1]["daemonPromptId"], "p-paint");
    assert_eq!(records[1]["parentUuid"], records[0]["uuid"]);
    assert_eq!(records[1]["message"]["parts"][2]["functionCall"]["id"], "q1");
    assert_eq!(script.calls(), 1);

    client.pick(&asked, "Blue").await;
    let reply = end.await.unwrap();
    assert_eq!(stop_reason(&reply), "end_turn");
    assert_eq!(reply.unwrap().get("_meta"), None);
    let (call, read) = script.last_results().remove(0);
    assert!(call == "q1" && read.contains("**q1**: Blue"), "{read}");

    let updates = client.updates();
    let kinds: Vec<_> = updates
        .iter()
        .map(|u| format!("{} {}", u["sessionUpdate"].as_str().unwrap(), u["status"].as_str().unwrap_or("-")))
        .collect();
    assert_eq!(
        kinds,
        [
            "agent_thought_chunk -",
            "agent_message_chunk -",
            "tool_call pending",
            "tool_call_update completed",
            "agent_message_chunk -"
        ]
    );
    assert_eq!(updates[2]["_meta"]["phase"], "preparing");
    assert_eq!(updates[2]["rawInput"], json!({}));
    let raw = &updates[3]["rawOutput"];
    assert_eq!(raw["type"], "ask_user_question_answers");
    assert_eq!(raw["answers"], json!([{"question": "q1?", "answer": "Blue"}]));
    let records = place.records(&session);
    let kinds: Vec<_> = records.iter().map(|r| r["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant", "system"]);
    assert_eq!(records[4]["subtype"], "turn_result");
    assert_eq!(records[4]["systemPayload"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn q4_r18_questions_of_one_turn_are_asked_at_once_and_answered_in_any_order() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a"), question("b")]), text("done")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let (first, second) = (client.asked().await, client.asked().await);
    assert_eq!((first.call(), second.call()), ("a".to_owned(), "b".to_owned()));

    client.pick(&second, "Blue").await;
    client.update(|u| u["toolCallId"] == "b" && u["status"] == "completed").await;
    assert_eq!(place.results(&session), [("b".to_owned(), "answered".to_owned())], "stored as it came");
    assert_eq!(script.calls(), 1, "the model waits for the whole batch");

    client.pick(&first, "Red").await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert_eq!(script.calls(), 2);
    let read: Vec<_> = script.last_results().into_iter().map(|(call, _)| call).collect();
    assert_eq!(read, ["a", "b"], "in call order");
}

#[tokio::test]
async fn q2_invalid_arguments_and_unknown_tools_are_told_to_the_model_and_nobody_waits() {
    let place = Place::new();
    let script = Script::new([
        calls(vec![
            call("bad", "ask_user_question", json!({"questions": []})),
            call("broken", "ask_user_question", json!("{\"questions\": [")),
            call("none", "fly_to_the_moon", json!({})),
        ]),
        text("sorry"),
    ]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert!(client.asked_now().is_none());
    let read = script.last_results();
    assert!(read[0].1.contains("1 to 4 questions"), "{read:?}");
    assert!(read[1].1.contains("JSON object"), "{read:?}");
    assert!(read[2].1.contains("fly_to_the_moon"), "{read:?}");
    assert!(place.results(&session).iter().all(|(_, cause)| cause == "invalid_call"));
}

#[tokio::test]
async fn q7_when_all_are_declined_the_turn_ends_and_the_model_reads_it_with_the_next_prompt() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a"), question("b")]), text("I see")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    for _ in 0..2 {
        let asked = client.asked().await;
        client.reply(&asked, declined()).await;
    }
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert_eq!(script.calls(), 1);
    let end = client.prompt(&session, "next").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    let read = script.last_results();
    assert_eq!(
        read,
        [("a".to_owned(), texts::DECLINED.to_owned()), ("b".to_owned(), texts::DECLINED.to_owned())]
    );
}

#[tokio::test]
async fn q7_one_decline_settles_its_own_question_only() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a"), question("b")]), text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let (first, second) = (client.asked().await, client.asked().await);
    client.reply(&first, declined()).await;
    client.update(|u| u["toolCallId"] == "a" && u["status"] == "failed").await;
    client.pick(&second, "Red").await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert_eq!(script.calls(), 2);
}

#[tokio::test]
async fn r13_a_cancel_in_first_life_closes_the_question_with_its_own_cause() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a")]), text("later")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    // As ACP has it: a stopped turn's requests are answered as cancelled. That is no decline.
    client.reply(&asked, json!({"outcome": {"outcome": "cancelled"}})).await;
    let reply = end.await.unwrap();
    assert_eq!(stop_reason(&reply), "cancelled");
    assert_eq!(reply.unwrap().get("_meta"), None);
    assert_eq!(place.results(&session), [("a".to_owned(), "cancelled_before_answer".to_owned())]);
    assert_eq!(script.calls(), 1);
    client.prompt(&session, "next").await.await.unwrap().unwrap();
    assert_eq!(script.last_results()[0].1, texts::CANCELLED_BEFORE_ANSWER);
}

#[tokio::test(start_paused = true)]
async fn r13_a_client_that_does_not_answer_after_a_cancel_holds_nothing_up() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a")])]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    client.asked().await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "cancelled");
    assert_eq!(place.results(&session), [("a".to_owned(), "cancelled_before_answer".to_owned())]);
}

#[tokio::test]
async fn r10_an_end_that_nobody_decided_writes_nothing_and_parks_the_turn() {
    let place = Place::new();
    for end_of_question in [
        caused("unattended"),
        json!({"outcome": {"outcome": "cancelled"}, "_meta": {"qwen.daemon.permissionCancelReason": "timeout"}}),
        json!({"outcome": {"outcome": "cancelled"}, "_meta": {"qwen.daemon.permissionCancelReason": "session_closed"}}),
    ] {
        let script = Script::new([calls(vec![question("a"), question("b")])]);
        let mut client = Client::daemon(place.config(), script.clone()).await;
        let session = client.new_session(&place).await;
        let end = client.prompt(&session, "go").await;
        let (first, second) = (client.asked().await, client.asked().await);
        client.pick(&first, "Red").await;
        client.reply(&second, end_of_question).await;
        let reply = end.await.unwrap();
        assert_eq!(stop_reason(&reply), "cancelled");
        assert_eq!(reply.unwrap()["_meta"]["holdpoint.parked"], true);
        assert_eq!(place.results(&session), [("a".to_owned(), "answered".to_owned())]);
        assert_eq!(place.records(&session).len(), 3, "nothing else is written");
        assert_eq!(script.calls(), 1);
    }
}

#[tokio::test]
async fn s3_without_the_flag_a_time_out_is_a_result_as_it_is_with_the_peer() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a")]), text("ok")]);
    let config = holdpoint_agent::AgentConfig { restore: false, ..place.config() };
    let mut client = Client::daemon(config, script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    let reason = json!({"outcome": {"outcome": "cancelled"}, "_meta": {"qwen.daemon.permissionCancelReason": "timeout"}});
    client.reply(&asked, reason).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert_eq!(script.last_results()[0].1, texts::TIMED_OUT);
}

#[tokio::test]
async fn an_error_is_never_an_answer() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a")])]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    let error = json!({"jsonrpc": "2.0", "id": asked.id, "error": {"code": -32603, "message": "dropped"}});
    client.send_line(&error.to_string()).await;
    let reply = end.await.unwrap();
    assert_eq!(reply.unwrap()["_meta"]["holdpoint.parked"], true);
    assert!(place.results(&session).is_empty());
}

#[tokio::test]
async fn r10_a_prompt_that_is_withdrawn_decides_nothing() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a")])]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let (id, end) = client.prompt_with_id(&session, "go").await;
    let asked = client.asked().await;
    client.notify("$/cancel_request", json!({"requestId": id})).await;
    client.reply(&asked, json!({"outcome": {"outcome": "cancelled"}})).await;
    assert_eq!(end.await.unwrap().unwrap()["_meta"]["holdpoint.parked"], true);
    assert!(place.results(&session).is_empty());
}
