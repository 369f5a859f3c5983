//! `kill -9` at twenty moments between the prompt and the end of its turn, with a client that simply goes on:
//! it looks at the inbox, answers with the same response id, and loads the session again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::support::{Api, PATIENCE, Rig, Session};

const ROUNDS: u32 = 20;

/// What a client learned on the way.
#[derive(Debug, Default)]
struct Told {
    /// The questions that it saw, and whether its answer was acknowledged.
    questions: BTreeMap<String, bool>,
    continued: u32,
}

/// What the transcript says, without ids: who said what.
fn said(transcript: &[Value]) -> Vec<(String, Value)> {
    let spoken = transcript.iter().filter(|record| record["message"].is_object());
    spoken.map(|record| (record["type"].to_string(), record["message"].clone())).collect()
}

/// Drives the job to its end over however many lives of the daemon.
async fn drive(
    mut daemon: watch::Receiver<Api>,
    session: &Session,
    told: &mut Told,
    over: impl Fn() -> bool,
) {
    let end = Instant::now() + PATIENCE;
    while !over() {
        assert!(Instant::now() < end, "the job does not end: {told:?}");
        let api = daemon.borrow_and_update().of(&session.client);
        // A request that fails meets no daemon, or one that dies: the next round sees the next life.
        let _ = step(&api, session, told).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn step(api: &Api, session: &Session, told: &mut Told) -> std::io::Result<()> {
    let path = format!("/questions?state=all&session={}", session.id);
    let rows = api.try_send("GET", &path, None).await?.json();
    for row in rows["questions"].as_array().into_iter().flatten() {
        let id = row["questionId"].as_str().unwrap();
        let acknowledged = told.questions.entry(id.to_owned()).or_default();
        if row["state"] == "open" {
            assert!(!*acknowledged, "I4: asked again after the answer was acknowledged");
            let blue = &row["questions"][0]["options"][1]["label"];
            let body = json!({
                "generation": row["generation"],
                "answers": { "0": blue },
                "responseId": format!("mine-{id}"),
            });
            let response = api.try_send("POST", &format!("/questions/{id}/answer"), Some(&body)).await?;
            assert!(response.status == 200 || response.status >= 409, "{}", response.json());
            *acknowledged |= response.status == 200;
        }
    }
    assert!(told.questions.len() <= 2, "a question is one question, however often it is asked: {told:?}");
    // What a client does that has lost its stream: attach again, and go on where the agent was cut off.
    let load = api.try_send("POST", &format!("/session/{}/resume", session.id), Some(&json!({}))).await?;
    if load.status == 200 && load.json()["hasActivePrompt"] == false {
        let path = format!("/session/{}/continue", session.id);
        let view = api.try_send("POST", &path, Some(&json!({}))).await?.json();
        told.continued += u32::from(view["accepted"] == true);
    }
    Ok(())
}

/// Runs the job on a rig; kills the daemon so long after the prompt was accepted.
async fn round(rig: &mut Rig, after: Option<Duration>) -> (Duration, Vec<(String, Value)>, Told) {
    let session = rig.api().create("yolo").await;
    let start = Instant::now();
    rig.api().of(&session.client).prompt(&session, "please ASK_CHAIN").await;
    let path = rig.transcript_path(&session);
    let over = || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.contains("\"type\":\"system\""));
        last.is_some_and(|line| line.contains("Read: ") && text.ends_with('\n'))
    };
    let (lives, daemon) = watch::channel(rig.api());
    let mut told = Told::default();
    let kills = async {
        if let Some(after) = after {
            tokio::time::sleep_until(start + after).await;
            lives.send_replace(rig.restart().await);
        }
    };
    tokio::join!(drive(daemon, &session, &mut told, over), kills);
    let took = start.elapsed();
    rig.api().of(&session.client).resume(&session).await;
    rig.api().of(&session.client).wait_idle(&session).await;
    rig.story(&session);
    (took, said(&rig.transcript(&session)), told)
}

#[tokio::test]
async fn i4_kills_at_any_time_lose_nothing_and_ask_nothing_twice() {
    let mut rig = Rig::started().await;
    let (took, reference, told) = round(&mut rig, None).await;
    assert_eq!((told.questions.len(), told.continued), (2, 0), "undisturbed: {told:?}");
    for i in 0..ROUNDS {
        let after = took * i / ROUNDS;
        let (_, story, told) = round(&mut rig, Some(after)).await;
        assert_eq!(story, reference, "killed after {after:?} of {took:?}: {told:?}");
        assert_eq!(told.questions.len(), 2, "{told:?}");
        for id in told.questions.keys() {
            let row = rig.api().question(id).await;
            assert_eq!(row["state"], "answered", "{row:#}");
        }
        assert_eq!(rig.api().inbox().await, Vec::<Value>::new(), "nothing waits any more");
    }
}
