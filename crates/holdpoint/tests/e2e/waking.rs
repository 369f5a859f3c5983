//! Answers after a restart with nothing loaded: by a question's durable identity, and through what clients
//! still hold from before.

use serde_json::{Value, json};

use crate::support::{Api, Asking, Question, Rig, Session, answers, same, selected, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// A session that waits, on a daemon that was killed and started again.
async fn waiting() -> (Rig, Session, Question, String) {
    let mut rig = Rig::started().await;
    let Asking { session, prompt, question, .. } = rig.asking("please ASK").await;
    rig.restart().await;
    (rig, session, question, prompt)
}

async fn finishes(rig: &Rig, api: &Api, session: &Session) {
    rig.model.called(2).await;
    api.wait_idle(session).await;
    same(&rig.story(session), &undisturbed("please ASK", &[BLUE]).await);
}

/// A receipt without what may change between two retries: how far its delivery is.
fn settled(mut receipt: Value) -> Value {
    receipt.as_object_mut().unwrap().remove("delivery");
    receipt
}

#[tokio::test]
async fn d3_an_answer_wakes_the_session_and_a_retry_gets_the_same_receipt() {
    let (mut rig, session, question, _) = waiting().await;
    let api = rig.api();
    let rows = api.inbox().await;
    assert_eq!(rows.len(), 1, "I8: {rows:#?}");
    assert_eq!(rows[0]["questionId"], question.id.as_str());
    assert_eq!((&rows[0]["live"], &rows[0]["restorable"]), (&json!(false), &json!(true)));
    assert_eq!(
        api.get(&format!("/session/{}/status", session.id)).await.status,
        404,
        "R12: nothing is loaded"
    );

    let body = answers(&question, BLUE, "mine-1");
    let first = api.answer(&question.id, &body).await.expect(200);
    assert_eq!(first["status"], "answered", "{first:#}");
    assert_eq!(first["responseId"], "mine-1", "{first:#}");
    let again = api.answer(&question.id, &body).await.expect(200);
    assert_eq!(settled(again), settled(first.clone()));
    finishes(&rig, &api, &session).await;

    let api = rig.restart().await;
    let later = api.answer(&question.id, &body).await.expect(200);
    assert_eq!(settled(later), settled(first.clone()), "after another kill");
    assert_eq!(rig.model.calls(), 2, "and nothing ran again");
}

#[tokio::test]
async fn d2_v4_what_a_second_answerer_is_told() {
    let (rig, session, question, _) = waiting().await;
    let api = rig.api();
    let stale =
        json!({ "generation": question.generation + 7, "answers": { "0": "Red1" }, "responseId": "s" });
    let refused = api.answer(&question.id, &stale).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "stale_generation"));
    assert_eq!(refused.json()["generation"], question.generation);
    assert_eq!(api.inbox().await.len(), 1, "still open");

    let of = api.of(&session.client);
    of.answer(&question.id, &answers(&question, BLUE, "mine")).await.expect(200);
    let late = api.answer(&question.id, &answers(&question, &[("0", "Red1")], "yours")).await;
    assert_eq!((late.status, late.code().as_str()), (409, "already_answered"));
    let late = late.json();
    assert_eq!(late["answeredBy"]["clientId"], session.client.as_str(), "{late:#}");
    assert!(late["answeredAt"].is_string(), "{late:#}");
    assert_eq!(late["answers"]["0"], "Blue1", "{late:#}");
    let other = of.answer(&question.id, &answers(&question, &[("0", "Red1")], "mine")).await;
    assert_eq!((other.status, other.code().as_str()), (409, "response_id_reused"));
    let unknown = api.answer("q_unknown", &answers(&question, BLUE, "x")).await;
    assert_eq!(unknown.status, 404);
    finishes(&rig, &api, &session).await;
}

#[tokio::test]
async fn r15_r16_r17_the_old_request_id_and_the_old_client_id_still_vote() {
    let (rig, session, question, _) = waiting().await;
    let api = rig.api().of(&session.client);
    api.vote(&session, &question.request, &selected(BLUE)).await.expect(200);
    let again = api.vote(&session, &question.request, &selected(BLUE)).await;
    assert_eq!(again.status, 404);
    assert_eq!(again.json()["answeredBy"]["clientId"], session.client.as_str(), "V4: {:#}", again.json());
    finishes(&rig, &api, &session).await;
}

#[tokio::test]
async fn r17_the_legacy_route_wakes_too() {
    let (rig, session, question, _) = waiting().await;
    let api = rig.api();
    api.post(&format!("/permission/{}", question.request), &selected(BLUE)).await.expect(200);
    finishes(&rig, &api, &session).await;
}

#[tokio::test]
async fn r15_r17_the_events_carry_the_live_request_id_and_the_old_prompt_id() {
    let (rig, session, question, prompt) = waiting().await;
    let api = rig.api().of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    let [live] = api.wait_asked(&session).await;
    api.vote(&session, &question.request, &selected(BLUE)).await.expect(200);
    let resolved = events.wait_for("permission_resolved").await;
    assert_eq!(resolved["data"]["requestId"], live.request.as_str());
    assert_eq!(resolved["data"]["voterClientId"], session.client.as_str());
    events.turn_end(&prompt).await;
    finishes(&rig, &api, &session).await;
}

#[tokio::test]
async fn r17_an_old_request_id_never_reaches_another_question() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please ASK_CHAIN").await;
    let [first] = api.wait_asked(&session).await;
    api.vote(&session, &first.request, &selected(BLUE)).await.expect(200);
    rig.model.called(2).await;
    let [second] = api.wait_asked(&session).await;
    assert_ne!(first.id, second.id);
    assert!(second.generation > first.generation);

    let api = rig.restart().await.of(&session.client);
    assert_eq!(api.vote(&session, &first.request, &selected(BLUE)).await.status, 404);
    let rows = api.inbox().await;
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0]["questionId"], second.id.as_str());
    let client = api.of("client_nobody").vote(&session, &second.request, &selected(BLUE)).await;
    assert_eq!((client.status, client.code().as_str()), (400, "invalid_client_id"));
}

#[tokio::test]
async fn s3_d3_with_the_flag_off_nothing_is_asked_again_and_nothing_is_lost() {
    let (mut rig, session, question, _) = waiting().await;
    rig.kill().await;
    rig.restore = false;
    let api = rig.start().await.of(&session.client);
    let rows = api.inbox().await;
    assert_eq!((rows.len(), &rows[0]["restorable"]), (1, &json!(false)), "{rows:#?}");
    let refused = api.answer(&question.id, &answers(&question, BLUE, "r")).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "restore_disabled"));
    assert!(refused.json()["error"].as_str().unwrap().contains("--restore-ask-user-question"), "the way out");
    assert_eq!(api.vote(&session, &question.request, &selected(BLUE)).await.status, 404);
    let view = api.load(&session).await;
    assert_eq!(view["hasActivePrompt"], false);
    assert!(view["compactedReplay"].to_string().contains("\"failed\""), "R2: finalised");
    assert_eq!(api.asked(&session).await.len(), 0);

    rig.kill().await;
    rig.restore = true;
    let api = rig.start().await.of(&session.client);
    api.load(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    finishes(&rig, &api, &session).await;
}

#[tokio::test]
async fn r12_a_start_scans_nothing_and_resumes_nothing() {
    let (mut rig, session, question, _) = waiting().await;
    let api = rig.api();
    assert!(rig.daemon().children().is_empty(), "no agent is started for a session that nobody has loaded");
    assert_eq!(rig.model.calls(), 1, "and no model is called");
    assert_eq!(api.get(&format!("/session/{}/status", session.id)).await.status, 404);
    assert_eq!(api.question(&question.id).await["live"], json!(false));
}

#[tokio::test]
async fn r8_from_a_restore_on_the_status_says_that_it_waits_and_the_vote_route_takes_the_answer() {
    let (rig, session, old, _) = waiting().await;
    let api = rig.api().of(&session.client);
    let loaded = api.load(&session).await;
    assert_eq!(loaded["hasActivePrompt"], json!(true), "{loaded:#}");
    let [question] = api.wait_asked(&session).await;
    assert_ne!(question.request, old.request);
    let status = api.status(&session).await;
    assert_eq!(status["isWaitingForUserQuestion"], json!(true), "{status:#}");
    assert_eq!(status["hasActivePrompt"], json!(true), "{status:#}");
    assert_eq!(status["pendingInteractions"][0]["requestId"], question.request.as_str());
    api.vote(&session, &question.request, &selected(BLUE)).await.expect(200);
    finishes(&rig, &api, &session).await;
}

#[tokio::test]
async fn i4_a_missing_transcript_is_never_taken_for_one_that_was_not_begun() {
    let mut rig = Rig::started().await;
    let Asking { session, question, .. } = rig.asking("please ASK").await;
    rig.kill().await;
    let (path, aside) = (rig.transcript_path(&session), rig.work().join("aside.jsonl"));
    std::fs::rename(&path, &aside).unwrap();

    let api = rig.start().await.of(&session.client);
    let refused = api.post(&format!("/session/{}/load", session.id), &json!({})).await;
    assert_eq!(refused.status, 503, "{:#}", refused.json());
    assert!(refused.json()["error"].as_str().unwrap().contains("transcript"), "{:#}", refused.json());
    assert!(!path.exists(), "nothing is made in its place");
    assert_eq!(rig.model.calls(), 1, "and no prompt is sent again");
    assert_eq!(api.question(&question.id).await["state"], "open");

    std::fs::rename(&aside, &path).unwrap();
    let api = rig.restart().await.of(&session.client);
    api.load(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    finishes(&rig, &api, &session).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn d3_an_answer_that_a_crash_kept_from_its_agent_is_told_of_and_a_retry_wakes_the_session() {
    let (mut rig, session, question, _) = waiting().await;
    rig.kill().await;
    let api = rig.start_with(&[("HOLDPOINT_CRASH_AT", "daemon.answer_committed")]).await;
    let body = answers(&question, BLUE, "mine-1");
    let _ = api.try_answer(&question, &body).await;
    rig.died().await;

    let api = rig.start().await;
    assert!(api.inbox().await.is_empty(), "it is answered");
    let waits = api.get("/questions?state=undelivered").await.expect(200);
    assert_eq!(waits["questions"][0]["questionId"], question.id.as_str(), "{waits:#}");
    let codes = |status: &Value| status["issues"].to_string();
    let status = api.get("/daemon/status").await.expect(200);
    assert!(codes(&status).contains("undelivered_answers"), "{status:#}");

    let receipt = api.answer(&question.id, &body).await.expect(200);
    assert_eq!(
        (&receipt["status"], &receipt["delivery"]),
        (&json!("answered"), &json!("waking")),
        "{receipt:#}"
    );
    finishes(&rig, &api, &session).await;
    let status = api.get("/daemon/status").await.expect(200);
    assert!(!codes(&status).contains("undelivered_answers"), "{status:#}");
}
