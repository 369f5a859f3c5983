//! A tool ran beside a question when everything died: the question is not asked again (E3), but nothing is hidden, and
//! its answer still makes the turn go on (D3, R20).

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Question, Rig, Session, Stream, answers, until};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// A session whose turn asks while a command runs, and its stream.
async fn asking_beside_a_command(rig: &Rig) -> (Session, Stream, String, Question) {
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let events = api.events(&session).await;
    let prompt = api.prompt(&session, "please SLEEP_AND_ASK").await;
    let [question] = api.wait_asked(&session).await;
    let path = rig.work().join("sleeping");
    until("the command runs", async || path.exists().then_some(())).await;
    (session, events, prompt, question)
}

/// The model has read the answer as the real result, and of the command that it may have run.
fn read_both(rig: &Rig) {
    let history = rig.model.histories().pop().unwrap();
    let results: Vec<_> = history
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(results.len(), 2, "{history:#?}");
    assert!(results[0].contains("may have"), "{results:?}");
    assert!(results[1].contains("Blue1"), "{results:?}");
}

async fn row(rig: &Rig, question: &Question) -> Value {
    rig.api().get(&format!("/questions/{}", question.id)).await.expect(200)
}

#[tokio::test]
async fn e3_d3_r20_the_agent_dies_the_turn_says_so_and_the_answer_makes_it_go_on() {
    let mut rig = Rig::started().await;
    let (session, mut events, prompt, question) = asking_beside_a_command(&rig).await;
    let api = rig.api().of(&session.client);
    for agent in rig.daemon().children() {
        kill_process(agent, Signal::KILL).unwrap();
    }
    let end = events.turn_end(&prompt).await;
    assert_eq!(
        (&end["type"], &end["data"]["code"]),
        (&json!("turn_error"), &json!("daemon_lost")),
        "{end:#}"
    );
    let row = row(&rig, &question).await;
    assert_eq!((&row["state"], &row["live"]), (&json!("open"), &json!(false)), "{row:#}");
    assert_eq!((&row["restorable"], &row["answerable"]), (&json!(false), &json!(true)), "{row:#}");

    api.answer(&question.id, &answers(&question, BLUE, "r")).await.expect(200);
    rig.model.called(2).await;
    read_both(&rig);
    until("the turn is over", async || {
        let status = api.status(&session).await;
        (status["turnState"] == "ended" && status["hasActivePrompt"] == false).then_some(())
    })
    .await;
    assert!(api.inbox().await.is_empty());
}

#[tokio::test]
async fn d3_r15_r20_the_daemon_dies_and_the_answer_wakes_the_session_and_the_same_turn_goes_on() {
    let mut rig = Rig::started().await;
    let (session, _, prompt, question) = asking_beside_a_command(&rig).await;
    let api = rig.restart().await.of(&session.client);
    api.answer(&question.id, &answers(&question, BLUE, "r")).await.expect(200);
    let mut events = api.load_and_follow(&session).await;
    let seen = events.turn_end(&prompt);
    let end = seen.await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    read_both(&rig);
}

#[tokio::test]
async fn e3_a_load_tells_that_the_turn_is_over_and_keeps_the_question() {
    let mut rig = Rig::started().await;
    let (session, _, prompt, question) = asking_beside_a_command(&rig).await;
    let api = rig.restart().await.of(&session.client);
    let loaded = api.load(&session).await;
    let lost = &loaded["promptTerminals"][0];
    assert_eq!((&lost["promptId"], &lost["code"]), (&json!(prompt), &json!("daemon_lost")), "{loaded:#}");
    assert_eq!(api.status(&session).await["hasTurnError"], true);
    let row = row(&rig, &question).await;
    assert_eq!((&row["state"], &row["answerable"]), (&json!("open"), &json!(true)), "{row:#}");
}
