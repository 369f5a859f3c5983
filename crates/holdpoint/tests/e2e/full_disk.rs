//! A disk that takes no more: the answer is refused rather than acknowledged, and nothing is lost.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::support::{Rig, answers, same, selected, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// From now on every write of the process to a file fails, or no longer does: to the process a disk quota and
/// a limit of the system look the same.
fn full(process: Pid, full: bool) {
    let current = if full { Some(0) } else { None };
    prlimit(Some(process), Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
}

#[tokio::test]
async fn i1_a_ledger_that_cannot_commit_refuses_the_answer_and_the_question_stays_open() {
    let mut rig = Rig::new().await;
    rig.disk_may_fill = true;
    let mut api = rig.start().await;
    let session = api.create("yolo").await;
    api = api.of(&session.client);
    let mut events = api.events(&session).await;
    let prompt = api.prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;

    full(rig.daemon().pid, true);
    let refused = api.vote(&session, &question.request, &selected(BLUE)).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "ledger_unavailable"),
        "{:#}",
        refused.json()
    );
    assert!(refused.head.get("retry-after").is_some());
    let refused = api.answer(&question.id, &answers(&question, BLUE, "r")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "ledger_unavailable"),
        "{:#}",
        refused.json()
    );
    let body = serde_json::json!({ "prompt": [{ "type": "text", "text": "and then" }] });
    let refused = api.post(&format!("/session/{}/prompt", session.id), &body).await;
    assert_eq!(refused.status, 503, "a prompt that is not durable is not accepted: {:#}", refused.json());
    let [open] = api.wait_asked(&session).await;
    assert_eq!(open.id, question.id, "still asked");
    assert_eq!(rig.model.calls(), 1, "the model has heard nothing");

    full(rig.daemon().pid, false);
    let receipt: Value = api.answer(&question.id, &answers(&question, BLUE, "r")).await.expect(200);
    assert_eq!(receipt["status"], "answered");
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    let api = rig.restart().await;
    assert_eq!(api.question(&question.id).await["state"], "answered");
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}

#[tokio::test]
async fn i1_a_question_that_cannot_be_stored_is_told_to_nobody_and_not_lost() {
    let mut rig = Rig::new().await;
    rig.disk_may_fill = true;
    let api = rig.start().await;
    let session = api.create("yolo").await;
    let api = api.of(&session.client);
    let mut events = api.events(&session).await;
    // The first turn starts the agent, so that the limit that follows is the daemon's alone.
    let hello = api.prompt(&session, "hello").await;
    events.turn_end(&hello).await;
    let prompt = api.prompt(&session, "please ASK_THEN_SHELL").await;
    full(rig.daemon().pid, true);
    rig.model.called(2).await;
    full(rig.daemon().pid, false);
    let [question] = api.wait_asked(&session).await;
    api.vote(&session, &question.request, &selected(BLUE)).await.expect(200);
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    rig.story(&session);
}
