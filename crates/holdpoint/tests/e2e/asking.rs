//! Questions in one life and over a kill: batches, several parts, declines, and what a model gets wrong.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::support::{Asking, Rig, answers, same, selected, tool_results, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];
const RED2: &[(&str, &str)] = &[("0", "Red2")];

fn decline() -> serde_json::Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

#[tokio::test]
async fn h1_a_row_names_the_call_and_the_message_that_a_client_sees() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please ASK_TWO").await;
    api.wait_asked::<2>(&session).await;

    let api = rig.restart().await.of(&session.client);
    let loaded = api.load(&session).await;
    api.wait_asked::<2>(&session).await;
    let events = loaded["compactedReplay"].as_array().unwrap().iter();
    let calls: Vec<_> = events
        .map(|event| &event["data"]["update"])
        .filter(|update| update["sessionUpdate"] == "tool_call")
        .map(|update| (&update["toolCallId"], &update["_meta"]["qwen.session.recordId"]))
        .collect();
    let rows = api.inbox().await;
    let named: Vec<_> = rows.iter().map(|row| (&row["toolCallId"], &row["messageId"])).collect();
    assert_eq!(named, calls, "{loaded:#}");
    let status = api.status(&session).await;
    let pending = status["pendingInteractions"].as_array().unwrap().iter();
    let pending: Vec<_> = pending.map(|item| (&item["toolCallId"], &item["messageId"])).collect();
    assert_eq!(pending, calls, "{status:#}");
}

#[tokio::test]
async fn q4_r18_of_a_batch_only_the_unanswered_question_is_asked_again() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let prompt = api.prompt(&session, "please ASK_TWO").await;
    let [first, second] = api.wait_asked(&session).await;
    api.vote(&session, &first.request, &selected(BLUE)).await.expect(200);
    events
        .wait("the first answer's result", |event| {
            event["data"]["update"]["sessionUpdate"] == "tool_call_update"
                && event["data"]["update"]["status"] == "completed"
        })
        .await;

    let api = rig.restart().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, second.id);
    assert_ne!(again.request, second.request);
    assert_eq!(rig.model.calls(), 1, "Q4: the model waits for the whole batch");
    api.vote(&session, &again.request, &selected(RED2)).await.expect(200);
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    same(&rig.story(&session), &undisturbed("please ASK_TWO", &[BLUE, RED2]).await);
}

#[tokio::test]
async fn q4_r18_i4_a_kill_right_after_the_first_answer_of_a_batch() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let prompt = api.prompt(&session, "please ASK_TWO").await;
    let [first, second] = api.wait_asked(&session).await;
    // The second one in order is answered first: results stay in the order of the calls (Q4).
    api.answer(&second.id, &answers(&second, RED2, "b")).await.expect(200);

    let api = rig.restart().await.of(&session.client);
    let view = api.resume(&session).await;
    let mut events =
        api.events_from(&session, view["lastEventId"].as_u64().unwrap(), view["eventEpoch"].as_str()).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, first.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
    let history = rig.story(&session).history;
    assert_eq!(history, undisturbed("please ASK_TWO", &[BLUE, RED2]).await.history, "I10");
}

#[tokio::test]
async fn r21_a_command_that_ran_beside_a_question_is_not_run_again() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let prompt = api.prompt(&session, "please SHELL_AND_ASK").await;
    events
        .wait("the command's result", |event| {
            event["data"]["update"]["sessionUpdate"] == "tool_call_update"
                && event["data"]["update"]["status"] == "completed"
        })
        .await;
    let [question] = api.wait_asked(&session).await;

    let api = rig.restart().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
    let ran = std::fs::read_to_string(rig.work().join("ran.txt")).unwrap();
    assert_eq!(ran, "ran\n", "the command ran once");
    // On disk the two results come as they came; the model reads them in the order of the calls.
    let history = rig.story(&session).history;
    assert_eq!(history, undisturbed("please SHELL_AND_ASK", &[BLUE]).await.history, "I10");
    assert_eq!(tool_results(&rig.transcript(&session)).len(), 2);
}

#[tokio::test]
async fn a_question_of_three_parts_and_a_chain_of_two_over_kills() {
    let three: &[(&str, &str)] = &[("0", "Red1"), ("1", "green, if there is any"), ("2", "Blue3")];
    for (prompt, rounds) in [("please ASK_Q3", vec![three]), ("please ASK_CHAIN", vec![BLUE, RED2])] {
        let mut rig = Rig::started().await;
        let session = rig.api().create("yolo").await;
        let id = rig.api().of(&session.client).prompt(&session, prompt).await;
        let mut end = None;
        for answer in &rounds {
            rig.api().of(&session.client).wait_asked::<1>(&session).await;
            let api = rig.restart().await.of(&session.client);
            let events = api.load_and_follow(&session).await;
            let [question] = api.wait_asked(&session).await;
            let parts = question.view["questions"].as_array().unwrap().len();
            assert_eq!(parts, answer.len());
            api.answer(&question.id, &answers(&question, answer, "r")).await.expect(200);
            end = Some(events);
        }
        end.unwrap().turn_end(&id).await;
        same(&rig.story(&session), &undisturbed(prompt, &rounds).await);
    }
}

#[tokio::test]
async fn r14_an_agent_that_dies_is_started_again_and_asks_again() {
    let mut rig = Rig::started().await;
    let Asking { session, api, mut events, prompt, question } = rig.asking("please ASK").await;
    let agents = rig.daemon().children();
    assert_eq!(agents.len(), 1, "one agent a workspace");
    kill_process(agents[0], Signal::KILL).unwrap();
    let again = events
        .wait("the question, asked again", |event| {
            event["type"] == "permission_request" && event["data"]["requestId"] != question.request.as_str()
        })
        .await;
    assert_eq!(again["data"]["questionId"], question.id.as_str());
    api.vote(&session, again["data"]["requestId"].as_str().unwrap(), &selected(BLUE)).await.expect(200);
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    assert!(!events.saw("session_died"), "{:#?}", events.seen);
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}

#[tokio::test]
async fn q7_r9_a_decline_ends_the_turn_and_the_model_reads_it_with_the_next_prompt() {
    for restored in [false, true] {
        let mut rig = Rig::started().await;
        let session = rig.api().create("yolo").await;
        let mut api = rig.api().of(&session.client);
        let prompt = api.prompt(&session, "please ASK").await;
        let [mut question] = api.wait_asked(&session).await;
        let mut events = api.events(&session).await;
        if restored {
            api = rig.restart().await.of(&session.client);
            events = api.load_and_follow(&session).await;
            [question] = api.wait_asked(&session).await;
        }
        api.vote(&session, &question.request, &decline()).await.expect(200);
        let end = events.turn_end(&prompt).await;
        assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
        assert!(end["data"].get("parked").is_none(), "{end:#}");
        assert_eq!(rig.model.calls(), 1, "the model is not called");
        let results = tool_results(&rig.transcript(&session));
        assert_eq!(results.len(), 1, "{results:#?}");
        assert!(results[0].2.starts_with("The person declined"), "{results:#?}");
        assert_eq!(api.question(&question.id).await["state"], "declined");

        let next = api.prompt(&session, "then go on").await;
        events.turn_end(&next).await;
        let history = rig.story(&session).history;
        assert_eq!(history[2]["role"], "tool", "{history:#?}");
        assert!(history[2]["content"].as_str().unwrap().starts_with("The person declined"), "{history:#?}");
    }
}

#[tokio::test]
async fn q2_what_a_model_gets_wrong_is_told_to_it_and_asks_nobody() {
    let mut rig = Rig::started().await;
    for prompt in ["BAD_ARGUMENTS", "BAD_JSON", "UNKNOWN_TOOL"] {
        let session = rig.api().create("yolo").await;
        let api = rig.api().of(&session.client);
        let mut events = api.events(&session).await;
        let id = api.prompt(&session, prompt).await;
        let end = events.turn_end(&id).await;
        assert_eq!(end["data"]["stopReason"], "end_turn", "{prompt}: {end:#}");
        assert!(!events.saw("permission_request"), "{prompt}");
        assert_eq!(api.inbox().await.len(), 0, "{prompt}");
        let results = tool_results(&rig.transcript(&session));
        assert_eq!(results.len(), 1, "{prompt}: {results:#?}");
        assert_eq!(results[0].1, "error", "{prompt}: {results:#?}");
        rig.story(&session);
    }
    rig.kill().await;
}

/// A client that could not show the question halts the turn. The question stays where people find it; once something
/// else is sent, the model reads that the question was cancelled, and not only that nobody answered.
#[tokio::test]
async fn h6_h9_r10_a_halt_leaves_the_question_and_its_repair_says_that_it_was_cancelled() {
    let mut rig = Rig::started().await;
    let Asking { session, api, mut events, prompt, question } = rig.asking("please ASK").await;
    let halt = json!({ "cause": "unreachable_question" });
    api.post(&format!("/session/{}/cancel", session.id), &halt).await.expect(204);
    let end = events.turn_end(&prompt).await;
    assert_eq!(
        (&end["data"]["stopReason"], &end["data"]["parked"]),
        (&json!("cancelled"), &json!(true)),
        "{end:#}"
    );
    assert_eq!(api.question(&question.id).await["state"], "open");

    let next = api.prompt(&session, "hello").await;
    events.turn_end(&next).await;
    let read = rig.model.histories().pop().unwrap();
    let results: Vec<_> = read.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 1, "{read:#?}");
    let text = results[0]["content"].as_str().unwrap();
    assert!(text.starts_with("Cancelled before the user answered"), "{text}");
    let row = api.question(&question.id).await;
    assert_eq!(
        (&row["state"], &row["outcome"]["cause"]),
        (&json!("closed"), &json!("orphan_repair")),
        "{row:#}"
    );
    rig.kill().await;
}
