//! Consent to a tool call is not kept over a restart (V6).

use serde_json::{Value, json};

use crate::support::{Rig, until};

#[tokio::test]
async fn v6_an_open_permission_of_before_a_kill_is_closed_its_call_repaired_and_the_model_may_ask_again() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("default").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please SHELL").await;
    let [asked] = api.wait_asked(&session).await;
    assert_eq!(asked.view["kind"], "permission", "{:#}", asked.view);
    assert_eq!(api.question(&asked.id).await["state"], "open");
    let mark = rig.work().join("ran.txt");
    assert!(!mark.exists(), "it waits for consent");
    rig.kill_all().await;

    let api = rig.start().await.of(&session.client);
    let over = json!(["closed", "process_restarted"]);
    let row = api.question(&asked.id).await;
    assert_eq!(json!([row["state"], row["outcome"]["cause"]]), over, "before anything is loaded: {row:#}");
    assert_eq!(api.inbox().await, Vec::<Value>::new());
    let yes = json!({ "generation": asked.generation, "optionId": "proceed_once", "responseId": "late" });
    let late = api.answer(&asked.id, &yes).await;
    assert_eq!((late.status, late.code().as_str()), (410, "closed"), "{:#}", late.json());
    assert_eq!(late.json()["cause"], "process_restarted", "{:#}", late.json());
    let vote = json!({ "outcome": { "outcome": "selected", "optionId": "proceed_once" } });
    let voted = api.vote(&session, &asked.request, &vote).await;
    assert_eq!(
        (voted.status, &voted.json()["cause"]),
        (404, &json!("process_restarted")),
        "{:#}",
        voted.json()
    );

    // The load asks nothing again, and shows the call as what it is: over.
    let view = api.load(&session).await;
    assert_eq!(view["hasActivePrompt"], false, "{view:#}");
    let mut shown = view["compactedReplay"].as_array().unwrap().iter().filter_map(|event| {
        let update = &event["data"]["update"];
        update["toolCallId"].is_string().then(|| update["status"].clone())
    });
    assert_eq!(shown.next_back(), Some(json!("failed")), "{view:#}");
    assert!(api.asked(&session).await.is_empty());
    let row = api.question(&asked.id).await;
    assert_eq!(json!([row["state"], row["outcome"]["cause"]]), over, "and after it: {row:#}");

    // The model reads that the call may have run or not, and asks once more: that is a new question.
    let mut events = api.events(&session).await;
    let prompt = api.prompt(&session, "please SHELL").await;
    let [again] = api.wait_asked(&session).await;
    assert_ne!(again.id, asked.id);
    assert!(again.generation > asked.generation);
    assert!(!mark.exists(), "nothing ran without consent");
    let heard = rig.model.histories();
    let repaired = heard.last().unwrap().iter().find(|message| message["role"] == "tool").cloned();
    let text = repaired.unwrap()["content"].as_str().unwrap().to_owned();
    assert!(text.contains("may have run"), "R21: {text}");
    api.vote(&session, &again.request, &vote).await.expect(200);
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "ran\n", "once, with consent");
    let row = until("the answer is delivered", async || {
        let row = api.question(&again.id).await;
        (row["outcome"]["delivered"] == true).then_some(row)
    })
    .await;
    assert_eq!(row["state"], "answered", "{row:#}");
    rig.story(&session);
}
