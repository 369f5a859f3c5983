//! Output that cannot be written, or that nobody reads any more.

use std::process::{Output, Stdio};

use crate::fake_daemon::{FakeDaemon, SESSION, colour, ends, says};
use crate::{FIRST, NOBODY, SECOND, command, err};

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
