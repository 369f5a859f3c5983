//! `prompt`: a turn from its start to its end, with questions, signals and restarts in it.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::fake_daemon::{FakeDaemon, SESSION, asks, colour, ends, says, tool};
use crate::{NOBODY, command, err, json_lines, out, run};

#[tokio::test]
async fn a_turn_streams_to_stdout_and_its_tools_to_stderr() {
    let fake = FakeDaemon::start().await;
    fake.on_prompt(vec![
        says("Hello "),
        tool("c", "read_file", "a.css", "in_progress"),
        says("wor\u{1b}[2Jld."),
        ends("end_turn"),
    ]);
    let output = run(&fake.url, &["prompt", "say", "hello"]).await;
    assert_eq!(output.status.code(), Some(0));
    // The line feeds belong to the remarks between.
    assert_eq!(out(&output), "Hello \nwor␛[2Jld.\n");
    insta::assert_snapshot!(err(&output), @"
    session 0195aaaa-0000-7000-8000-000000000001 in /proj/site
    · read_file: a.css
    ");
    let seen = fake.seen();
    assert_eq!(seen[0], ("POST /session".into(), json!({"sessionScope": "thread"})));
    assert_eq!(seen[1].1, json!({"prompt": [{"type": "text", "text": "say hello"}]}));
    assert!(seen.iter().any(|(path, _)| path.ends_with("/detach")));
}

#[tokio::test]
async fn a_prompt_comes_from_a_pipe_too() {
    for line in [&["prompt", "-"][..], &["prompt"][..]] {
        let fake = FakeDaemon::start().await;
        fake.on_prompt(vec![ends("end_turn")]);
        let mut child = command(&fake.url, line).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"from a pipe\n").await.unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(0));
        assert_eq!(fake.seen()[1].1["prompt"][0]["text"], "from a pipe\n");
    }
    let output = run(NOBODY, &["prompt"]).await;
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn a_question_without_a_terminal_stays_parked_with_exit_code_3() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.question(colour("q_02"));
    fake.on_prompt(vec![asks("q_01", "r1"), asks("q_02", "r2")]);
    let output = run(&fake.url, &["prompt", "--no-input", "do it"]).await;
    assert_eq!(output.status.code(), Some(3));
    insta::assert_snapshot!(out(&output), @"

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or --text with your own words; or --decline
    q_01 waits; answer it with
      holdpoint answer q_01 <number or label>

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or --text with your own words; or --decline
    q_02 waits; answer it with
      holdpoint answer q_02 <number or label>
    ");

    let output = run(&fake.url, &["prompt", "do it", "--json"]).await;
    assert_eq!(output.status.code(), Some(3));
    let lines = json_lines(&output);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session", "question", "question", "end"]);
    assert_eq!(lines[1]["question"], colour("q_01"));
    assert_eq!(lines[1]["answerCommand"], "holdpoint answer q_01 <number or label>");
    assert_eq!(lines[3]["waits"], json!(["q_01", "q_02"]));
    assert!(!fake.seen().iter().any(|(path, _)| path.ends_with("/answer")));
}

/// A session with a question that nobody asks now.
async fn with_one_that_nobody_asks(answerable: bool) -> FakeDaemon {
    let fake = FakeDaemon::start().await;
    let mut question = colour("q_01");
    question["live"] = false.into();
    question["restorable"] = false.into();
    question["answerable"] = answerable.into();
    fake.question(question);
    fake.on_prompt(vec![says("Done."), ends("end_turn")]);
    fake
}

#[tokio::test]
async fn r2_no_prompt_closes_a_question_before_somebody_was_told() {
    let sent = |fake: &FakeDaemon| fake.seen().iter().any(|(path, _)| path.ends_with("/prompt"));
    let fake = with_one_that_nobody_asks(false).await;
    let output = run(&fake.url, &["prompt", "--session", SESSION, "do it"]).await;
    assert_eq!(output.status.code(), Some(3));
    assert!(!sent(&fake));
    assert!(fake.seen().last().unwrap().0.ends_with("/detach"), "nobody stays attached");
    insta::assert_snapshot!(err(&output), @"
    error: nothing was sent: nobody asks what waits in this session, and the prompt would close it without an answer
      q_01: Which colour?
      it takes no answer now: nobody asks it, and the daemon runs without --restore-ask-user-question
      next: stop the daemon, and start it with --restore-ask-user-question; then holdpoint answer q_01 <number or label>
      next: or send the prompt all the same, with --close-question
    ");
    let output = run(&fake.url, &["prompt", "--session", SESSION, "do it", "--json"]).await;
    let error: Value = serde_json::from_str(&err(&output)).unwrap();
    assert_eq!((&error["code"], &error["waits"]), (&json!("question_waits"), &json!(["q_01"])));

    let output = run(&fake.url, &["prompt", "--session", SESSION, "--close-question", "do it"]).await;
    assert_eq!(output.status.code(), Some(0));
    assert!(sent(&fake));
    insta::assert_snapshot!(err(&output), @"
    q_01 (Which colour?) is closed without an answer: the prompt goes before it
    session 0195aaaa-0000-7000-8000-000000000001 in /proj/site
    ");

    // One that takes an answer, though it can't be asked again.
    let fake = with_one_that_nobody_asks(true).await;
    let output = run(&fake.url, &["prompt", "--session", SESSION, "do it"]).await;
    assert_eq!((output.status.code(), sent(&fake)), (Some(3), false));
    assert!(err(&output).contains("  next: holdpoint answer q_01 <number or label>\n"), "{}", err(&output));

    // A new session has no question to close.
    let output = run(&fake.url, &["prompt", "do it"]).await;
    assert_eq!((output.status.code(), sent(&fake)), (Some(0), true));
}

#[tokio::test]
async fn d5_a_prompt_behind_a_question_that_is_asked_is_queued_and_says_so_once() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.runs();
    fake.on_prompt(vec![json!({"type": "pending_prompt_added", "data": {"promptId": "p1"}})]);
    let output = run(&fake.url, &["prompt", "--session", SESSION, "do it"]).await;
    assert_eq!(output.status.code(), Some(3));
    insta::assert_snapshot!(err(&output), @"
    session 0195aaaa-0000-7000-8000-000000000001 in /proj/site
    the session waits for a decision; the prompt is queued behind it
    ");
}

#[tokio::test]
async fn a_prompt_that_is_told_to_end_detaches_first() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let fake = FakeDaemon::start().await;
        fake.on_prompt(vec![says("Working\n")]);
        let mut child = command(&fake.url, &["prompt", "x"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("Working"));
        let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(code));
        assert!(fake.seen().iter().any(|(path, _)| path.ends_with("/detach")));
    }
}

#[tokio::test]
async fn ctrl_c_leaves_the_turn_alone() {
    let fake = FakeDaemon::start().await;
    fake.on_prompt(vec![says("Working\n")]);
    let mut child = command(&fake.url, &["prompt", "x"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("Working"));
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    let mut remarks = String::new();
    child.stderr.take().unwrap().read_to_string(&mut remarks).await.unwrap();
    assert!(remarks.contains(&format!("holdpoint attach {SESSION}")), "{remarks}");
    let seen = fake.seen();
    assert!(seen.iter().any(|(path, _)| path.ends_with("/detach")));
    assert!(!seen.iter().any(|(path, _)| path.ends_with("/cancel")));
}

#[tokio::test]
async fn r15_a_restart_in_the_middle_of_a_turn_is_survived() {
    let fake = FakeDaemon::start().await;
    fake.on_prompt(vec![says("Before.\n")]);
    fake.on_resume(vec![says("After.\n"), ends("end_turn")]);
    let mut child = command(&fake.url, &["prompt", "x"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("Before."));
    fake.restart();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("After."));
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    let mut remarks = String::new();
    child.stderr.take().unwrap().read_to_string(&mut remarks).await.unwrap();
    assert!(remarks.contains("the daemon was restarted; the session is resumed"), "{remarks}");
}

#[tokio::test]
async fn a_turn_that_failed_or_was_cancelled_is_exit_code_1() {
    let fake = FakeDaemon::start().await;
    fake.on_prompt(vec![json!({"type": "turn_error", "data": {"promptId": "p1", "message": "the model's key is not accepted", "code": "model_auth"}})]);
    let output = run(&fake.url, &["prompt", "x", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let error: Value = serde_json::from_str(err(&output).lines().last().unwrap()).unwrap();
    assert_eq!(error["code"], "model_auth");

    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    let lost = json!({"type": "turn_error", "data": {"promptId": "p1", "message": "the agent was lost", "code": "daemon_lost"}});
    fake.on_prompt(vec![asks("q_01", "r1"), lost]);
    let output = run(&fake.url, &["prompt", "x"]).await;
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(err(&output), @"
    session 0195aaaa-0000-7000-8000-000000000001 in /proj/site
    q_01: it is being asked, and waits for its answer
    error: the turn failed: the agent was lost
      next: `holdpoint attach 0195aaaa-0000-7000-8000-000000000001` shows what is stored; `holdpoint prompt --session 0195aaaa-0000-7000-8000-000000000001` goes on from there
    ");

    let fake = FakeDaemon::start().await;
    fake.on_prompt(vec![ends("cancelled")]);
    assert_eq!(run(&fake.url, &["prompt", "x"]).await.status.code(), Some(1));
}
