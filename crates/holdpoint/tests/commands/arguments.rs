//! The command line itself: help, versions, and what is not understood.

use serde_json::{Value, json};

use crate::{NOBODY, command, err, json_lines, out, run};

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
async fn s1_the_old_form_of_the_agents_flag_is_its_subcommand() {
    let old = run(NOBODY, &["--acp", "--help"]).await;
    let new = run(NOBODY, &["acp", "--help"]).await;
    assert_eq!(out(&old), out(&new));
    assert_eq!(old.status.code(), Some(0));
}

#[tokio::test]
async fn the_daemon_is_looked_for_where_the_configuration_has_it_listen() {
    let fake = crate::fake_daemon::FakeDaemon::start().await;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("holdpoint/holdpoint.toml");
    std::fs::create_dir(home.path().join("holdpoint")).unwrap();
    let port = fake.url.rsplit_once(':').unwrap().1;
    std::fs::write(&file, format!("[serve]\nport = {port}\n")).unwrap();
    let in_home = |line: &[&str]| {
        let mut command = command("", line);
        command.env("XDG_CONFIG_HOME", home.path());
        command
    };
    let output = in_home(&["inbox"]).output().await.unwrap();
    assert_eq!(out(&output), "Nothing waits for you.\n", "{}", err(&output));
    // A word of the person's own goes before it.
    let output = in_home(&["inbox", "--url", NOBODY]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(5));
    std::fs::write(&file, "[serve]\nprot = 1\n").unwrap();
    let output = in_home(&["doctor", "--url", &fake.url]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("did you mean `port`?"), "{}", out(&output));
}
