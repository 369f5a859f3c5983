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

/// Two questions of the same minute, as the daemon names them: the ids begin alike.
const FIRST: &str = "q_01a22e6c4d5e7a0181c2d3e40f3a2b1c";
const SECOND: &str = "q_01a22e6c51b07fc29a07b8c95d6e7f80";

#[tokio::test]
async fn d3_answering_by_the_end_of_an_id() {
    let fake = FakeDaemon::start().await;
    fake.question(colour(FIRST));
    fake.question(colour(SECOND));
    let output = run(&fake.url, &["inbox"]).await;
    assert!(out(&output).contains("\n0f3a2b1c  "), "{}", out(&output));
    let output = run(&fake.url, &["answer", "0f3a2b1c", "blue", "--response-id", "mine"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), format!("✓ {FIRST}: answered: Blue; the agent has it\n"));
    let (path, body) = fake.seen().pop().unwrap();
    assert_eq!(path, format!("POST /questions/{FIRST}/answer"));
    assert_eq!(body, json!({"generation": 1, "answers": {"0": "Blue"}, "responseId": "mine"}));
    for id in [&SECOND[2..], "q_…5d6e7f80", "…b8c95d6e7f80"] {
        let output = run(&fake.url, &["inbox", id, "--json"]).await;
        assert_eq!(json_lines(&output)[0]["questionId"], SECOND, "{id}");
    }
}

#[tokio::test]
async fn i2_a_short_id_never_reaches_another_question_than_the_one_that_was_seen() {
    let fake = FakeDaemon::start().await;
    fake.question(colour(FIRST));
    let output = run(&fake.url, &["inbox"]).await;
    let seen = out(&output).lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    // Somebody else answers it, and the agent asks the next one.
    fake.settle(FIRST, json!({"name": "Ada", "surface": "web"}), json!({"0": "Red"}));
    fake.question(colour(SECOND));
    for line in [
        &["answer", &seen, "1"][..],
        &["answer", &seen, "1", "--wait"],
        &["answer", &seen, "--decline"],
        // Nothing that could be typed for it matters any more.
        &["answer", &seen, "no such option"],
        &["answer", &seen],
    ] {
        let output = run(&fake.url, line).await;
        assert_eq!(output.status.code(), Some(4), "{line:?}: {}", err(&output));
        assert!(err(&output).contains("answered"), "{}", err(&output));
        assert!(err(&output).contains("by Ada"), "{}", err(&output));
        assert_eq!(out(&output), "");
    }
    // Neither does a beginning, though only one that is open begins so.
    for name in ["q_01a22e6c", "01a22e6c", "q_01a22e6c…", "01a22e6c…"] {
        let output = run(&fake.url, &["answer", name, "1"]).await;
        assert!(matches!(output.status.code(), Some(1 | 2)), "{name}");
        assert!(err(&output).contains("the end of it"), "{}", err(&output));
    }
    for name in ["80", "q_…7f80", "6e7f80"] {
        let output = run(&fake.url, &["answer", name, "1"]).await;
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(err(&output).contains("last 8 characters"), "{}", err(&output));
    }
    let answered = fake.seen().into_iter().filter(|(path, _)| path.contains(SECOND)).count();
    assert_eq!(answered, 0, "nothing ever spoke of the second question");
}

#[tokio::test]
async fn an_end_that_two_questions_share_names_none_of_them() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01a22e6c0001aaaaaaaa"));
    fake.question(colour("q_01a22e6c0002aaaaaaaa"));
    fake.settle("q_01a22e6c0001aaaaaaaa", json!({"name": "Ada"}), json!({"0": "Red"}));
    let output = run(&fake.url, &["answer", "aaaaaaaa", "1"]).await;
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(err(&output), @"
    error: aaaaaaaa is the end of 2 ids
      next: give the whole id: q_01a22e6c0001aaaaaaaa, q_01a22e6c0002aaaaaaaa
    ");
    let output = run(&fake.url, &["answer", "2aaaaaaaa", "1"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[tokio::test]
async fn q6_a_pick_that_could_mean_two_options_is_refused_with_a_way_out() {
    let fake = FakeDaemon::start().await;
    let mut question = colour(FIRST);
    question["questions"][0]["options"][0]["label"] = "2".into();
    question["questions"][0]["options"][1]["label"] = "1".into();
    fake.question(question);
    let output = run(&fake.url, &["answer", FIRST, "2"]).await;
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(err(&output), @r#"error: "2" is the number of one option and the name of another: :2 is option 2 ("1"), =2 is option 1 ("2")"#);
    assert!(!fake.seen().iter().any(|(path, _)| path.ends_with("/answer")));
    let output = run(&fake.url, &["answer", FIRST, ":2"]).await;
    assert_eq!(out(&output), format!("✓ {FIRST}: answered: 1; the agent has it\n"), "{}", err(&output));
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
async fn answer_with_wait_stays_for_an_answer_that_the_agent_does_not_have_yet() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.hold_answers();
    let line = ["answer", "q_01", "2", "--wait", "--response-id", "mine"];
    let mut child = command(&fake.url, &line).spawn().unwrap();
    let mut remarks = BufReader::new(child.stderr.take().unwrap()).lines();
    let told = remarks.next_line().await.unwrap().unwrap();
    assert_eq!(told, "the answer is on disk, and the agent does not have it yet; waiting for it");
    // Its retry is the same answer, and waits too.
    let mut again = command(&fake.url, &line).spawn().unwrap();
    let mut its_remarks = BufReader::new(again.stderr.take().unwrap()).lines();
    assert_eq!(its_remarks.next_line().await.unwrap().unwrap(), told);
    fake.publish(&[says("Blue it is."), ends("end_turn")]);
    for child in [child, again] {
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(
            out(&output),
            "✓ q_01: answered: Blue; it is on disk, and on its way to the agent\nBlue it is.\n"
        );
    }
}

#[tokio::test]
async fn answer_with_wait_of_a_turn_that_has_ended_says_so_and_ends() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.on_answer(vec![ends("end_turn")]);
    let line = ["answer", "q_01", "2", "--response-id", "mine"];
    assert_eq!(run(&fake.url, &line).await.status.code(), Some(0));
    let output = run(&fake.url, &[&line[..], &["--wait"]].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "✓ q_01: answered: Blue; the agent has it\n");
    assert_eq!(err(&output), format!("the turn has ended; `holdpoint attach {SESSION}` shows it\n"));

    // One that sleeps with an answer that was not delivered goes on when it is woken for the retry.
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.hold_answers();
    let output = run(&fake.url, &line).await;
    assert_eq!(out(&output), "✓ q_01: answered: Blue; it is on disk, and on its way to the agent\n");
    fake.on_resume(vec![says("Blue it is."), ends("end_turn")]);
    fake.restart();
    let output = run(&fake.url, &[&line[..], &["--wait"]].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).ends_with("Blue it is.\n"), "{}", out(&output));
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

/// Commands whose output matters, with a daemon that has something for each.
const SPEAKING: [&[&str]; 14] = [
    &["--help"],
    &["--version"],
    &["help", "answer"],
    &["serve", "--help"],
    &["completions", "bash"],
    &["completions", "zsh", "--json"],
    &["inbox"],
    &["inbox", "--json"],
    &["inbox", FIRST],
    &["sessions"],
    &["cancel", SESSION],
    &["doctor"],
    &["prompt", "hello"],
    &["answer", SECOND, "1"],
];

async fn with_something_to_say() -> FakeDaemon {
    let fake = FakeDaemon::start().await;
    fake.question(colour(FIRST));
    fake.question(colour(SECOND));
    fake.on_prompt(vec![says("Hello."), ends("end_turn")]);
    fake
}

#[tokio::test]
async fn a_daemon_that_can_not_say_where_it_listens_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let line = ["serve", "--port", "0", "--data-dir", data.to_str().unwrap()];
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = command(NOBODY, &line).current_dir(dir.path()).stdout(full).spawn().unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("stdout can't be written"), "{}", err(&output));
}

/// Runs with this as stdout. (`output` would put a pipe in its place.)
async fn written_to(url: &str, line: &[&str], stdout: Stdio) -> Output {
    command(url, line).stdout(stdout).spawn().unwrap().wait_with_output().await.unwrap()
}

#[tokio::test]
async fn output_that_can_not_be_written_is_a_failure() {
    for line in SPEAKING {
        let fake = with_something_to_say().await;
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = written_to(&fake.url, line, full.into()).await;
        assert_eq!(output.status.code(), Some(1), "{line:?}: {}", err(&output));
        assert!(
            err(&output).contains("stdout can't be written: No space left"),
            "{line:?}: {}",
            err(&output)
        );
        assert!(!err(&output).contains("panicked"), "{line:?}: {}", err(&output));
    }
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_failure() {
    for line in SPEAKING {
        let fake = with_something_to_say().await;
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = written_to(&fake.url, line, writer.into()).await;
        assert_eq!(output.status.code(), Some(0), "{line:?}: {}", err(&output));
        assert!(!err(&output).contains("stdout"), "{line:?}: {}", err(&output));
        assert!(!err(&output).contains("panicked"), "{line:?}: {}", err(&output));
    }
}

#[tokio::test]
async fn options_of_the_client_are_not_dropped_in_silence_where_they_mean_nothing() {
    // A daemon that was told its token like this would have run without one.
    for line in [
        &["--token", "t", "serve", "--port", "0"][..],
        &["--url", "http://x", "serve"],
        &["--json", "acp"],
        &["--color", "never", "acp"],
    ] {
        let output = run(NOBODY, line).await;
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(err(&output).contains(line[0]), "{}", err(&output));
    }
}

#[tokio::test]
async fn every_command_has_help_with_examples_and_json_where_the_help_says_so() {
    let commands = [
        "serve",
        "acp",
        "prompt",
        "inbox",
        "answer",
        "attach",
        "sessions",
        "cancel",
        "open",
        "doctor",
        "completions",
    ];
    for name in commands {
        let output = run(NOBODY, &[name, "--help"]).await;
        let help = out(&output);
        assert!(help.contains("Examples:\n") && help.contains("Exit codes: 0"), "{name}: {help}");
        assert_eq!(help.contains("--json"), !matches!(name, "serve" | "acp"), "{name}: {help}");
        let described = help.split("\nUsage:").next().unwrap_or_default();
        assert!(described.len() > 100 || name == "completions", "{name}: {described}");
    }
}

#[tokio::test]
async fn version_and_completions_need_no_daemon() {
    let output = run(NOBODY, &["--version"]).await;
    assert_eq!(out(&output), format!("holdpoint {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let output = run(NOBODY, &["completions", shell]).await;
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("inbox"));
        for line in [&["--json", "completions", shell][..], &["completions", shell, "--json"]] {
            let documents = json_lines(&run(NOBODY, line).await);
            assert_eq!(documents, [json!({"shell": shell, "script": out(&output)})]);
        }
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

#[tokio::test]
async fn s1_the_old_form_of_the_agents_flag_is_its_subcommand() {
    let old = run(NOBODY, &["--acp", "--help"]).await;
    let new = run(NOBODY, &["acp", "--help"]).await;
    assert_eq!(out(&old), out(&new));
    assert_eq!(old.status.code(), Some(0));
}
