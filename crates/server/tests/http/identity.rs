//! Who and what is meant: the call that asks, the client that is attached, the person who answers, the prompt that is sent
//! again.

use std::time::Duration;

use serde_json::{Value, json};

use crate::rig::{Events, Life, Machine, Made, say};
use crate::support::{Request, Response, Tune};

const NAME: &str = "x-holdpoint-name";

async fn life() -> Life {
    Machine::new().start(Tune::default()).await
}

async fn load_as(life: &Life, session: &Made, client: &str, name: &str) -> String {
    let request = Request::new("POST", &format!("/session/{}/load", session.id)).json(&json!({}));
    let request =
        request.header("x-qwen-client-id", client).header("x-holdpoint-surface", "web").header(NAME, name);
    let loaded = life.daemon.send(request).await;
    assert_eq!(loaded.status, 200, "{loaded:?}");
    loaded.body["clientId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn h1_a_question_names_its_call_wherever_it_is_listed() {
    let life = life().await;
    let (session, asked) = life.asking().await;
    let list = life.inbox().await;
    let sessions = life.get(&format!("/workspace/{}/sessions", encoded(&life, &session).await)).await.body;
    let row =
        sessions["sessions"].as_array().unwrap().iter().find(|row| row["sessionId"] == session.id).unwrap();
    let status = life.status(&session).await;
    for view in [
        &list[0],
        &life.question(&asked).await,
        &status["pendingInteractions"][0],
        &row["pendingInteractions"][0],
    ] {
        assert_eq!(
            (&view["toolCallId"], &view["messageId"]),
            (&json!("call_0"), &json!("record-1")),
            "{view:#}"
        );
    }
    life.prompt(&session, None, "permit").await;
    let body = json!({ "generation": asked.generation, "answers": { "0": "Red" } });
    assert_eq!(life.answer(&asked, None, &body).await.status, 200);
    let permission = life.asked(&session, 1).await.remove(0);
    assert_eq!(life.question(&permission).await["toolCallId"], "call_0");
    assert_eq!(life.question(&permission).await["messageId"], "record-2");
}

/// The session's workspace, as it is written in a path.
async fn encoded(life: &Life, session: &Made) -> String {
    let cwd = life.status(session).await["workspaceCwd"].as_str().unwrap().to_owned();
    percent_encoding::utf8_percent_encode(&cwd, percent_encoding::NON_ALPHANUMERIC).to_string()
}

async fn answer_as(life: &Life, path: &str, name: &str, body: &Value) -> Response {
    let request =
        Request::new("POST", path).json(body).header("x-holdpoint-surface", "web").header(NAME, name);
    life.daemon.send(request).await
}

#[tokio::test]
async fn v4_a_name_goes_with_the_answer_to_everybody_who_is_told_of_it() {
    let life = life().await;
    let (session, asked) = life.asking().await;
    let mut events = life.events(&session).await;
    let path = format!("/questions/{}/answer", asked.id);
    let body = |answer: &str| json!({ "generation": asked.generation, "answers": { "0": answer } });
    let by = json!({ "name": "Jürgen ✓", "surface": "web" });

    let receipt = answer_as(&life, &path, "J%C3%BCrgen%20%E2%9C%93", &body("Red")).await;
    assert_eq!((receipt.status, &receipt.body["answeredBy"]), (200, &by), "{receipt:?}");
    let resolved = events.wait_for("permission_resolved").await;
    assert_eq!(resolved["data"]["answeredBy"], by, "{resolved:#}");
    let late = answer_as(&life, &path, "Ann", &body("Blue")).await;
    assert_eq!((late.status, late.code(), &late.body["answeredBy"]), (409, Some("already_answered"), &by));
    let vote = format!("/session/{}/permission/{}", session.id, asked.request);
    let vote = answer_as(&life, &vote, "Ann", &say("Blue")).await;
    assert_eq!((vote.status, &vote.body["answeredBy"]), (404, &by), "{vote:?}");
    let late = events.wait_for("permission_already_resolved").await;
    assert_eq!(late["data"]["answeredBy"], by, "{late:#}");
    assert_eq!(life.question(&asked).await["outcome"]["answeredBy"], by);
    let audit = life.audit(&asked).await;
    let resolved = audit.iter().find(|entry| entry["kind"] == "permission.resolved").unwrap();
    assert_eq!(resolved["by"], by, "{resolved:#}");
}

#[tokio::test]
async fn i7_a_client_that_loads_again_is_attached_once_and_one_detach_is_enough() {
    let life = life().await;
    let session = life.make().await;
    let mut events = life.events(&session).await;
    let ann = load_as(&life, &session, "somebody", "Ann").await;
    let hint = events.wait_for("session_clients_changed").await;
    let two = json!([{ "name": "Ann", "surface": "web" }, { "surface": "http" }]);
    let sorted = |list: &Value| {
        let mut list = list.as_array().unwrap().clone();
        list.sort_by_key(|client| client["surface"] != "web");
        Value::Array(list)
    };
    assert_eq!(sorted(&hint["data"]["clients"]), two, "{hint:#}");
    assert!(hint.get("id").is_none(), "a hint is no event of the session: {hint:#}");
    let status = life.status(&session).await;
    assert_eq!((&status["clientCount"], &sorted(&status["clients"])), (&json!(2), &two));

    assert_eq!(load_as(&life, &session, &ann, "Ann").await, ann);
    assert_eq!(load_as(&life, &session, &ann, "Ann%20Lee").await, ann);
    let hint = events.wait_for("session_clients_changed").await;
    assert_eq!(
        sorted(&hint["data"]["clients"])[0]["name"],
        "Ann Lee",
        "told once, with what changed: {hint:#}"
    );
    assert_eq!(life.status(&session).await["clientCount"], 2);

    for client in [&ann, &session.client] {
        let path = format!("/session/{}/detach", session.id);
        assert_eq!(life.post(&path, Some(client), &json!({})).await.status, 204);
    }
    let hint = events.wait_for("session_clients_changed").await;
    assert_eq!(hint["data"]["clients"], json!([{ "surface": "http" }]));
    // The stream is read, so the session stays.
    let status = life.status(&session).await;
    assert_eq!((&status["clientCount"], &status["clients"]), (&json!(0), &json!([])));
}

/// Reads hints until one tells of exactly these.
async fn until_here(events: &mut Events, expected: &Value) {
    while events.wait_for("session_clients_changed").await["data"]["clients"] != *expected {}
}

#[tokio::test]
async fn i5_a_client_that_is_killed_does_not_stay_and_one_that_acts_again_is_there() {
    let life = Machine::new().start(Tune { away_after: Duration::from_millis(50), ..Tune::default() }).await;
    let session = life.make().await;
    let mut events = life.events(&session).await;
    let ann = load_as(&life, &session, "somebody", "Ann").await;
    let stream = life.events_as(&session, Some(&ann)).await;
    let only_ann = json!([{ "name": "Ann", "surface": "web" }]);
    // Who made the session reads nothing and does nothing; Ann reads.
    until_here(&mut events, &only_ann).await;
    let status = life.status(&session).await;
    assert_eq!((&status["clientCount"], &status["clients"]), (&json!(1), &only_ann));
    // A killed client's connection ends without a detach.
    drop(stream);
    until_here(&mut events, &json!([])).await;
    // It only slept: its id still counts, and so does its presence.
    let path = format!("/session/{}/heartbeat", session.id);
    assert_eq!(life.post(&path, Some(&ann), &json!({})).await.status, 200);
    until_here(&mut events, &only_ann).await;
    until_here(&mut events, &json!([])).await;
    let _stream = life.events_as(&session, Some(&ann)).await;
    until_here(&mut events, &only_ann).await;
    life.stop().await;
}

#[tokio::test]
async fn d6_a_reader_learns_that_the_session_was_deleted() {
    let life = life().await;
    let (session, asked) = life.asking().await;
    let mut events = life.events(&session).await;
    let deleted = life.post("/sessions/delete", None, &json!({ "sessionIds": [session.id] })).await;
    assert_eq!(deleted.body["removed"], json!([session.id]), "{deleted:?}");
    let resolved = events.wait_for("permission_resolved").await;
    assert_eq!(
        (&resolved["data"]["questionId"], &resolved["data"]["cause"]),
        (&json!(asked.id), &json!("session_deleted"))
    );
    let closed = events.wait_for("session_closed").await;
    assert_eq!(
        (&closed["data"]["reason"], &closed["data"]["cause"]),
        (&json!("client_close"), &json!("session_deleted"))
    );
}

#[tokio::test]
async fn d5_a_prompt_that_is_sent_again_under_its_id_is_one_turn() {
    let life = life().await;
    let (session, _) = life.asking().await;
    let path = format!("/session/{}/prompt", session.id);
    let body =
        |id: Value, text: &str| json!({ "promptId": id, "prompt": [{ "type": "text", "text": text }] });
    let first = life.post(&path, None, &body(json!("mine-1"), "hello")).await;
    assert_eq!(
        (first.status, &first.body["promptId"], first.body.get("repeated")),
        (202, &json!("mine-1"), None)
    );
    let again = life.post(&path, None, &body(json!("mine-1"), "hello")).await;
    assert_eq!(
        (again.status, &again.body["repeated"], &again.body["state"]),
        (202, &json!(true), &json!("queued")),
        "{again:?}"
    );
    let waiting = life.get(&format!("/session/{}/pending-prompts", session.id)).await.body;
    assert_eq!(
        waiting["pendingPrompts"].as_array().unwrap().len(),
        2,
        "the one that asks, and one that waits: {waiting:#}"
    );

    let other = life.post(&path, None, &body(json!("mine-1"), "something else")).await;
    assert_eq!(
        (other.status, other.code(), &other.body["promptId"]),
        (409, Some("prompt_id_reused"), &json!("mine-1"))
    );
    for id in [json!(""), json!("ü"), json!(7), json!("x".repeat(129))] {
        let refused = life.post(&path, None, &body(id, "hello")).await;
        assert_eq!((refused.status, refused.code()), (400, Some("invalid_prompt_id")), "{refused:?}");
    }
    let minted = life.post(&path, None, &body(Value::Null, "hello")).await;
    assert_eq!(minted.status, 202);
}

#[tokio::test]
async fn d2_the_end_of_an_id_leads_to_the_page_of_its_question() {
    let life = life().await;
    let (_, asked) = life.asking().await;
    let end = |length: usize| &asked.id[asked.id.len() - length..];
    let found = life.get(&format!("/q/{}", end(8))).await;
    let page = format!("/q/{}", asked.id);
    assert_eq!((found.status, found.header("location")), (303, Some(page.as_str())), "{found:?}");
    assert_eq!(life.get(&page).await.status, 200);
    // Too short, nobody's, and the beginning of one: none of them means a question.
    for id in [end(7), "zzzzzzzz", &asked.id[..12], "%2e%2e%2fetc%2fpw"] {
        let unknown = life.get(&format!("/q/{id}")).await;
        assert_eq!(unknown.status, 404, "{id}: {unknown:?}");
        assert!(unknown.text.contains("There is no such question"), "{id}: {}", unknown.text);
    }
}

#[tokio::test]
async fn i7_looking_at_a_session_does_not_make_it_newer() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (older, asked) = life.asking().await;
    let (newer, _) = life.asking().await;
    let cwd = encoded(&life, &older).await;
    let order = async |life: &Life| {
        let list = life.get(&format!("/workspace/{cwd}/sessions")).await.body;
        let rows = list["sessions"].as_array().unwrap().iter();
        rows.map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(&life).await, [newer.id.clone(), older.id.clone()]);
    // Somebody joins, reads, sees the question; and after a restart it is asked again.
    life.join(&older).await;
    let path = format!("/questions/{}/shown", asked.id);
    let shown = json!({ "generation": asked.generation, "surface": "web" });
    assert_eq!(life.post(&path, None, &shown).await.status, 204);
    assert_eq!(order(&life).await, [newer.id.clone(), older.id.clone()]);
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    life.load(&older, Some(&older.client)).await;
    life.asked(&older, 1).await;
    assert_eq!(order(&life).await, [newer.id.clone(), older.id.clone()]);
    // An answer is news.
    assert_eq!(
        life.vote(&older, &life.asked(&older, 1).await[0].request, None, &say("Blue")).await.status,
        200
    );
    assert_eq!(order(&life).await, [older.id.clone(), newer.id.clone()]);
    life.stop().await;
}
