//! The built binary against a small daemon: output, exit codes, signals.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

#[path = "../src/fake_daemon.rs"]
#[expect(dead_code, reason = "the tests inside the binary use the rest of it")]
mod fake_daemon;

use std::process::{Output, Stdio};

use fake_daemon::{FakeDaemon, SESSION, asks, colour, ends, says, tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

fn command(url: &str, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    command.args(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.env_clear().env("HOLDPOINT_URL", url).env("HOME", "/nonexistent");
    command
}

async fn run(url: &str, line: &[&str]) -> Output {
    command(url, line).output().await.unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json_lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Nobody listens on port 1 of loopback.
const NOBODY: &str = "http://127.0.0.1:1";

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

#[tokio::test]
async fn d3_answering_by_a_unique_beginning() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01ab"));
    fake.question(colour("q_02cd"));
    let output = run(&fake.url, &["answer", "01", "blue", "--response-id", "mine"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "✓ q_01ab: answered: Blue; the agent has it\n");
    let (path, body) = fake.seen().pop().unwrap();
    assert_eq!(path, "POST /questions/q_01ab/answer");
    assert_eq!(body, json!({"generation": 1, "answers": {"0": "Blue"}, "responseId": "mine"}));

    let output = run(&fake.url, &["answer", "q_0", "1"]).await;
    // One of the two is answered, and only what is open counts.
    assert_eq!(out(&output), "✓ q_02cd: answered: Red; the agent has it\n");
}

#[tokio::test]
async fn v4_a_refused_answer_is_exit_code_4_and_says_who_was_first() {
    let fake = FakeDaemon::start().await;
    let mut question = colour("q_01ab");
    question["state"] = "answered".into();
    fake.question(question);
    let output = run(&fake.url, &["answer", "q_01ab", "1"]).await;
    assert_eq!(output.status.code(), Some(4));
    insta::assert_snapshot!(err(&output), @"
    error: this question was answered already
      by Ada (slack) at 2026-03-01T10:00:00Z
    ");
    let output = run(&fake.url, &["answer", "q_01ab", "1", "--json"]).await;
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(out(&output), "");
    let error: Value = serde_json::from_str(&err(&output)).unwrap();
    assert_eq!(error["code"], "already_answered");
    assert_eq!(error["answeredBy"]["name"], "Ada");
}

#[tokio::test]
async fn an_answer_that_is_none_is_exit_code_2_and_nothing_is_sent() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    for line in [
        &["answer", "q_01", "purple"][..],
        &["answer", "q_01", "1", "2"],
        &["answer", "q_01"],
        &["answer", "q_!"],
    ] {
        let output = run(&fake.url, line).await;
        assert_eq!(output.status.code(), Some(2), "{line:?}");
    }
    assert!(!fake.seen().iter().any(|(path, _)| path.ends_with("/answer")));
    let output = run(&fake.url, &["answer", "q_ff", "1"]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn answer_with_wait_shows_the_rest_of_the_turn() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.on_answer(vec![says("Blue it is."), ends("end_turn")]);
    let output = run(&fake.url, &["answer", "q_01", "2", "--wait"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "✓ q_01: answered: Blue; the agent has it\nBlue it is.\n");

    // And of one that sleeps.
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.on_resume(vec![asks("q_01", "r2")]);
    fake.on_answer(vec![says("Red it is."), ends("end_turn")]);
    fake.restart();
    let output = run(&fake.url, &["answer", "q_01", "1", "--wait", "--json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let lines = json_lines(&output);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["receipt", "text", "end"]);
}

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
    let output = run(&fake.url, &["question", "q_a", "--json"]).await;
    assert_eq!(json_lines(&output), [colour("q_aa")]);
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
    assert_eq!(json_lines(&output), [json!({"cancelled": true, "sessionId": SESSION})]);
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
}

#[tokio::test]
async fn usage_errors_are_exit_code_2_and_json_if_wanted() {
    let output = run(NOBODY, &["inbox", "--nonsense"]).await;
    assert_eq!(output.status.code(), Some(2));
    let output = run(NOBODY, &["inbox", "--nonsense", "--json"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(serde_json::from_str::<Value>(&err(&output)).unwrap()["code"], "usage");
    let output = run("nonsense", &["inbox"]).await;
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn version_and_completions_need_no_daemon() {
    let output = run(NOBODY, &["--version"]).await;
    assert_eq!(out(&output), format!("holdpoint {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let output = run(NOBODY, &["completions", shell]).await;
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("inbox"));
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
    fake.on_prompt(vec![ends("cancelled")]);
    assert_eq!(run(&fake.url, &["prompt", "x"]).await.status.code(), Some(1));
}

#[tokio::test]
async fn s1_the_old_form_of_the_agents_flag_is_its_subcommand() {
    let old = run(NOBODY, &["--acp", "--help"]).await;
    let new = run(NOBODY, &["acp", "--help"]).await;
    assert_eq!(out(&old), out(&new));
    assert_eq!(old.status.code(), Some(0));
}
