//! H14: the daemon keeps I6 by itself. A question call that runs with nothing that people could answer is told of, and closed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::rig::Machine;
use crate::support::Tune;

#[tokio::test]
async fn h14_a_question_call_without_a_question_is_told_of_and_closed_with_its_cause() {
    let life = Machine::new().start(Tune { lost_after: Duration::ZERO, ..Tune::default() }).await;
    let session = life.make().await;
    let mut events = life.events(&session).await;
    let prompt = life.prompt(&session, Some(&session.client), "lose").await;
    let closed = loop {
        let event = events.wait_for("session_update").await;
        if event["data"]["update"]["status"] == "failed" {
            break event;
        }
    };
    assert_eq!(closed["promptId"], prompt, "{closed:#}");
    let update = &closed["data"]["update"];
    assert_eq!(update["toolCallId"], "call_lost");
    assert_eq!(update["_meta"]["holdpoint.cause"], "unreachable_question");
    let ended = events.wait_for("turn_complete").await;
    assert_eq!(ended["data"]["stopReason"], "cancelled", "{ended:#}");
    assert_eq!(life.status(&session).await["turnState"], "ended");

    let status = life.get("/daemon/status").await.body;
    let issue = |issue: &&Value| issue["code"] == "lost_questions";
    let issue = status["issues"].as_array().unwrap().iter().find(issue).expect("an issue");
    assert_eq!(issue["severity"], "warning");
    assert!(life.daemon.text("/metrics").await.contains("holdpoint_questions_lost_total 1"));
}

#[tokio::test]
async fn h14_questions_that_people_can_answer_are_none_of_it() {
    let life = Machine::new().start(Tune { lost_after: Duration::ZERO, ..Tune::default() }).await;
    let session = life.make().await;
    life.prompt(&session, Some(&session.client), "ask 2").await;
    let asked = life.asked(&session, 2).await;
    for one in &asked {
        let body = json!({ "generation": one.generation, "answers": { "0": "Red" } });
        let receipt = life.answer(one, Some(&session.client), &body).await;
        assert_eq!(receipt.status, 200, "{receipt:?}");
    }
    life.asked(&session, 0).await;
    assert!(!life.daemon.text("/metrics").await.contains("holdpoint_questions_lost_total"));
}
