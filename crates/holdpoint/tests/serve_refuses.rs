//! What the daemon refuses to start with (WIRE e): a door that everybody could walk through.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

use std::process::{Command, Stdio};

fn refused(args: &[&str], token: Option<&str>) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    command.env_clear().env("HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
    if let Some(token) = token {
        command.env("HOLDPOINT_TOKEN", token);
    }
    let output = command.args(["serve", "--model", "demo", "--port", "0"]).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "it never said that it listens: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn e_a_door_without_a_lock_is_not_opened() {
    // (options, token, what the message must name)
    let table: [(&[&str], Option<&str>, &str); 9] = [
        (&["--hostname", "0.0.0.0"], None, "HOLDPOINT_TOKEN"),
        (&["--require-auth"], None, "HOLDPOINT_TOKEN"),
        (&["--allow-origin", "*"], None, "HOLDPOINT_TOKEN"),
        (&["--allow-origin", "http://app.example.org"], None, "HOLDPOINT_TOKEN"),
        (
            &["--allow-origin", "https://a.example", "--allow-origin", "http://b.example"],
            None,
            "http://b.example",
        ),
        (&["--allow-origin", "app.example.org"], Some("s3cret"), "app.example.org"),
        (&["--allow-origin", "null"], Some("s3cret"), "null"),
        (&[], Some(" "), "blank"),
        (&["--hostname", "0.0.0.0"], Some(""), "blank"),
    ];
    for (args, token, named) in table {
        let stderr = refused(args, token);
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}
