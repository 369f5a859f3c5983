//! Votes on the peer's route over kills of the daemon and its agents: what was acknowledged counts, a retry learns it,
//! and the audit has it all (V1, V2, V3, V5).

use serde_json::{Value, json};

use crate::support::{Api, Asking, Question, Response, Rig, Session, same, selected, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// A session that asks.
async fn asking(rig: &Rig) -> (Session, Api, Question, String) {
    let Asking { session, api, prompt, question, .. } = rig.asking("please ASK").await;
    (session, api, question, prompt)
}

fn decline() -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": "cancel" } })
}

/// A retry of a vote that has settled: 404 without a code, and who decided, when and what (d.4.10).
#[track_caller]
fn is_told(retry: &Response, session: &Session, question: &Question, option: &str) -> Value {
    let told = retry.json();
    assert_eq!((retry.status, retry.code().as_str()), (404, ""), "{told:#}");
    assert_eq!(told["requestId"], question.request.as_str(), "{told:#}");
    assert_eq!(told["questionId"], question.id.as_str(), "{told:#}");
    assert_eq!(told["answeredBy"]["clientId"], session.client.as_str(), "{told:#}");
    assert!(told["answeredAt"].is_string(), "{told:#}");
    assert_eq!(told["outcome"], json!({ "outcome": "selected", "optionId": option }), "{told:#}");
    told
}

#[tokio::test]
async fn v3_i4_a_vote_that_was_acknowledged_is_told_to_its_retry_after_a_kill_and_never_asked_for_again() {
    for asleep in [false, true] {
        let mut rig = Rig::started().await;
        let (session, _, question, _) = asking(&rig).await;
        if asleep {
            // The vote finds the session not loaded, and wakes it.
            rig.kill_all().await;
            rig.start().await;
        }
        let api = rig.api().of(&session.client);
        api.vote(&session, &question.request, &selected(BLUE)).await.expect(200);
        rig.kill_all().await;

        let api = rig.start().await.of(&session.client);
        assert_eq!(
            api.inbox().await,
            Vec::<Value>::new(),
            "it is answered, and known before anything is loaded"
        );
        let retry = api.vote(&session, &question.request, &selected(BLUE)).await;
        let told = is_told(&retry, &session, &question, "proceed_once");
        assert_eq!(told["answers"]["0"], "Blue1", "{told:#}");
        // One that says something else learns the same: the first one stands (I2).
        let other = api.vote(&session, &question.request, &selected(&[("0", "Red1")])).await;
        assert_eq!((other.status, other.json()), (404, told.clone()));

        let mut events = api.load_and_follow(&session).await;
        api.wait_idle(&session).await;
        assert!(api.asked(&session).await.is_empty());
        same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
        let later = api.vote(&session, &question.request, &selected(BLUE)).await;
        is_told(&later, &session, &question, "proceed_once");
        events.wait_for("permission_already_resolved").await;
        assert!(!events.saw("permission_request"), "never asked again: {:#?}", events.seen);
    }
}

#[tokio::test]
async fn v3_i4_a_vote_that_declined_is_told_to_its_retry_after_a_kill() {
    let mut rig = Rig::started().await;
    let (session, api, question, _) = asking(&rig).await;
    api.vote(&session, &question.request, &decline()).await.expect(200);
    rig.kill_all().await;

    let api = rig.start().await.of(&session.client);
    let retry = api.vote(&session, &question.request, &decline()).await;
    is_told(&retry, &session, &question, "cancel");
    let mut events = api.load_and_follow(&session).await;
    api.wait_idle(&session).await;
    let next = api.prompt(&session, "then go on").await;
    events.turn_end(&next).await;
    assert!(!events.saw("permission_request"), "never asked again: {:#?}", events.seen);
    let history = rig.story(&session).history;
    let results: Vec<_> = history.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 1, "{history:#?}");
    assert!(results[0]["content"].as_str().unwrap().starts_with("The person declined"), "{history:#?}");
    assert_eq!(rig.model.calls(), 2, "Q7: the model reads the decline with the next prompt, and not before");
}

#[tokio::test]
async fn v1_the_checks_of_a_vote_come_in_their_order_and_change_nothing() {
    let rig = Rig::started().await;
    let (session, api, question, prompt) = asking(&rig).await;
    let mut events = api.events(&session).await;
    let stranger = api.of("client_nobody");
    let chosen = |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
    let nowhere = Session { id: "8f9a1b0c-0000-4000-8000-000000000000".to_owned(), client: String::new() };
    // Each is wrong in all that comes after, too: the first check that it fails is the one that it is told of.
    let rows = [
        (stranger.vote(&nowhere, "r", &json!({})).await, 400, ""),
        (stranger.vote(&nowhere, "r", &chosen("nothing")).await, 404, "session_not_found"),
        (stranger.vote(&session, "r", &chosen("nothing")).await, 404, ""),
        (stranger.vote(&session, &question.request, &chosen("nothing")).await, 400, "invalid_client_id"),
        (api.vote(&session, &question.request, &chosen("__cancelled__")).await, 400, "invalid_option_id"),
        (api.vote(&session, &question.request, &chosen("nothing")).await, 400, "invalid_option_id"),
        (api.vote(&session, &question.request, &selected(&[("9", "x")])).await, 400, "invalid_answers"),
    ];
    for (at, (response, status, code)) in rows.iter().enumerate() {
        let got = (response.status, response.code());
        assert_eq!(got, (*status, (*code).to_owned()), "row {at}: {:#}", response.json());
    }
    let [still] = api.wait_asked(&session).await;
    assert_eq!(
        (still.id, still.request),
        (question.id.clone(), question.request.clone()),
        "nothing has changed"
    );
    let valid = api.vote(&session, &question.request, &selected(BLUE)).await;
    assert_eq!(valid.expect(200), json!({}));
    let resolved = events.wait_for("permission_resolved").await;
    assert_eq!(resolved["data"]["voterClientId"], session.client.as_str(), "{resolved:#}");
    is_told(
        &api.vote(&session, &question.request, &chosen("nothing")).await,
        &session,
        &question,
        "proceed_once",
    );
    let already = events.wait_for("permission_already_resolved").await;
    assert_eq!(already["data"]["requestId"], question.request.as_str(), "{already:#}");
    events.turn_end(&prompt).await;
}

/// The entries of an audit without what the test does not know.
fn told(audit: &Value) -> Vec<Value> {
    let entries = audit["entries"].as_array().unwrap();
    let told = |entry: &Value| {
        let by = &entry["by"];
        assert!(entry["at"].is_string() && entry["questionId"].is_string(), "{entry:#}");
        json!([entry["kind"], by["clientId"], by["surface"], entry["surface"], entry["answers"]])
    };
    entries.iter().map(told).collect()
}

#[tokio::test]
async fn v2_v5_asked_shown_voted_refused_and_settled_are_in_the_audit_of_a_session_that_sleeps_after_a_kill()
{
    let mut rig = Rig::new().await;
    let config = rig.work().join("consensus.toml");
    std::fs::write(&config, "[policy]\npermissionStrategy = \"consensus\"\n").unwrap();
    rig.args = vec!["--config".to_owned(), config.to_str().unwrap().to_owned()];
    rig.start().await;
    let session = rig.api().create("yolo").await;
    let second = rig.api().load(&session).await["clientId"].as_str().unwrap().to_owned();
    let api = rig.api().of(&session.client);
    let prompt = api.prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;
    let mut events = api.events(&session).await;

    let shown = json!({ "surface": "web", "generation": question.generation });
    api.post(&format!("/questions/{}/shown", question.id), &shown).await.expect(204);
    let path = format!("/session/{}/permission/{}", session.id, question.request);
    let vote = async |client: Option<&str>, surface: &str, answer: &str| {
        let body = selected(&[("0", answer)]).to_string();
        let mut headers = vec![("Content-Type", "application/json"), ("X-Holdpoint-Surface", surface)];
        headers.extend(client.map(|client| ("X-Qwen-Client-Id", client)));
        rig.api().raw("POST", &path, &headers, Some(body.as_bytes())).await
    };
    vote(Some(&session.client), "cli", "Blue1").await.expect(200);
    let partial = events.wait_for("permission_partial_vote").await;
    assert_eq!(partial["data"]["votesNeeded"], 1, "V2: both who were there when it was asked: {partial:#}");
    let nobody = vote(None, "slack", "Blue1").await;
    assert_eq!((nobody.status, nobody.code().as_str()), (403, "permission_forbidden"), "{:#}", nobody.json());
    events.wait_for("permission_forbidden").await;
    vote(Some(&second), "web", "Blue1").await.expect(200);
    events.turn_end(&prompt).await;
    let of_session = format!("/session/{}/audit", session.id);
    let of_question = format!("/questions/{}/audit", question.id);
    let wanted = [
        json!(["permission.requested", null, null, null, null]),
        json!(["question.shown", null, null, "web", null]),
        json!(["permission.voted", session.client, "cli", null, null]),
        json!(["permission.forbidden", null, "slack", null, null]),
        json!(["permission.resolved", second, "web", null, { "0": "Blue1" }]),
    ];
    // That the agent has the answer is noted without haste; what people did is not.
    let done = |audit: &Value| -> Vec<Value> {
        told(audit).into_iter().filter(|entry| entry[0] != "question.delivered").collect()
    };
    let before = api.get(&of_session).await.expect(200);
    assert_eq!(done(&before), wanted, "{before:#}");

    rig.kill_all().await;
    let api = rig.start().await;
    for path in [&of_session, &of_question] {
        let after = api.get(path).await.expect(200);
        assert_eq!(done(&after), wanted, "{path}: {after:#}");
        let times: Vec<_> =
            after["entries"].as_array().unwrap().iter().map(|e| e["at"].as_str().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        let first = before["entries"].as_array().unwrap().iter().take(5);
        assert!(
            after["entries"].as_array().unwrap().iter().zip(first).all(|(a, b)| a == b),
            "{path}: {after:#}"
        );
    }
    let status = api.get(&format!("/session/{}/status", session.id)).await;
    assert_eq!(status.status, 404, "reading an audit loads nothing");
    assert!(rig.daemon().children().is_empty(), "and starts no agent");
}
