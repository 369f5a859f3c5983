//! The audit (V5; WIRE c.5): who did what to a question, from where and when; durable, and by pages.

use std::time::Duration;

use holdpoint_model::policy::Strategy;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::rig::{Asked, Life, Machine, cancelled, say};
use crate::support::{PATIENCE, Request, Tune};
use crate::votes::{got, policy};

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect()
}

/// Waits until the agent has the end of it, so that nothing more is written.
async fn delivered(life: &Life, asked: &Asked) -> Vec<Value> {
    let found = async {
        loop {
            let entries = life.audit(asked).await;
            if kinds(&entries).contains(&"question.delivered") {
                return entries;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, found).await.expect("the agent has its end")
}

#[tokio::test]
async fn v5_asked_shown_voted_refused_settled_over_a_restart() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Consensus)).await;
    let session = life.make().await;
    let other = life.join(&session).await;
    life.prompt(&session, Some(&session.client), "ask").await;
    let asked = life.asked(&session, 1).await.remove(0);
    let shown = json!({ "surface": "web", "generation": asked.generation });
    life.post(&format!("/questions/{}/shown", asked.id), None, &shown).await;
    let path = format!("/session/{}/permission/{}", session.id, asked.request);
    let vote = |client: &str, surface: &'static str| {
        let request = Request::new("POST", &path).json(&say("Blue")).header("x-holdpoint-surface", surface);
        request.header("x-qwen-client-id", client.to_owned())
    };
    assert_eq!(life.daemon.send(vote(&session.client, "cli")).await.status, 200);
    let late = life.join(&session).await;
    assert_eq!(life.daemon.send(vote(&late, "slack")).await.status, 403);
    assert_eq!(life.daemon.send(vote(&other, "web")).await.status, 200);
    let entries = delivered(&life, &asked).await;
    assert_eq!(
        kinds(&entries),
        [
            "permission.requested",
            "question.shown",
            "permission.voted",
            "permission.forbidden",
            "permission.resolved",
            "question.delivered",
        ]
    );
    let expected = [
        json!({
            "requestId": asked.request,
            "policy": "consensus",
            "authorClientId": session.client,
            "restored": false,
        }),
        json!({ "surface": "web" }),
        json!({ "clientId": session.client, "by": { "clientId": session.client, "surface": "cli" } }),
        json!({ "by": { "clientId": late, "surface": "slack" }, "reason": "designated_mismatch" }),
        json!({
            "by": { "clientId": other, "surface": "web" },
            "decision": "answered",
            "answers": { "0": "Blue" },
            "policy": "consensus",
            "decisionType": "consensus-quorum",
        }),
        json!({}),
    ];
    for (entry, fields) in entries.iter().zip(&expected) {
        for (key, value) in fields.as_object().unwrap() {
            assert_eq!(&entry[key], value, "{key} of {entry:#}");
        }
        assert_eq!(
            (&entry["questionId"], &entry["generation"]),
            (&json!(asked.id), &json!(asked.generation)),
        );
    }
    let times: Vec<_> = entries.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    life.stop().await;
    let life = machine.start(off()).await;
    assert_eq!(life.audit(&asked).await, entries, "durable");
    let whole = life.get(&format!("/session/{}/audit", session.id)).await.body;
    assert_eq!(whole, json!({ "sessionId": session.id, "entries": entries }));
    life.stop().await;
}

fn off() -> Tune {
    Tune { restore: false, ..Tune::default() }
}

#[tokio::test]
async fn v5_a_restored_question_and_its_time_out() {
    // (the flag, the entries)
    let closed = ["permission.requested", "permission.timeout"];
    let parked =
        ["permission.requested", "permission.timeout", "permission.requested", "permission.resolved"];
    for (restore, kinds_of) in [(false, &closed[..]), (true, &parked[..])] {
        let machine = Machine::new();
        let tune = Tune { restore, ask_timeout: Some(Duration::from_millis(50)), ..Tune::default() };
        let life = machine.start(tune).await;
        let session = life.make().await;
        let mut events = life.events(&session).await;
        life.prompt(&session, Some(&session.client), "ask").await;
        let request = events.wait_for("permission_request").await;
        let asked = Asked {
            id: request["data"]["questionId"].as_str().unwrap().to_owned(),
            generation: 1,
            request: request["data"]["requestId"].as_str().unwrap().to_owned(),
        };
        events.wait_for("turn_complete").await;
        life.stop().await;
        let life = machine.start(Tune { restore, ..Tune::default() }).await;
        if restore {
            life.load(&session, Some(&session.client)).await;
            let again = life.asked(&session, 1).await.remove(0);
            life.vote(&session, &again.request, None, &cancelled()).await;
        }
        let mut entries = life.audit(&asked).await;
        entries.retain(|entry| entry["kind"] != "question.delivered");
        assert_eq!(kinds(&entries), kinds_of, "{entries:#?}");
        assert_eq!(entries[1]["closed"], json!(!restore));
        if restore {
            assert_eq!((&entries[0]["restored"], &entries[2]["restored"]), (&json!(false), &json!(true)));
            assert_eq!(entries[3]["decisionType"], "voter-cancelled");
        }
        life.stop().await;
    }
}

#[tokio::test]
async fn v5_d6_a_deleted_session_keeps_its_audit() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    life.post("/sessions/delete", None, &json!({ "sessionIds": [session.id] })).await;
    let entries = life.audit(&asked).await;
    assert_eq!(kinds(&entries), ["permission.requested", "question.closed"]);
    assert_eq!(entries[1]["cause"], "session_deleted");
    life.stop().await;
}

#[tokio::test]
async fn v5_by_pages() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = life.make().await;
    life.prompt(&session, Some(&session.client), "ask 3").await;
    let asked = life.asked(&session, 3).await;
    for asked in &asked {
        life.vote(&session, &asked.request, None, &say("Red")).await;
        delivered(&life, asked).await;
    }
    let paths =
        [(format!("/session/{}/audit", session.id), 9), (format!("/questions/{}/audit", asked[1].id), 3)];
    for (path, count) in paths {
        let whole = life.get(&path).await.body["entries"].clone();
        assert_eq!(whole.as_array().unwrap().len(), count);
        for limit in 1..=4 {
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = life.get(&format!("{path}?limit={limit}{cursor}")).await.body;
                let entries = page["entries"].as_array().unwrap();
                assert!(!entries.is_empty() && entries.len() <= limit);
                found.extend(entries.iter().cloned());
                match page["nextCursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(Value::Array(found), whole, "{path} by {limit}");
        }
        for bad in ["limit=0", "limit=1001", "limit=x"] {
            assert_eq!(got(&life.get(&format!("{path}?{bad}")).await), (400, "invalid_request"));
        }
        assert_eq!(got(&life.get(&format!("{path}?cursor=x")).await), (400, "invalid_cursor"));
    }
    assert_eq!(got(&life.get("/questions/q_0/audit").await), (404, "question_not_found"));
    assert_eq!(got(&life.get("/session/none/audit").await), (404, "session_not_found"));
    life.stop().await;
}
