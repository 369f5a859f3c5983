//! The switch for faults, which only tests have: without it nothing of what it does can be pinned.

use serde_json::{Value, json};

use crate::rig::{Events, Life, Machine, Made};
use crate::support::{Request, Tune};

async fn life() -> (Life, Made, Events) {
    let life = Machine::new().start(Tune::default()).await;
    let session = life.make().await;
    let events = life.events(&session).await;
    (life, session, events)
}

async fn set(life: &Life, faults: &Value) {
    assert_eq!(life.post("/__faults", None, faults).await.status, 204, "{faults}");
}

/// Gives the session titles, and waits until the stream tells of the last one.
async fn titles(life: &Life, session: &Made, events: &mut Events, names: &[&str]) -> Vec<String> {
    for name in names {
        let path = format!("/session/{}/metadata", session.id);
        let request = Request::new("PATCH", &path).json(&json!({ "displayName": name }));
        assert_eq!(life.daemon.send(request).await.status, 200);
    }
    let mut told = Vec::new();
    loop {
        let event = events.wait_for("session_metadata_updated").await;
        told.push(event["data"]["displayName"].as_str().unwrap().to_owned());
        if told.last().map(String::as_str) == Some("end") {
            return told;
        }
    }
}

#[tokio::test]
async fn h12_events_are_dropped_repeated_swapped_and_late_as_a_test_says() {
    let (life, session, mut events) = life().await;
    for (action, names, expected) in [
        ("drop", ["one", "two", "end"].as_slice(), ["one", "end"].as_slice()),
        ("duplicate", &["one", "two", "end"], &["one", "two", "two", "end"]),
        ("swap", &["one", "two", "three", "end"], &["one", "three", "two", "end"]),
    ] {
        let rule = json!({ "type": "session_metadata_updated", "contains": "\"two\"", "action": action, "times": 1 });
        set(&life, &json!({ "events": [rule] })).await;
        assert_eq!(titles(&life, &session, &mut events, names).await, expected, "{action}");
    }
    set(&life, &json!({ "events": [{ "contains": "\"end\"", "action": "delay", "ms": 1 }] })).await;
    assert_eq!(titles(&life, &session, &mut events, &["one", "end"]).await, ["one", "end"]);
    // What a dropped event was is named by the next sign of life (H12).
    set(&life, &json!({ "events": [{ "type": "session_metadata_updated", "action": "drop" }] })).await;
    let path = format!("/session/{}/metadata", session.id);
    life.daemon.send(Request::new("PATCH", &path).json(&json!({ "displayName": "lost" }))).await;
    let loaded = life.post(&format!("/session/{}/load", session.id), None, &json!({})).await.body;
    loop {
        let alive = events.wait_for("alive").await;
        if alive["data"]["lastEventId"] == loaded["lastEventId"] {
            break;
        }
    }
    let log = life.get("/__faults").await.body["log"].as_array().unwrap().clone();
    assert!(log.iter().any(|entry| entry["action"] == "swap"), "{log:?}");
}

#[tokio::test]
async fn h2_routes_fail_and_questions_are_hidden_as_a_test_says() {
    let (life, session, mut events) = life().await;
    life.prompt(&session, None, "ask").await;
    let asked = life.asked(&session, 1).await.remove(0);
    events.wait_for("permission_request").await;
    set(&life, &json!({ "fail": [{ "method": "GET", "path": r"^/questions\?state=open", "status": 503, "code": "x", "times": 1 }] })).await;
    let failed = life.get("/questions?state=open").await;
    assert_eq!((failed.status, failed.code()), (503, Some("x")));
    assert_eq!(life.get("/questions?state=open").await.status, 200, "once");
    assert_eq!(life.get("/questions").await.status, 200, "another path");

    set(&life, &json!({ "hide": true })).await;
    assert!(life.inbox().await.is_empty());
    assert_eq!(life.status(&session).await["pendingInteractions"], json!([]));
    let loaded = life.post(&format!("/session/{}/load", session.id), None, &json!({})).await;
    let journal = loaded.body["liveJournal"].as_array().unwrap();
    assert!(journal.iter().all(|event| event["type"] != "permission_request"), "{journal:?}");
    set(&life, &json!({})).await;
    assert_eq!(life.inbox().await[0]["questionId"], asked.id);
    assert_eq!(life.post("/__faults", None, &json!({ "events": [{ "action": "melt" }] })).await.status, 400);
}
