//! An agent that dies each time it is started: the daemon tries again, waits longer each time, and gives up; the
//! question does not go with it (R14).

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{Asking, Rig, same, selected, undisturbed, until};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

#[tokio::test]
async fn r14_an_agent_that_dies_at_each_start_is_given_up_and_its_question_stays_open() {
    let mut rig = Rig::new().await;
    // The agent reads the file whenever it starts, and ends at once when it makes no sense.
    let config = rig.work().join("agent.toml");
    std::fs::write(&config, "").unwrap();
    rig.args = vec!["--config".to_owned(), config.to_str().unwrap().to_owned()];
    rig.start().await;
    let Asking { session, api, mut events, question, .. } = rig.asking("please ASK").await;
    events.wait_for("permission_request").await;

    std::fs::write(&config, "this is no configuration").unwrap();
    let agents = rig.daemon().children();
    assert_eq!(agents.len(), 1, "one agent a workspace");
    kill_process(agents[0], Signal::KILL).unwrap();
    // Nothing comes in between that would tell people that it is over; then one thing does.
    let died = events.wait_for("session_died").await;
    assert_eq!(died["data"]["reason"], "channel_closed", "{died:#}");
    assert!(died["data"]["detail"].as_str().unwrap().contains("agent.toml"), "it says why: {died:#}");
    events.drain().await;
    let ends = events.seen.iter().filter(|event| event["type"] == "session_died").count();
    assert_eq!(ends, 1, "{:#?}", events.seen);
    let last = events.seen.iter().rfind(|event| event["type"] == "permission_resolved");
    assert_eq!(
        last.map(|event| event["data"]["open"].clone()),
        Some(Value::Bool(true)),
        "{:#?}",
        events.seen
    );
    // The log is written beside what the daemon does.
    until("the log says how often it was started", async || {
        (rig.log().matches("the session could not be taken up").count() == 5).then_some(())
    })
    .await;
    assert_eq!(rig.model.calls(), 1);

    // The session is not live, and its question waits for the next load.
    assert_eq!(api.get(&format!("/session/{}/status", session.id)).await.status, 404);
    let row = api.question(&question.id).await;
    assert_eq!(
        (&row["state"], &row["live"], &row["restorable"]),
        (&"open".into(), &false.into(), &true.into())
    );
    let refused = api.post(&format!("/session/{}/load", session.id), &serde_json::json!({})).await;
    assert!(refused.status >= 500, "a load while it cannot start: {} {:#}", refused.status, refused.json());
    assert_eq!(api.question(&question.id).await["state"], "open");

    std::fs::write(&config, "").unwrap();
    api.load(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    rig.model.called(2).await;
    api.wait_idle(&session).await;
    let (story, reference) = (rig.story(&session), undisturbed("please ASK", &[BLUE]).await);
    assert_eq!(story.history, reference.history, "I10");
    same(&story, &reference);
}
