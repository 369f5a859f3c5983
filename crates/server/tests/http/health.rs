//! What the daemon says of its ledger (WIRE a.1, I1): in its status, to probes, and in its metrics.

use std::sync::Arc;

use holdpoint_ledger::MemoryLedger;
use serde_json::json;

use crate::inbox::metric;
use crate::rig::{Machine, say};
use crate::support::{Options, Request, Tune};
use crate::votes::got;

#[tokio::test]
async fn i1_a_ledger_that_refuses_to_commit_is_told_until_it_commits_again() {
    let machine = Machine::new();
    let ledger = Arc::new(MemoryLedger::new());
    let life = machine.start_over(Options::default(), ledger.clone()).await;
    let (session, asked) = life.asking().await;
    let status = life.get("/daemon/status").await.body;
    assert_eq!((&status["status"], &status["issues"]), (&json!("ok"), &json!([])));
    assert_eq!(status["runtime"]["ledger"], json!({ "state": "ok" }));
    assert_eq!(life.get("/health?deep=1").await.status, 200);
    assert_eq!(metric(&life, "holdpoint_ledger_commits").await, Some(1.0));

    ledger.refuse(Some("no space is left on the device"));
    for _ in 0..2 {
        assert_eq!(life.vote(&session, &asked.request, None, &say("Red")).await.status, 503);
    }
    let status = life.get("/daemon/status").await;
    assert_eq!((status.status, &status.body["status"]), (200, &json!("error")));
    let issue = &status.body["issues"][0];
    assert_eq!((&issue["code"], &issue["severity"]), (&json!("ledger_unavailable"), &json!("error")));
    assert!(issue["message"].as_str().unwrap().contains("no space is left on the device"), "{issue:#}");
    let told = &status.body["runtime"]["ledger"];
    assert_eq!((&told["state"], &told["refusing"]["count"]), (&json!("failing"), &json!(2)), "{told:#}");
    let deep = life.get("/health?deep=1").await;
    assert_eq!(deep.status, 503, "{deep:?}");
    assert_eq!(
        (&deep.body["status"], &deep.body["reason"]),
        (&json!("degraded"), &json!("ledger_unavailable"))
    );
    assert_eq!(life.get("/health").await.body, json!({ "status": "ok" }), "the process is there");
    assert_eq!(metric(&life, "holdpoint_ledger_commits").await, Some(0.0));
    assert_eq!(metric(&life, "holdpoint_ledger_refused_total").await, Some(2.0));

    ledger.refuse(None);
    assert_eq!(life.vote(&session, &asked.request, None, &say("Red")).await.status, 200);
    let status = life.get("/daemon/status").await.body;
    assert_eq!((&status["status"], &status["runtime"]["ledger"]), (&json!("ok"), &json!({ "state": "ok" })));
    assert_eq!(life.get("/health?deep=1").await.status, 200);
    assert_eq!(metric(&life, "holdpoint_ledger_commits").await, Some(1.0));
    life.stop().await;
}

#[tokio::test]
async fn a1_deep_health_says_what_goes_on() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    for deep in ["deep", "deep=1", "deep=true", "deep="] {
        let health = life.get(&format!("/health?{deep}")).await;
        assert_eq!(health.status, 200, "{health:?}");
        for (key, value) in [
            ("status", json!("ok")),
            ("sessions", json!(0)),
            ("pendingPermissions", json!(0)),
            ("activeWork", json!(false)),
            ("activeWorkReporting", json!("full")),
            ("activeWorkStaleMs", json!(0)),
            ("lastActivityAt", json!(null)),
            ("idleSinceMs", json!(null)),
        ] {
            assert_eq!(health.body[key], value, "{deep}: {key}");
        }
    }
    assert_eq!(life.get("/health?deep=0").await.body, json!({ "status": "ok" }));
    let (session, _) = life.asking().await;
    let health = life.get("/health?deep=1").await.body;
    for (key, value) in [
        ("sessions", json!(1)),
        ("pendingPermissions", json!(1)),
        ("activePrompts", json!(1)),
        ("activeWork", json!(true)),
        ("connectedClients", json!(1)),
        ("channelAlive", json!(true)),
    ] {
        assert_eq!(health[key], value, "{key}");
    }
    assert!(health["lastActivityAt"].is_string() && health["idleSinceMs"].is_u64(), "{health:#}");
    let status = life.get(&format!("/session/{}/status", session.id)).await.body;
    assert_eq!(health["lastActivityAt"], status["updatedAt"]);
    life.stop().await;
}

#[tokio::test]
async fn s1_the_flag_is_told_for_information() {
    let machine = Machine::new();
    let life = machine.start(Tune { restore: false, ..Tune::default() }).await;
    let status = life.get("/daemon/status").await.body;
    assert_eq!((&status["status"], &status["issues"][0]["code"]), (&json!("ok"), &json!("restore_disabled")));
    let bad = life.get("/daemon/status?detail=some").await;
    assert_eq!(got(&bad), (400, "invalid_detail"));
    let full = life.daemon.send(Request::new("GET", "/daemon/status?detail=full")).await;
    assert_eq!((full.status, &full.body["detail"]), (200, &json!("full")));
    life.stop().await;
}
