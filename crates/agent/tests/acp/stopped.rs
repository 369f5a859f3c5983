//! Turns that somebody stopped, and that a crash kept from saying so: nothing of them goes on by itself (R13, R20).

use holdpoint_agent::provider::Finish;
use holdpoint_model::asked::texts;
use serde_json::{Value, json};

use crate::harness::*;

fn stored(call: &str, response: Value) -> Value {
    json!({ "turnRecord": null, "callId": call, "response": response })
}

/// The daemon had stored the cancel, and died before the agent heard of it.
#[tokio::test]
async fn r13_r20_r21_a_cancel_that_a_crash_cut_short_is_written_and_nothing_goes_on() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("a"), question("b")], 2).await;
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let ends = json!([stored("a", answered("Blue")), stored("b", caused("cancelled_before_answer"))]);
    let loaded = client.load(&place, &session, json!({ "holdpoint.storedAnswers": ends })).await;
    assert!(!hinted(&loaded), "{loaded:#}");
    assert_eq!(loaded["_meta"]["holdpoint.tail"]["settled"], json!(["a", "b"]));
    assert_eq!(stop_reason(&client.restore(&session).await.await.unwrap()), "end_turn");
    assert_eq!(script.calls(), 0, "a person stopped this turn");
    // The next prompt tells the model all of it.
    client.prompt(&session, "next").await.await.unwrap().unwrap();
    let read = script.last_results();
    assert!(read[0].1.contains("Blue"), "{read:?}");
    assert_eq!(read[1].1, texts::CANCELLED_BEFORE_ANSWER);
}

/// The answer beside it was stored, and the other question of the batch was repaired for a prompt that then got lost.
#[tokio::test]
async fn r2_r20_a_repair_that_a_crash_cut_short_does_not_go_on_by_itself() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("a")], 1).await;
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let suppress = json!({ "qwen.daemon.suppressRestoreAskUserQuestion": true });
    client.load(&place, &session, suppress).await;
    client.prompt(&session, "something else").await.await.unwrap().unwrap();
    client.kill().await;
    // Cut off everything behind the repair: that far it had come.
    let path = place.data.join("sessions").join(format!("{session}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<_> = text.lines().take(3).collect();
    std::fs::write(&path, format!("{}\n", kept.join("\n"))).unwrap();
    assert_eq!(place.results(&session), [("a".to_owned(), "orphan_repair".to_owned())]);

    let script = Script::new([crate::harness::text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    assert!(!hinted(&client.load(&place, &session, json!({})).await));
    assert_eq!(script.calls(), 0);
    // A person can have it go on, which is a decision.
    let end = client.special(&session, "holdpoint.continue").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert_eq!(script.last_results(), [("a".to_owned(), texts::REPAIRED_QUESTION.to_owned())]);
}

#[tokio::test]
async fn q4_r18_a_batch_of_four_is_asked_again_where_it_is_open_and_read_in_call_order() {
    let place = Place::new();
    let parts = ["a", "b", "c", "d"].map(question).to_vec();
    let mut client = Client::daemon(place.config(), Script::new([turn(parts, Finish::ToolCalls)])).await;
    let session = client.new_session(&place).await;
    let _end = client.prompt(&session, "go").await;
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(client.asked().await);
    }
    for call in ["d", "b"] {
        let asked = asked.iter().find(|asked| asked.call() == call).unwrap();
        client.pick(asked, "Blue").await;
        client.update(|u| u["toolCallId"] == call && u["status"] == "completed").await;
    }
    client.kill().await;

    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    assert!(hinted(&client.load(&place, &session, json!({})).await));
    let end = client.restore(&session).await;
    for call in ["a", "c"] {
        let asked = client.asked().await;
        assert_eq!(asked.call(), call);
        client.pick(&asked, "Red").await;
    }
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert!(client.asked_now().is_none());
    let read = script.last_results();
    let read: Vec<_> = read.iter().map(|(call, text)| (call.as_str(), text.contains("Red"))).collect();
    assert_eq!(read, [("a", true), ("b", false), ("c", true), ("d", false)]);
}
