//! The page about restore is true: its commands run as they stand, and its causes are those that there are.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use holdpoint_model::session::CloseCause;

const PAGE: &str = include_str!("../../../docs/restore.md");

/// The commands of the page, in order.
fn commands() -> String {
    let blocks = PAGE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().join("\n")
}

/// A loopback address of this test's own, so that the page can use the usual port.
fn address() -> String {
    let id = std::process::id();
    format!("127.{}.{}.{}", 64 + id % 128, id / 128 % 256, 2 + id / 32768 % 250)
}

#[test]
fn r1_r12_s3_d3_the_commands_of_the_restore_page_run_as_they_stand() {
    let dir = tempfile::Builder::new().prefix("hp-docs-").tempdir().unwrap();
    let place = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let (home, work, config) = (place("home"), place("work"), place("config/holdpoint"));
    let address = address();
    std::fs::write(config.join("holdpoint.toml"), format!("[serve]\nhostname = \"{address}\"\n")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_holdpoint"));
    let path = std::env::var("PATH").unwrap();
    // A step that fails ends it, and no daemon outlives it.
    let script = format!("daemon=\ntrap 'kill -9 $daemon; wait' EXIT\nset -eu\n{}", commands());
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&work)
        .env_clear()
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .env("HOME", &home)
        .env("XDG_CONFIG_HOME", dir.path().join("config"))
        .env("XDG_DATA_HOME", dir.path().join("data"))
        .env("HOLDPOINT_URL", format!("http://{address}:4170"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(work.join("daemon.log")).unwrap_or_default();
    let report = format!("--- stdout\n{out}\n--- stderr\n{err}\n--- the daemon\n{log}");
    assert!(output.status.success(), "{:?}\n{report}", output.status);
    for wanted in [
        "exit code 3: a question waits",
        "    → Friendly\n",
        "state answered by somebody (cli)\n",
        "exit code 4: refused, and the question is still open",
        "exit code 3: not sent, it would close the question",
    ] {
        assert!(out.contains(wanted), "not said: {wanted}\n{report}");
    }
    assert!(work.join("holdpoint-demo.md").exists(), "the turn that asked went on\n{report}");
}

/// Every cause, so that a new one fails here until the page has it.
fn causes() -> BTreeSet<String> {
    let mut cause = Some(CloseCause::CancelledBeforeAnswer);
    let mut all = BTreeSet::new();
    while let Some(this) = cause {
        all.insert(this.as_str().to_owned());
        cause = match this {
            CloseCause::CancelledBeforeAnswer => Some(CloseCause::UnreachableQuestion),
            CloseCause::UnreachableQuestion => Some(CloseCause::TimedOut),
            CloseCause::TimedOut => Some(CloseCause::OrphanRepair),
            CloseCause::OrphanRepair => Some(CloseCause::SessionDeleted),
            CloseCause::SessionDeleted => Some(CloseCause::ProcessRestarted),
            CloseCause::ProcessRestarted => Some(CloseCause::SessionClosed),
            CloseCause::SessionClosed => Some(CloseCause::Withdrawn),
            CloseCause::Withdrawn => None,
        };
    }
    all
}

#[test]
fn the_restore_page_names_every_way_in_which_a_question_is_closed() {
    let named: BTreeSet<String> = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `closed`, `"))
        .map(|rest| rest.split('`').next().unwrap().to_owned())
        .collect();
    assert_eq!(named, causes());
}
