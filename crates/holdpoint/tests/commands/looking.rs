//! What there is: the inbox, sessions, and what to do where there is no daemon.

use serde_json::{Value, json};

use crate::fake_daemon::{FakeDaemon, SESSION, colour};
use crate::{NOBODY, err, json_lines, out, run};

#[tokio::test]
async fn i8_the_inbox_and_one_question() {
    let fake = FakeDaemon::start().await;
    let mut older = colour("q_zz");
    older["askedAt"] = "2026-02-01T10:00:00Z".into();
    fake.question(colour("q_aa"));
    fake.question(older);
    let output = run(&fake.url, &["inbox", "--json"]).await;
    let ids: Vec<Value> = json_lines(&output)[0]["questions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|q| q["questionId"].clone())
        .collect();
    assert_eq!(ids, ["q_zz", "q_aa"]);
    let output = run(&fake.url, &["question", "q_aa", "--json"]).await;
    let mut whole = colour("q_aa");
    whole["page"] = json!(format!("{}/q/q_aa", fake.url));
    assert_eq!(json_lines(&output), [whole]);
    let output = run(&fake.url, &["inbox"]).await;
    assert!(out(&output).starts_with("ID"), "{}", out(&output));
    let output = run(&fake.url, &["inbox", "q_"]).await;
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn sessions_and_cancel() {
    let fake = FakeDaemon::start().await;
    let output = run(&fake.url, &["sessions"]).await;
    assert!(out(&output).contains("waits (a question)"), "{}", out(&output));
    let output = run(&fake.url, &["cancel", "0195", "--json"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("first 8 characters"), "{}", err(&output));
    assert!(!fake.seen().iter().any(|(path, _)| path.ends_with("/cancel")));

    // Nothing runs.
    let output = run(&fake.url, &["cancel", "0195aaaa", "--json"]).await;
    assert_eq!(json_lines(&output), [json!({"sessionId": SESSION, "cancelled": false, "waited": false})]);
    assert_eq!(
        out(&run(&fake.url, &["cancel", SESSION]).await),
        format!("nothing ran in {SESSION}, and nothing is cancelled\n")
    );
    fake.runs();
    let output = run(&fake.url, &["cancel", "0195aaaa", "--json"]).await;
    assert_eq!(json_lines(&output), [json!({"sessionId": SESSION, "cancelled": true, "waited": false})]);
    assert!(fake.seen().iter().any(|(path, _)| path == &format!("POST /session/{SESSION}/cancel")));
}

#[tokio::test]
async fn no_daemon_is_exit_code_5_everywhere_and_says_how_to_start_one() {
    for line in [
        &["prompt", "x"][..],
        &["inbox"],
        &["answer", "q_1", "1"],
        &["attach", "s"],
        &["sessions"],
        &["cancel", "s"],
    ] {
        let output = run(NOBODY, line).await;
        assert_eq!(output.status.code(), Some(5), "{line:?}");
        assert!(err(&output).contains("holdpoint serve --restore-ask-user-question"), "{}", err(&output));
        assert_eq!(out(&output), "");
    }
    let output = run(NOBODY, &["inbox", "--json"]).await;
    let error: Value = serde_json::from_str(&err(&output)).unwrap();
    assert_eq!(error["code"], "daemon_unreachable");
}

#[tokio::test]
async fn the_doctor_works_without_a_daemon() {
    let output = run(NOBODY, &["doctor", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let report = &json_lines(&output)[0];
    assert_eq!(report["ok"], false);
    assert_eq!(report["checks"][0]["status"], "fail");
    let fake = FakeDaemon::start().await;
    let output = run(&fake.url, &["doctor"]).await;
    assert!(out(&output).contains("ok   questions"), "{}", out(&output));
    fake.issues(json!([{"code": "undelivered_answers", "severity": "warning", "count": 2,
        "message": "2 answers are stored, and no agent has them"}]));
    let output = run(&fake.url, &["doctor"]).await;
    assert!(out(&output).contains("warn daemon says 2 answers are stored"), "{}", out(&output));
}
