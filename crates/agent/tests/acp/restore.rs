//! A process ends with a question open; another one takes it up.

use std::sync::Arc;

use holdpoint_agent::AgentConfig;
use holdpoint_agent::provider::Finish;
use holdpoint_model::asked::texts;
use holdpoint_model::history::Part;
use serde_json::{Value, json};

use crate::harness::*;

fn replayed(loaded: &Value) -> Vec<Value> {
    loaded["_meta"]["qwen.session.loadReplay"]["updates"].as_array().unwrap().clone()
}

fn statuses(updates: &[Value], call: &str) -> Vec<String> {
    let of_call = updates.iter().filter(|u| u["toolCallId"] == call);
    of_call.map(|u| u["status"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn r1_r4_r5_r7_i10_a_killed_question_is_asked_again_and_the_same_turn_goes_on() {
    let parts = || vec![Part::thought("hm"), Part::text("Let me ask."), question("q1")];
    // The undisturbed run.
    let calm_place = Place::new();
    let calm = Script::new([turn(parts(), Finish::ToolCalls), text("Blue it is.")]);
    let mut client = Client::daemon(calm_place.config(), calm.clone()).await;
    let session = client.new_session(&calm_place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    client.pick(&asked, "Blue").await;
    end.await.unwrap().unwrap();

    let place = Place::new();
    let session = ask_and_die(&place, parts(), 1).await;
    let before = place.records(&session);
    let script = Script::new([text("Blue it is.")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let loaded = client.load(&place, &session, json!({})).await;
    assert!(hinted(&loaded));
    assert_eq!(statuses(&replayed(&loaded), "q1"), ["in_progress"]);
    assert_eq!(
        loaded["_meta"]["holdpoint.tail"],
        json!({"turnRecord": before[1]["uuid"], "open": ["q1"], "settled": [], "lastPromptId": "p-go", "restorable": true})
    );
    assert_eq!(place.records(&session), before, "a load writes nothing");

    let end = client.restore(&session).await;
    let asked = client.asked().await;
    assert_eq!(asked.call(), "q1");
    assert_eq!(asked.params["toolCall"]["_meta"]["holdpoint.turnRecord"], before[1]["uuid"]);
    assert_eq!(asked.params["toolCall"]["rawInput"], question_args("q1"));
    assert_eq!(script.calls(), 0);
    client.pick(&asked, "Blue").await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert_eq!(shape(&script.asked()[0]), shape(&calm.asked()[1]));
    let kinds = |place: &Place, session: &str| -> Vec<Value> {
        place.records(session).iter().map(|r| json!([r["type"], r["message"]])).collect()
    };
    let calm_session = std::fs::read_dir(calm_place.data.join("sessions")).unwrap().next().unwrap().unwrap();
    let calm_session = calm_session.file_name().into_string().unwrap().replace(".jsonl", "");
    assert_eq!(kinds(&place, &session), kinds(&calm_place, &calm_session), "the file is that of a calm run");
}

#[tokio::test]
async fn r7_resume_restores_as_load_does_and_replays_nothing() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let params = json!({"sessionId": session, "cwd": place.workspace, "mcpServers": [], "_meta": {}});
    let resumed = client.call("session/resume", params).await.unwrap();
    assert!(hinted(&resumed));
    assert!(client.updates().is_empty());
    let end = client.restore(&session).await;
    let asked = client.asked().await;
    client.pick(&asked, "Red").await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
}

#[tokio::test]
async fn r2_a_suppressed_load_repairs_the_view_only_and_a_later_load_asks_again() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let before = place.records(&session);
    let mut client = Client::daemon(place.config(), Script::new([])).await;
    let suppress = json!({"qwen.daemon.suppressRestoreAskUserQuestion": true});
    let loaded = client.load(&place, &session, suppress).await;
    assert!(!hinted(&loaded));
    assert_eq!(statuses(&replayed(&loaded), "q1"), ["in_progress", "failed"]);
    assert_eq!(loaded["_meta"]["holdpoint.tail"]["open"], json!(["q1"]), "the ids look through the view");
    assert_eq!(place.records(&session), before);
    // R14: on the live session, too.
    assert!(hinted(&client.load(&place, &session, json!({})).await));
}

#[tokio::test]
async fn e1_without_the_flag_nothing_is_hinted_and_nothing_restored() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let config = AgentConfig { restore: false, ..place.config() };
    let mut client = Client::daemon(config, Script::new([])).await;
    let loaded = client.load(&place, &session, json!({})).await;
    assert!(!hinted(&loaded));
    assert_eq!(statuses(&replayed(&loaded), "q1"), ["in_progress", "failed"]);
    let end = client.restore(&session).await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert!(client.asked_now().is_none());
    assert!(place.results(&session).is_empty());
}

#[tokio::test]
async fn r2_r3_a_new_prompt_closes_the_question_on_disk_right_behind_its_call() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let script = Script::new([text("never mind")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let suppress = json!({"qwen.daemon.suppressRestoreAskUserQuestion": true});
    client.load(&place, &session, suppress).await;
    let end = client.prompt(&session, "something else").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert_eq!(script.last_results(), [("q1".to_owned(), texts::REPAIRED_QUESTION.to_owned())]);
    let records = place.records(&session);
    assert_eq!(place.results(&session), [("q1".to_owned(), "orphan_repair".to_owned())]);
    assert_eq!(records[2]["parentUuid"], records[1]["uuid"]);
    assert_eq!(records[3]["type"], "user");
    assert_eq!(records[3]["parentUuid"], records[2]["uuid"]);
    let update = client.update(|u| u["toolCallId"] == "q1").await;
    assert_eq!(
        (&update["status"], &update["_meta"]["holdpoint.cause"]),
        (&json!("failed"), &json!("orphan_repair"))
    );
    assert!(!hinted(&client.load(&place, &session, json!({})).await));
}

#[tokio::test]
async fn r18_after_a_crash_only_the_unanswered_question_of_a_batch_is_asked_again() {
    let place = Place::new();
    let mut client =
        Client::daemon(place.config(), Script::new([calls(vec![question("a"), question("b")])])).await;
    let session = client.new_session(&place).await;
    let _end = client.prompt(&session, "go").await;
    let (_first, second) = (client.asked().await, client.asked().await);
    client.pick(&second, "Blue").await;
    client.update(|u| u["toolCallId"] == "b" && u["status"] == "completed").await;
    client.kill().await;

    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let loaded = client.load(&place, &session, json!({})).await;
    assert!(hinted(&loaded));
    assert_eq!(loaded["_meta"]["holdpoint.tail"]["settled"], json!(["b"]));
    let end = client.restore(&session).await;
    let asked = client.asked().await;
    assert_eq!(asked.call(), "a");
    client.pick(&asked, "Red").await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert!(client.asked_now().is_none());
    let read = script.last_results();
    assert!(read[0].0 == "a" && read[0].1.contains("Red"), "{read:?}");
    assert!(read[1].0 == "b" && read[1].1.contains("Blue"), "{read:?}");
}

#[tokio::test]
async fn r20_when_all_answers_are_stored_the_turn_goes_on_by_itself() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("a")]), Say::Hang("")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let _end = client.prompt(&session, "go").await;
    script.called.notified().await;
    let asked = client.asked().await;
    client.pick(&asked, "Red").await;
    script.called.notified().await;
    client.kill().await;

    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let loaded = client.load(&place, &session, json!({})).await;
    assert!(hinted(&loaded));
    let end = client.restore(&session).await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert!(client.asked_now().is_none());
    assert!(script.last_results()[0].1.contains("Red"));
    // The turn is over now.
    assert!(!hinted(&client.load(&place, &session, json!({})).await));
    assert_eq!(stop_reason(&client.restore(&session).await.await.unwrap()), "end_turn");
    assert_eq!(script.calls(), 1);
}

#[tokio::test]
async fn r21_i4_a_stored_answer_is_written_as_the_real_result_on_any_load() {
    let place = Place::new();
    for restore in [true, false] {
        let session = ask_and_die(&place, vec![question("a")], 1).await;
        let turn_record = place.records(&session)[1]["uuid"].clone();
        let config = AgentConfig { restore, ..place.config() };
        let script = Script::new([text("ok")]);
        let mut client = Client::daemon(config, script.clone()).await;
        let stored = |turn: Value, call: &str| json!({"turnRecord": turn, "callId": call, "response": answered("Blue")});
        let list =
            [stored(json!("another"), "a"), stored(turn_record.clone(), "zzz"), stored(turn_record, "a")];
        let suppress = !restore;
        let meta =
            json!({"holdpoint.storedAnswers": list, "qwen.daemon.suppressRestoreAskUserQuestion": suppress});
        let loaded = client.load(&place, &session, meta).await;
        assert_eq!(place.results(&session), [("a".to_owned(), "answered".to_owned())]);
        assert_eq!(statuses(&replayed(&loaded), "a"), ["in_progress", "completed"]);
        assert_eq!(loaded["_meta"]["holdpoint.tail"]["settled"], json!(["a"]));
        assert_eq!(hinted(&loaded), restore, "only going on by itself needs the flag");
        let key = if restore { HINT } else { "holdpoint.continue" };
        let end = client.special(&session, key).await.await.unwrap();
        assert_eq!(stop_reason(&end), "end_turn");
        assert!(client.asked_now().is_none());
        assert!(script.last_results()[0].1.contains("Blue"));
        // The same answer again changes nothing.
        let again = json!({"holdpoint.storedAnswers": [stored(Value::Null, "a")]});
        client.load(&place, &session, again).await;
        assert_eq!(place.results(&session).len(), 1);
    }
}

#[tokio::test]
async fn e3_a_mixed_batch_is_repaired_whole() {
    let place = Place::new();
    let write = call("w", "write_file", json!({"path": "x", "content": "y"}));
    let session = ask_and_die(&place, vec![question("q"), write], 2).await;
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let loaded = client.load(&place, &session, json!({})).await;
    assert!(!hinted(&loaded));
    assert_eq!(statuses(&replayed(&loaded), "q"), ["in_progress", "failed"]);
    client.prompt(&session, "next").await.await.unwrap().unwrap();
    let read = script.last_results();
    assert_eq!(read[0].1, texts::REPAIRED_QUESTION);
    assert_eq!(read[1].1, texts::REPAIRED_CALL);
}

#[tokio::test]
async fn e3_another_tools_finished_call_does_not_block_a_restore() {
    let place = Place::new();
    std::fs::write(place.workspace.join("a.txt"), "content of a").unwrap();
    let read = call("r", "read_file", json!({"path": "a.txt"}));
    let mut client = Client::daemon(place.config(), Script::new([calls(vec![question("q"), read])])).await;
    let session = client.new_session(&place).await;
    let _end = client.prompt(&session, "go").await;
    client.asked().await;
    client.update(|u| u["toolCallId"] == "r" && u["status"] == "completed").await;
    client.kill().await;
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    assert!(hinted(&client.load(&place, &session, json!({})).await));
    let end = client.restore(&session).await;
    let asked = client.asked().await;
    client.pick(&asked, "Red").await;
    end.await.unwrap().unwrap();
    let read = script.last_results();
    assert!(read[0].1.contains("Red") && read[1].1.contains("content of a"), "{read:?}");
}

#[tokio::test]
async fn e5_a_question_that_is_being_asked_is_not_restored_twice() {
    let place = Place::new();
    let script = Script::new([calls(vec![question("q1")]), text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    let loaded = client.load(&place, &session, json!({})).await;
    assert!(!hinted(&loaded));
    assert_eq!(statuses(&replayed(&loaded), "q1"), ["in_progress"], "it is asked, so it is open");
    let busy = client.restore(&session).await.await.unwrap().unwrap_err();
    assert!(busy["message"].as_str().unwrap().contains("in progress"));
    client.pick(&asked, "Red").await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
}

#[tokio::test]
async fn r9_a_decline_of_a_restored_question_is_persisted() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let script = Script::new([]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    client.load(&place, &session, json!({})).await;
    let end = client.restore(&session).await;
    let asked = client.asked().await;
    client.reply(&asked, declined()).await;
    assert_eq!(stop_reason(&end.await.unwrap()), "end_turn");
    assert_eq!(place.results(&session), [("q1".to_owned(), "declined".to_owned())]);
    assert!(!hinted(&client.load(&place, &session, json!({})).await));
}

#[tokio::test]
async fn r10_r13_r14_a_cancel_of_a_restored_question_is_an_abort_and_it_can_be_asked_again() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    client.load(&place, &session, json!({})).await;
    let end = client.restore(&session).await;
    let asked = client.asked().await;
    client.notify("session/cancel", json!({"sessionId": session})).await;
    client.reply(&asked, json!({"outcome": {"outcome": "cancelled"}})).await;
    let reply = end.await.unwrap();
    assert_eq!(stop_reason(&reply), "cancelled");
    assert_eq!(reply.unwrap()["_meta"]["holdpoint.parked"], true);
    assert!(place.results(&session).is_empty());
    assert!(hinted(&client.load(&place, &session, json!({})).await));
    // H9: once something else is sent, the model reads that it was halted.
    client.prompt(&session, "next").await.await.unwrap().unwrap();
    assert_eq!(script.last_results()[0].1, texts::CANCELLED_BEFORE_ANSWER);
}

#[tokio::test]
async fn r11_the_generic_continue_repairs_on_disk_and_calls_the_model() {
    let place = Place::new();
    let write = call("w", "run_shell_command", json!({"command": "true"}));
    let session = ask_and_die(&place, vec![write], 1).await;
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(place.config(), script.clone()).await;
    client.load(&place, &session, json!({})).await;
    let end = client.special(&session, "holdpoint.continue").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert_eq!(place.results(&session), [("w".to_owned(), "orphan_repair".to_owned())]);
    assert_eq!(script.last_results()[0].1, texts::REPAIRED_CALL);
    // Nothing is interrupted now.
    let end = client.special(&session, "holdpoint.continue").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert_eq!(script.calls(), 1);
}

#[tokio::test]
async fn r11_the_generic_continue_never_closes_a_question_that_can_be_asked_again() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let mut client = Client::daemon(place.config(), Script::new([])).await;
    client.load(&place, &session, json!({})).await;
    let end = client.special(&session, "holdpoint.continue").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    assert!(place.results(&session).is_empty());
    // Without the flag it is like any other call.
    drop(client);
    let config = AgentConfig { restore: false, ..place.config() };
    let script = Script::new([text("ok")]);
    let mut client = Client::daemon(config, script.clone()).await;
    client.load(&place, &session, json!({})).await;
    client.special(&session, "holdpoint.continue").await.await.unwrap().unwrap();
    assert_eq!(script.last_results()[0].1, texts::REPAIRED_QUESTION);
}

#[tokio::test]
async fn r4_load_updates_always_finalises_and_never_asks() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let before = place.records(&session);
    let mut client = Client::daemon(place.config(), Script::new([])).await;
    for method in ["qwen/session/loadUpdates", "_qwen/session/loadUpdates"] {
        let loaded =
            client.call(method, json!({"sessionId": session, "cwd": place.workspace})).await.unwrap();
        assert_eq!(statuses(loaded["updates"].as_array().unwrap(), "q1"), ["in_progress", "failed"]);
    }
    assert_eq!(place.records(&session), before);
}

#[tokio::test]
async fn i12_an_orderly_end_writes_nothing_for_an_open_question() {
    let place = Place::new();
    for how in ["terminate", "hang up"] {
        let mut client = Client::daemon(place.config(), Script::new([calls(vec![question("q1")])])).await;
        let session = client.new_session(&place).await;
        let _end = client.prompt(&session, "go").await;
        client.asked().await;
        let before = place.records(&session);
        match how {
            "terminate" => client.terminate().await,
            _ => client.hang_up().await,
        };
        assert_eq!(place.records(&session), before, "{how}");
    }
}

#[tokio::test]
async fn closing_a_session_keeps_its_question_and_lets_the_next_process_have_the_file() {
    let place = Place::new();
    let mut client = Client::daemon(place.config(), Script::new([calls(vec![question("q1")])])).await;
    let session = client.new_session(&place).await;
    let end = client.prompt(&session, "go").await;
    let asked = client.asked().await;
    let closed = client.begin("session/close", json!({"sessionId": session})).await;
    client.reply(&asked, caused("unattended")).await;
    assert_eq!(end.await.unwrap().unwrap()["_meta"]["holdpoint.parked"], true);
    assert_eq!(closed.await.unwrap().unwrap(), json!({}));
    assert!(place.results(&session).is_empty());
    // The first agent still runs.
    let script: Arc<Script> = Script::new([]);
    let mut second = Client::daemon(place.config(), script).await;
    assert!(hinted(&second.load(&place, &session, json!({})).await));
    let gone = client.prompt(&session, "more").await.await.unwrap().unwrap_err();
    assert_eq!(gone["code"], -32002);
}

#[tokio::test]
async fn a_live_replay_comes_as_notifications_before_the_answer() {
    let place = Place::new();
    let session = ask_and_die(&place, vec![question("q1")], 1).await;
    let mut client = Client::daemon(place.config(), Script::new([])).await;
    let params = json!({"sessionId": session, "cwd": place.workspace, "mcpServers": []});
    let loaded = client.call("session/load", params).await.unwrap();
    assert_eq!(loaded["_meta"].get("qwen.session.loadReplay"), None);
    let kinds: Vec<_> =
        client.updates().iter().map(|u| u["sessionUpdate"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["user_message_chunk", "tool_call"]);
}

/// The same in the process that has the session live: while its question is asked, and while it is not.
#[tokio::test]
async fn r4_load_updates_of_a_live_session_always_finalises_never_asks_and_leaves_the_asking_alone() {
    for flag in [true, false] {
        for parked in [true, false] {
            let case = format!("flag {flag}, parked {parked}");
            let place = Place::new();
            let config = || AgentConfig { restore: flag, ..place.config() };
            let script = Script::new([calls(vec![question("q1")]), text("ok")]);
            let mut client = Client::daemon(config(), script.clone()).await;
            let session = client.new_session(&place).await;
            let mut end = client.prompt(&session, "go").await;
            let mut asked = client.asked().await;
            let script = if parked {
                client.kill().await;
                let script = Script::new([text("ok")]);
                client = Client::daemon(config(), script.clone()).await;
                let suppress = json!({"qwen.daemon.suppressRestoreAskUserQuestion": true});
                assert!(!hinted(&client.load(&place, &session, suppress).await), "{case}: R2");
                script
            } else {
                script
            };
            let (before, called) = (place.records(&session), script.calls());
            for method in ["qwen/session/loadUpdates", "_qwen/session/loadUpdates"] {
                let params = json!({"sessionId": session, "cwd": place.workspace});
                let loaded = client.call(method, params).await.unwrap();
                let shown = statuses(loaded["updates"].as_array().unwrap(), "q1");
                assert_eq!(shown, ["in_progress", "failed"], "{case}: it finalises");
                assert_eq!(loaded["_meta"].get(HINT), None, "{case}");
            }
            assert_eq!(place.records(&session), before, "{case}: a read writes nothing");
            assert!(client.asked_now().is_none(), "{case}: nobody is asked again");
            assert_eq!(script.calls(), called, "{case}");

            if parked && flag {
                // The next load with a client still has it asked.
                assert!(hinted(&client.load(&place, &session, json!({})).await), "{case}");
                end = client.restore(&session).await;
                asked = client.asked().await;
            }
            if parked && !flag {
                // What is sent to the model next is repaired, as it would have been.
                end = client.prompt(&session, "more").await;
                assert_eq!(stop_reason(&end.await.unwrap()), "end_turn", "{case}");
                assert_eq!(script.last_results(), [("q1".to_owned(), texts::REPAIRED_QUESTION.to_owned())]);
                continue;
            }
            // The asking is as it was: it takes the answer, and its turn goes on.
            client.pick(&asked, "Blue").await;
            assert_eq!(stop_reason(&end.await.unwrap()), "end_turn", "{case}");
            assert!(script.last_results()[0].1.contains("Blue"), "{case}");
            assert_eq!(place.results(&session), [("q1".to_owned(), "answered".to_owned())], "{case}");
        }
    }
}
