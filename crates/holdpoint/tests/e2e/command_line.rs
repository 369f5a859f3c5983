//! The command line against the real daemon, and the walk of the README.

use std::process::Output;

use serde_json::Value;

use crate::support::{Rig, until};

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn all(output: &Output) -> String {
    format!("exit {:?}\n{}\n{}", output.status.code(), out(output), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn exits(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", all(output));
}

fn lines(output: &Output) -> Vec<Value> {
    out(output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", all(output))))
        .collect()
}

async fn inbox(rig: &Rig) -> Vec<Value> {
    let output = rig.run(&["inbox", "--json"]).await;
    exits(&output, 0);
    lines(&output)[0]["questions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_question_is_left_waiting_listed_and_answered_over_a_kill() {
    let mut rig = Rig::started().await;
    let output = rig.run(&["prompt", "--no-input", "please", "ASK"]).await;
    exits(&output, 3);
    let rows = inbox(&rig).await;
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let id = rows[0]["questionId"].as_str().unwrap().to_owned();
    assert!(all(&output).contains(&id), "the question's id is shown: {}", all(&output));

    rig.restart().await;
    assert_eq!(inbox(&rig).await[0]["questionId"], id.as_str());
    let output = rig.run(&["answer", &id, "2", "--wait"]).await;
    exits(&output, 0);
    assert!(all(&output).contains("Blue1"), "the turn goes on before one's eyes: {}", all(&output));
    assert_eq!(inbox(&rig).await.len(), 0);

    let output = rig.run(&["answer", &id, "1"]).await;
    exits(&output, 4);
    let output = rig.run(&["answer", &id, "1", "--json"]).await;
    exits(&output, 4);
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["code"], "already_answered", "{error:#}");
    let output = rig.run(&["answer", &id, "9"]).await;
    assert!(matches!(output.status.code(), Some(2 | 4)), "{}", all(&output));
    let output = rig.run(&["sessions", "--json"]).await;
    exits(&output, 0);

    rig.kill().await;
    let output = rig.run(&["inbox", "--url", "http://127.0.0.1:1"]).await;
    exits(&output, 5);
}

#[tokio::test]
async fn the_first_line_says_what_runs_where() {
    let mut rig = Rig::started().await;
    let line = rig.daemon().line.clone();
    let work = rig.work().canonicalize().unwrap().display().to_string();
    let data = rig.data_dir.display().to_string();
    let address = rig.daemon().address.to_string();
    for part in [address.as_str(), &work, &data, "scripted", "restore on"] {
        assert!(line.contains(part), "{part} in {line:?}");
    }
}

#[tokio::test]
async fn a_prompt_that_asks_nothing_streams_to_its_end() {
    let rig = Rig::started().await;
    let output = rig.run(&["prompt", "say", "hello"]).await;
    exits(&output, 0);
    assert!(out(&output).contains("Hello."), "{}", all(&output));
    let output = rig.run(&["doctor"]).await;
    exits(&output, 0);
}

#[tokio::test]
async fn the_walk_of_the_readme() {
    let mut rig = Rig::new().await;
    // As on a fresh machine: no model is configured, so the demo model plays.
    rig.demo = true;
    rig.start().await;
    let output = rig.run(&["prompt", "--no-input", "Write a greeting"]).await;
    exits(&output, 3);
    exits(&rig.run(&["inbox"]).await, 0);
    rig.kill().await;
    rig.start().await;
    let rows = inbox(&rig).await;
    assert_eq!(rows.len(), 1, "the question is still there");
    let id = rows[0]["questionId"].as_str().unwrap();
    // The list shows the end of it, and that is enough.
    let output = rig.run(&["inbox"]).await;
    let shown = out(&output).lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(id.ends_with(&shown) && shown.len() < id.len(), "{shown} of {id}");
    let output = rig.run(&["answer", &shown, "3", "--wait"]).await;
    exits(&output, 0);
    until("the file is written", async || rig.work().join("holdpoint-demo.md").exists().then_some(())).await;
    // Answer again, and you are told who was first.
    let output = rig.run(&["answer", &shown, "1"]).await;
    exits(&output, 4);
    assert!(all(&output).contains("has been answered") && all(&output).contains("by "), "{}", all(&output));
}
