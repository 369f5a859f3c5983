//! An agent that is late, or does not do what it is asked: what the one who waits is told (WIRE a.2, a.8), and that the
//! daemon goes on.

use std::time::Duration;

use holdpoint_engine::port::AgentError;
use serde_json::json;

use crate::asker::Trouble;
use crate::rig::{Machine, say};
use crate::support::{Response, Tune};
use crate::votes::got;

fn holds(response: &Response, fields: &serde_json::Value) {
    for (key, value) in fields.as_object().unwrap() {
        assert_eq!(&response.body[key], value, "{response:?}");
    }
}

#[tokio::test]
async fn a2_a_restore_that_takes_too_long_is_given_up_and_the_daemon_goes_on() {
    let machine = Machine::new();
    let tune = Tune { take_up_timeout: Some(Duration::from_secs(1)), ..Tune::default() };
    let life = machine.start(tune.clone()).await;
    let (session, asked) = life.asking().await;
    life.stop().await;
    let life = machine.start(tune).await;
    for action in ["load", "resume"] {
        machine.troubles.set(Trouble::Hangs);
        let path = format!("/session/{}/{action}", session.id);
        let body = json!({});
        let loads = async {
            // Identical restores share one, and its end.
            futures::join!(life.post(&path, Some("me"), &body), life.post(&path, None, &body))
        };
        // Meanwhile others are served.
        let (waited, _) = futures::join!(loads, life.asking());
        for response in [waited.0, waited.1] {
            assert_eq!(got(&response), (504, "session_restore_timeout"), "{action}: {response:?}");
            holds(
                &response,
                &json!({
                    "errorKind": "restore_timeout",
                    "retryable": true,
                    "sessionId": session.id,
                    "action": action,
                    "timeoutMs": 1000,
                }),
            );
            assert_eq!(response.header("retry-after"), Some("5"));
        }
        let status = life.get(&format!("/session/{}/status", session.id)).await;
        assert_eq!(got(&status), (404, "session_not_found"), "{action}: it is not live");
        assert_eq!(life.question(&asked).await["state"], "open", "{action}");
    }
    machine.troubles.set(Trouble::Nothing);
    life.load(&session, Some(&session.client)).await;
    let again = life.asked(&session, 1).await.remove(0);
    assert_eq!(again.id, asked.id);
    assert_eq!(life.vote(&session, &again.request, None, &say("Blue")).await.status, 200);
    life.stop().await;
}

#[tokio::test]
async fn a2_a_session_that_another_process_writes_is_a_conflict_till_that_one_is_gone() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    machine.troubles.set(Trouble::Refuses(AgentError::Refused {
        code: -32603,
        message: "another process writes this session".to_owned(),
        data: Some(json!({ "code": "session_writer_conflict" })),
    }));
    for action in ["load", "resume"] {
        let path = format!("/session/{}/{action}", session.id);
        let refused = life.post(&path, Some(&session.client), &json!({})).await;
        assert_eq!(got(&refused), (409, "session_writer_conflict"), "{action}: {refused:?}");
        assert!(refused.body["error"].as_str().unwrap().contains("another process"), "{refused:?}");
    }
    assert_eq!(life.question(&asked).await["state"], "open");
    machine.troubles.set(Trouble::Nothing);
    life.load(&session, Some(&session.client)).await;
    assert_eq!(life.asked(&session, 1).await[0].id, asked.id);
    life.stop().await;
}

#[tokio::test]
async fn a2_an_agent_that_does_not_start_says_how() {
    let hangs = || AgentError::StartTimedOut { message: "it hangs".to_owned(), seconds: 30 };
    // (what is wrong, the status and code, the fields)
    let table = [
        (
            hangs(),
            (504, "init_timeout"),
            json!({ "errorKind": "init_timeout", "retryable": true, "timeoutMs": 30_000 }),
        ),
        (
            AgentError::TimedOut(60),
            (504, "init_timeout"),
            json!({ "errorKind": "init_timeout", "retryable": true, "timeoutMs": 60_000 }),
        ),
        (
            AgentError::Start("no such program".to_owned()),
            (503, "acp_channel_unavailable"),
            json!({ "retryAfterSeconds": 5, "reason": "the agent could not be started: no such program" }),
        ),
    ];
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    for (error, expected, fields) in table {
        machine.troubles.set(Trouble::NoProcess(error));
        let made = life.post("/session", None, &json!({ "sessionScope": "thread" })).await;
        assert_eq!(got(&made), expected, "{made:?}");
        assert_eq!(made.header("retry-after"), Some("5"));
        holds(&made, &fields);
    }
    assert_eq!(life.daemon.engine.live_sessions(), 0, "nothing is left of them");
    machine.troubles.set(Trouble::Nothing);
    let (session, asked) = life.asking().await;
    life.stop().await;

    let life = machine.start(Tune::default()).await;
    machine.troubles.set(Trouble::NoProcess(hangs()));
    for action in ["load", "resume"] {
        let path = format!("/session/{}/{action}", session.id);
        let refused = life.post(&path, Some(&session.client), &json!({})).await;
        assert_eq!(got(&refused), (504, "init_timeout"), "{action}: {refused:?}");
    }
    assert_eq!(life.question(&asked).await["state"], "open");
    life.stop().await;
}
