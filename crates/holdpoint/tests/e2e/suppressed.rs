//! Loads that ask nothing again, prompts instead of answers, and what queues behind a question.

use serde_json::{Value, json};

use crate::support::{Asking, Question, Rig, Session, answers, same, selected, tool_results, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

async fn killed() -> (Rig, Session, Question, String) {
    let mut rig = Rig::started().await;
    let Asking { session, prompt, question, .. } = rig.asking("please ASK").await;
    rig.restart().await;
    (rig, session, question, prompt)
}

fn failed(view: &Value) -> bool {
    view["compactedReplay"].as_array().unwrap().iter().any(|event| {
        let update = &event["data"]["update"];
        update["sessionUpdate"] == "tool_call_update" && update["status"] == "failed"
    })
}

#[tokio::test]
async fn r2_r19_a_load_without_a_client_finalises_what_it_returns_and_loses_nothing() {
    let (rig, session, question, prompt) = killed().await;
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();
    let view = rig.api().load(&session).await;
    assert!(failed(&view), "R2: the replay is finalised: {view:#}");
    assert_eq!(view["hasActivePrompt"], false);
    let api = rig.api().of(&session.client);
    assert_eq!(api.asked(&session).await.len(), 0, "E6: nothing is asked");
    assert_eq!(std::fs::read(rig.transcript_path(&session)).unwrap(), before, "the repair is a view");
    let rows = api.inbox().await;
    assert_eq!((rows.len(), &rows[0]["restorable"], &rows[0]["live"]), (1, &json!(true), &json!(false)));

    let view = api.load(&session).await;
    assert!(!failed(&view), "R4: left in progress for one who can answer: {view:#}");
    let mut events =
        api.events_from(&session, view["lastEventId"].as_u64().unwrap(), view["eventEpoch"].as_str()).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    assert_ne!(again.request, question.request);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}

#[tokio::test]
async fn r19_a_client_never_suffers_the_suppression_of_a_load_beside_it() {
    for verb in ["load", "resume"] {
        let (rig, session, question, prompt) = killed().await;
        let path = format!("/session/{}/{verb}", session.id);
        let (nobody, somebody) = (rig.api(), rig.api().of(&session.client));
        let body = json!({});
        let (first, second) = tokio::join!(nobody.post(&path, &body), somebody.post(&path, &body));
        first.expect(200);
        let view = second.expect(200);
        let last = view["lastEventId"].as_u64().unwrap();
        let mut events = somebody.events_from(&session, last, view["eventEpoch"].as_str()).await;
        let [again] = somebody.wait_asked(&session).await;
        assert_eq!(again.id, question.id);
        somebody.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
        events.turn_end(&prompt).await;
        same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
    }
}

#[tokio::test]
async fn r2_r3_a_prompt_instead_of_an_answer_closes_the_question_where_it_was_asked() {
    let (mut rig, session, question, _) = killed().await;
    rig.api().load(&session).await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let prompt = api.prompt(&session, "never mind").await;
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");

    let history = rig.story(&session).history;
    let roles: Vec<_> = history.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["user", "assistant", "tool", "user"],
        "the repair is right after the call: {history:#?}"
    );
    assert!(history[2]["content"].as_str().unwrap().starts_with("Not answered"), "I3: {history:#?}");
    let transcript = rig.transcript(&session);
    let kinds: Vec<_> =
        transcript.iter().filter_map(|r| r["type"].as_str()).filter(|t| *t != "system").collect();
    assert_eq!(kinds, ["user", "assistant", "tool_result", "user", "assistant"], "on disk too");
    let row = api.question(&question.id).await;
    assert_eq!((&row["state"], &row["outcome"]["cause"]), (&json!("closed"), &json!("orphan_repair")));
    let told = events.seen.iter().any(|event| {
        event["type"] == "permission_resolved" && event["data"]["questionId"] == question.id.as_str()
    });
    assert!(told, "every surface is told: {:#?}", events.seen);
    let late = api.answer(&question.id, &answers(&question, BLUE, "late")).await;
    assert_eq!((late.status, late.code().as_str()), (410, "closed"), "{:#}", late.json());
    assert_eq!(late.json()["cause"], "orphan_repair");

    let api = rig.restart().await.of(&session.client);
    let view = api.load(&session).await;
    assert_eq!(view["hasActivePrompt"], false, "nothing is asked again");
    assert_eq!(api.inbox().await.len(), 0);
}

#[tokio::test]
async fn r11_continue_declines_while_a_question_can_be_asked_again() {
    let (rig, session, _, _) = killed().await;
    let path = format!("/session/{}/continue", session.id);
    let declined = json!({ "accepted": false, "interruption": "none" });
    rig.api().load(&session).await;
    let api = rig.api().of(&session.client);
    assert_eq!(api.post(&path, &json!({})).await.expect(200), declined, "suppressed");
    api.load(&session).await;
    api.wait_asked::<1>(&session).await;
    assert_eq!(api.post(&path, &json!({})).await.expect(200), declined, "asked");
    assert_eq!(rig.model.calls(), 1);
}

#[tokio::test]
async fn continue_goes_on_with_a_turn_that_was_cut_off_and_asks_no_question() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please HANG").await;
    rig.model.called(1).await;
    let api = rig.restart().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    let view = api.post(&format!("/session/{}/continue", session.id), &json!({})).await.expect(200);
    assert_eq!((&view["accepted"], &view["interruption"]), (&json!(true), &json!("interrupted_prompt")));
    rig.model.called(2).await;
    api.post(&format!("/session/{}/cancel", session.id), &json!({})).await.expect(204);
    let end = events.turn_end(view["promptId"].as_str().unwrap()).await;
    assert_eq!(end["data"]["stopReason"], "cancelled", "{end:#}");
    rig.story(&session);
}

#[tokio::test]
async fn r6_d5_what_queued_behind_a_question_goes_out_after_its_turn_over_a_kill_too() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let first = api.prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;
    let second = api.prompt(&session, "and then this").await;
    events.wait_for("pending_prompt_added").await;

    let api = rig.restart().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id, "the question goes first");
    let queue = api.get(&format!("/session/{}/pending-prompts", session.id)).await.expect(200);
    assert!(queue.to_string().contains(&second), "{queue:#}");
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&first).await;
    events.turn_end(&second).await;
    let results = tool_results(&rig.transcript(&session));
    assert_eq!(results.len(), 1, "{results:#?}");
    let history = rig.story(&session).history;
    let last = history.last().unwrap();
    assert_eq!(last["content"], "and then this", "once, and in order: {history:#?}");
}
