//! What the daemon says of itself when something is wrong: to probes, in its status, and through `doctor`.

use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::support::{Rig, answers, selected};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

fn issues(status: &Value) -> Vec<&str> {
    status["issues"].as_array().unwrap().iter().map(|issue| issue["code"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn i1_a_disk_that_takes_no_more_is_told_by_status_probe_metrics_and_doctor() {
    let mut rig = Rig::new().await;
    rig.disk_may_fill = true;
    let api = rig.start().await;
    let session = api.create("yolo").await;
    let api = api.of(&session.client);
    api.prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;
    let pid = rig.daemon().pid;
    let full = |full: bool| {
        let current = if full { Some(0) } else { None };
        prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
    };
    full(true);
    assert_eq!(api.vote(&session, &question.request, &selected(BLUE)).await.status, 503);
    let status = api.get("/daemon/status").await.expect(200);
    assert_eq!(
        (&status["status"], issues(&status)[0]),
        (&json!("error"), "ledger_unavailable"),
        "{status:#}"
    );
    let deep = api.get("/health?deep=1").await;
    assert_eq!((deep.status, &deep.json()["reason"]), (503, &json!("ledger_unavailable")));
    api.get("/health").await.expect(200);
    let doctor = rig.run(&["doctor"]).await;
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(1), "{text}");
    assert!(text.contains("fail ledger     refuses to commit since "), "{text}");

    full(false);
    api.answer(&question.id, &answers(&question, BLUE, "r")).await.expect(200);
    let status = api.get("/daemon/status").await.expect(200);
    assert_eq!((&status["status"], issues(&status).len()), (&json!("ok"), 0), "{status:#}");
    api.get("/health?deep=1").await.expect(200);
    let doctor = rig.run(&["doctor"]).await;
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert!(text.contains("ok   ledger     takes what is to be kept"), "{text}");
}

#[tokio::test]
async fn a_transcript_of_a_newer_version_that_the_agent_meets_is_a_conflict() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    rig.api().of(&session.client).prompt(&session, "please ASK").await;
    rig.api().of(&session.client).wait_asked::<1>(&session).await;
    rig.kill().await;
    // A newer version went on with it meanwhile.
    let path = rig.transcript_path(&session);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last_mut().unwrap();
    last["holdpoint"]["v"] = json!(99);
    let newer: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, &newer).unwrap();
    let api = rig.start().await.of(&session.client);
    for action in ["load", "resume"] {
        let refused = api.post(&format!("/session/{}/{action}", session.id), &json!({})).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "transcript_format_newer"),
            "{:#}",
            refused.json()
        );
        let words = refused.json()["error"].as_str().unwrap().to_owned();
        assert!(words.contains("format 99"), "{words}");
    }
    let page = api.get(&format!("/session/{}/transcript", session.id)).await;
    assert_eq!((page.status, page.code().as_str()), (409, "transcript_format_newer"), "{:#}", page.json());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer, "left as it is");
    assert_eq!(api.inbox().await.len(), 1, "and its question waits");
}

#[tokio::test]
async fn e_each_limit_has_a_flag_and_is_told() {
    let flags = [
        ("--max-sessions", "7", "maxSessions", json!(7)),
        ("--max-connections", "9", "listenerMaxConnections", json!(9)),
        ("--max-pending-prompts-per-session", "3", "maxPendingPromptsPerSession", json!(3)),
        ("--event-ring-size", "11", "eventRingSize", json!(11)),
        ("--prompt-deadline-ms", "1200000", "promptDeadlineMs", json!(1_200_000)),
        ("--session-idle-timeout-ms", "130000", "sessionIdleTimeoutMs", json!(130_000)),
        ("--writer-idle-timeout-ms", "14000", "writerIdleTimeoutMs", json!(14_000)),
        ("--permission-response-timeout-ms", "150000", "permissionResponseTimeoutMs", json!(150_000)),
        ("--unseen-question-after-ms", "16000", "unseenQuestionAfterMs", json!(16_000)),
    ];
    // (the flag's value, what is told then)
    let unset = [
        json!(1000),
        json!(256),
        json!(5),
        json!(8000),
        Value::Null,
        json!(1_800_000),
        json!(60_000),
        json!(0),
        json!(30_000),
    ];
    let zero = [
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        json!(0),
        Value::Null,
        json!(0),
        json!(0),
    ];
    for which in ["unset", "set", "zero"] {
        let mut rig = Rig::new().await;
        for (flag, value, _, _) in &flags {
            match which {
                "set" => rig.args.extend([(*flag).to_owned(), (*value).to_owned()]),
                // A ring of none is no ring.
                "zero" if *flag != "--event-ring-size" => {
                    rig.args.extend([(*flag).to_owned(), "0".to_owned()])
                }
                _ => {}
            }
        }
        let api = rig.start().await;
        let told = api.get("/daemon/status").await.expect(200)["limits"].clone();
        assert_eq!(told, api.get("/capabilities").await.expect(200)["limits"]);
        for (at, (flag, _, key, value)) in flags.iter().enumerate() {
            let expected = match which {
                "set" => value,
                "unset" => &unset[at],
                _ if *flag == "--event-ring-size" => continue,
                _ => &zero[at],
            };
            assert_eq!(&told[key], expected, "{which}: {flag}");
        }
    }
    let rig = Rig::new().await;
    for (flag, bad) in [
        ("--max-sessions", "-1"),
        ("--max-sessions", "many"),
        ("--event-ring-size", "0"),
        ("--event-ring-size", "1000001"),
        ("--prompt-deadline-ms", "1.5"),
        ("--writer-idle-timeout-ms", "-5"),
    ] {
        let refused = rig.run(&["serve", &format!("{flag}={bad}")]).await;
        assert_eq!(refused.status.code(), Some(2), "{flag} {bad}: {refused:?}");
    }
}
