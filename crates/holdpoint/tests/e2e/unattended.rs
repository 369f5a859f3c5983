//! Ends that nobody decided, and those that somebody did: time-outs, closes, cancels (R9, R10, R13).

use serde_json::{Value, json};

use crate::support::{Asking, Rig, Session, answers, same, selected, tool_results, undisturbed, until};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

fn parked(end: &Value) -> bool {
    end["type"] == "turn_complete"
        && end["data"]["stopReason"] == "cancelled"
        && end["data"]["parked"] == true
}

async fn still_open(rig: &Rig, session: &Session, before: &[u8]) {
    let rows = rig.api().inbox().await;
    assert_eq!(rows.len(), 1, "it is in the inbox: {rows:#?}");
    assert_eq!(rows[0]["restorable"], true);
    assert_eq!(std::fs::read(rig.transcript_path(session)).unwrap(), before, "nothing is written");
}

#[tokio::test]
async fn r10_r14_a_time_out_parks_the_question_and_a_later_load_asks_again() {
    let mut rig = Rig::new().await;
    rig.args = vec!["--permission-response-timeout-ms".into(), "700".into()];
    rig.start().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let prompt = api.prompt(&session, "please ASK").await;
    let asked = events.wait_for("permission_request").await;
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();
    let end = events.turn_end(&prompt).await;
    assert!(parked(&end), "{end:#}");
    still_open(&rig, &session, &before).await;
    let status = api.status(&session).await;
    assert_eq!(status["hasActivePrompt"], false, "I6: {status:#}");

    api.load(&session).await;
    let again = events.wait_for("permission_request").await;
    assert_eq!(again["data"]["questionId"], asked["data"]["questionId"]);
    assert_ne!(again["data"]["requestId"], asked["data"]["requestId"]);
    assert_ne!(again["promptId"], prompt.as_str(), "R15: that prompt was already completed on the stream");
    let end = events.wait_for("turn_complete").await;
    assert!(parked(&end), "{end:#}");
    still_open(&rig, &session, &before).await;

    // Answered while nobody asks it (D3): loaded, and not asking.
    let id = again["data"]["questionId"].as_str().unwrap();
    let body =
        json!({ "generation": again["data"]["generation"], "answers": { "0": "Blue1" }, "responseId": "r" });
    api.answer(id, &body).await.expect(200);
    rig.model.called(2).await;
    events.wait("the end", |event| event["type"] == "turn_complete").await;
    let history = rig.story(&session).history;
    assert_eq!(history, undisturbed("please ASK", &[BLUE]).await.history, "I10");
}

#[tokio::test]
async fn r10_closing_a_session_leaves_its_question_open() {
    let mut rig = Rig::started().await;
    let Asking { session, api, mut events, prompt, question } = rig.asking("please ASK").await;
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();
    api.delete(&format!("/session/{}", session.id)).await.expect(204);
    let end = events.turn_end(&prompt).await;
    assert!(parked(&end), "{end:#}");
    events.wait_for("session_closed").await;
    still_open(&rig, &session, &before).await;
    assert_eq!(api.get(&format!("/session/{}/status", session.id)).await.status, 404);

    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    let end = events.wait_for("turn_complete").await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    assert_eq!(rig.story(&session).history, undisturbed("please ASK", &[BLUE]).await.history, "I10");
    rig.kill().await;
}

#[tokio::test]
async fn r13_a_cancel_in_first_life_closes_the_question() {
    let mut rig = Rig::started().await;
    let Asking { session, api, mut events, prompt, question } = rig.asking("please ASK").await;
    api.post(&format!("/session/{}/cancel", session.id), &json!({})).await.expect(204);
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "cancelled", "{end:#}");
    assert!(!parked(&end), "{end:#}");
    let of_the_end = ["prompt_cancelled", "permission_resolved", "turn_complete"];
    let order: Vec<_> =
        events.seen.iter().filter_map(|e| e["type"].as_str()).filter(|t| of_the_end.contains(t)).collect();
    assert_eq!(order, of_the_end);
    let row = api.question(&question.id).await;
    assert_eq!(row["outcome"]["cause"], "cancelled_before_answer", "{row:#}");
    let results = tool_results(&rig.transcript(&session));
    assert!(
        results.len() == 1 && results[0].2.starts_with("Cancelled before the user answered"),
        "{results:#?}"
    );

    let api = rig.restart().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    assert_eq!(api.asked(&session).await.len(), 0);
    let next = api.prompt(&session, "go on").await;
    events.turn_end(&next).await;
    rig.story(&session);
}

#[tokio::test]
async fn r13_r14_a_cancel_of_a_restored_question_leaves_it_open() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let prompt = rig.api().of(&session.client).prompt(&session, "please ASK").await;
    let [question] = rig.api().of(&session.client).wait_asked(&session).await;
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();
    let api = rig.restart().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    api.wait_asked::<1>(&session).await;
    api.post(&format!("/session/{}/cancel", session.id), &json!({})).await.expect(204);
    let end = events.turn_end(&prompt).await;
    assert!(parked(&end), "{end:#}");
    still_open(&rig, &session, &before).await;

    api.load(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    let end = events.wait("the end", |e| e["type"] == "turn_complete").await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    assert_eq!(rig.story(&session).history, undisturbed("please ASK", &[BLUE]).await.history, "I10");
}

#[tokio::test]
async fn d6_deleting_a_session_closes_its_question() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    rig.api().of(&session.client).prompt(&session, "please ASK").await;
    let [question] = rig.api().of(&session.client).wait_asked(&session).await;
    let api = rig.restart().await;
    let view =
        api.post("/sessions/delete", &json!({ "sessionIds": [session.id, "unknown"] })).await.expect(200);
    assert_eq!(view["removed"], json!([session.id]), "{view:#}");
    assert_eq!(view["notFound"], json!(["unknown"]), "{view:#}");
    assert_eq!(api.inbox().await.len(), 0);
    assert!(!rig.transcript_path(&session).exists());
    let late = api.answer(&question.id, &answers(&question, BLUE, "late")).await;
    assert_eq!((late.status, late.json()["cause"].clone()), (410, json!("session_deleted")));
    assert_eq!(
        api.of(&session.client).post(&format!("/session/{}/load", session.id), &json!({})).await.status,
        404
    );
}

#[tokio::test]
async fn clients_that_leave_change_nothing() {
    let rig = Rig::started().await;
    let Asking { session, api, prompt, question, .. } = rig.asking("please ASK").await;
    drop(api.events(&session).await);
    api.post(&format!("/session/{}/detach", session.id), &json!({})).await.expect(204);
    let status = until("the client is gone", async || {
        let status = api.status(&session).await;
        (status["clientCount"] == 0).then_some(status)
    })
    .await;
    assert_eq!(status["isWaitingForUserQuestion"], true, "{status:#}");
    let mut events = api.events(&session).await;
    let told = events.next().await.unwrap();
    assert_eq!(told["type"], "permission_request", "R23: a late reader is told: {told:#}");
    assert_eq!(told["_meta"]["replayed"], true, "{told:#}");
    assert!(told.get("id").is_none(), "{told:#}");
    api.vote(&session, &question.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}

#[tokio::test]
async fn i11_a_second_daemon_on_the_same_data_directory_is_refused_and_told_who_has_it() {
    let mut rig = Rig::started().await;
    let address = rig.daemon().address.to_string();
    let refused = rig.try_start(rig.serve()).await.unwrap_err();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&address), "it says who: {}", refused.stderr);
    rig.api().get("/health").await.expect(200);
    // The lock is gone with its holder, however that ended.
    rig.restart().await.get("/health").await.expect(200);
}
