//! What there is: the inbox, sessions, and what to do where there is no daemon.

use serde_json::{Value, json};

use crate::fake_daemon::{FakeDaemon, SESSION, asks_in_history, colour, heard, says, tool};
use crate::{FIRST, NOBODY, command, err, json_lines, out, run};

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

/// A question that waits where the daemon runs without the flag, after a restart.
fn unanswerable(id: &str) -> Value {
    let mut question = colour(id);
    question["live"] = false.into();
    question["restorable"] = false.into();
    question["answerable"] = false.into();
    question
}

#[tokio::test]
async fn d3_no_command_advises_an_answer_that_would_be_refused() {
    let fake = FakeDaemon::start().await;
    fake.question(unanswerable(FIRST));
    for line in [&["inbox"][..], &["inbox", FIRST], &["answer", FIRST]] {
        let output = run(&fake.url, line).await;
        let said = format!("{}{}", out(&output), err(&output));
        assert!(said.contains("runs without --restore-ask-user-question"), "{line:?}: {said}");
        assert!(said.contains("stop the daemon, and start it with"), "{line:?}: {said}");
        assert!(!said.contains("answer it with") && !said.contains("answers it"), "{line:?}: {said}");
        assert!(!said.contains("--text"), "{line:?}: {said}");
    }
    assert_eq!(run(&fake.url, &["answer", FIRST]).await.status.code(), Some(4));
}

#[tokio::test]
async fn v4_a_question_that_has_ended_is_shown_with_its_outcome_and_without_its_options() {
    let fake = FakeDaemon::start().await;
    fake.question(colour(FIRST));
    fake.settle(FIRST, json!({"name": "Ada", "surface": "web"}), json!({"0": "Red"}));
    let output = run(&fake.url, &["inbox", FIRST]).await;
    let said = out(&output);
    assert!(said.contains("    → Red\n") && said.contains("state answered by Ada (web)\n"), "{said}");
    assert!(said.contains("ended 2026-03-01T10:00:00Z"), "{said}");
    assert!(
        !said.contains("Blue") && !said.contains("--text") && !said.contains("holdpoint answer"),
        "{said}"
    );
}

#[tokio::test]
async fn i8_a_directory_that_is_not_there_is_said() {
    let fake = FakeDaemon::start().await;
    for path in ["/nonexistent/dir", "/dev/null"] {
        let output = run(&fake.url, &["inbox", "--cwd", path]).await;
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
        assert!(err(&output).contains(path), "{}", err(&output));
    }
    assert_eq!(out(&run(&fake.url, &["inbox", "--cwd", "/"]).await), "Nothing waits for you.\n");
    // What waits is shown, though its directory is gone since.
    fake.question(colour(FIRST));
    let output = run(&fake.url, &["inbox", "--cwd", "/nonexistent/dir"]).await;
    assert_eq!(output.status.code(), Some(0));
}

/// Attaches, and ends it by this signal once it has shown what there is.
async fn attach_until(
    fake: &FakeDaemon,
    signal: rustix::process::Signal,
    line: &[&str],
) -> std::process::Output {
    let child = command(&fake.url, &[&["attach", SESSION], line].concat()).spawn().unwrap();
    fake.reads().await;
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
    child.wait_with_output().await.unwrap()
}

#[tokio::test]
async fn v4_the_history_has_the_questions_and_their_answers_in_order() {
    let fake = FakeDaemon::start().await;
    let of_call = |id: &str, call: &str, generation: u64| {
        let mut question = colour(id);
        question["toolCallId"] = call.into();
        question["generation"] = generation.into();
        question
    };
    // The same id of a call twice, as some models give them; and one that is open still.
    fake.question(of_call("q_b", "call_1", 1));
    fake.question(of_call("q_a", "call_1", 2));
    fake.settle("q_b", json!({"name": "Ada", "surface": "web"}), json!({"0": "Red"}));
    fake.settle("q_a", json!({"surface": "cli"}), json!({"0": "neither"}));
    fake.question(of_call("q_c", "call_9", 3));
    fake.history(vec![
        heard("paint it"),
        says("Let me ask."),
        asks_in_history("call_1", "pending", ""),
        asks_in_history("call_1", "completed", "The person answered: Red"),
        tool("w", "write_file", "a.css", "in_progress"),
        asks_in_history("call_1", "pending", ""),
        asks_in_history("call_1", "completed", "The person answered: neither"),
        // The daemon has no record of this one: another tool wrote it.
        asks_in_history("call_7", "pending", ""),
        asks_in_history("call_7", "completed", "Blue, said somebody"),
        says("Done."),
        asks_in_history("call_9", "pending", ""),
    ]);
    let output = attach_until(&fake, rustix::process::Signal::INT, &[]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    insta::assert_snapshot!(out(&output), @"

    > paint it
    Let me ask.

    ? Colour: Which colour?
        → Red
        answered by Ada (web) at 2026-03-01T10:00:00Z
    · write_file: a.css

    ? Colour: Which colour?
        → neither
        answered by somebody (cli) at 2026-03-01T10:00:00Z

    ? Colour: Which colour?
        → Blue, said somebody
    Done.

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or --text with your own words; or --decline
    q_c waits; answer it with
      holdpoint answer q_c <number or label>
    ");
    insta::assert_snapshot!(err(&output), @"
    session 0195aaaa-0000-7000-8000-000000000001 in /proj/site; Ctrl-C detaches
    detached
    ");
    let output = attach_until(&fake, rustix::process::Signal::INT, &["--json"]).await;
    let lines = json_lines(&output);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let past = "past_question";
    assert_eq!(kinds, ["session", "user", "text", past, "tool", past, past, "text", "question", "end"]);
    assert_eq!(lines[3]["question"]["questionId"], "q_b");
}

#[tokio::test]
async fn every_signal_that_ends_an_attach_detaches_first() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::INT, 0), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let fake = FakeDaemon::start().await;
        let output = attach_until(&fake, signal, &[]).await;
        assert_eq!(output.status.code(), Some(code), "{}", err(&output));
        assert_eq!(fake.seen().last().unwrap().0, format!("POST /session/{SESSION}/detach"));
    }
}
