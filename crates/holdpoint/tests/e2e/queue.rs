//! The follow-up queue (D5): prompts that are accepted while a turn runs or waits are durable, go out in order and
//! each exactly once, however often the daemon dies.

use serde_json::{Value, json};

use crate::support::{Asking, Rig, Session, answers};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

fn prompts(session: &Session) -> String {
    format!("/session/{}/prompt", session.id)
}

fn body(text: &str) -> Value {
    json!({ "prompt": [{ "type": "text", "text": text }] })
}

/// What people said in the session's file, in order.
fn said(rig: &Rig, session: &Session) -> Vec<String> {
    let transcript = rig.transcript(session);
    let of_people =
        transcript.iter().filter(|record| record["type"] == "user" && record["subtype"].is_null());
    of_people.filter_map(|record| record["message"]["parts"][0]["text"].as_str().map(str::to_owned)).collect()
}

async fn queue(api: &crate::support::Api, session: &Session) -> Vec<(String, String)> {
    let view = api.get(&format!("/session/{}/pending-prompts", session.id)).await.expect(200);
    let list = view["pendingPrompts"].as_array().unwrap();
    list.iter()
        .map(|prompt| {
            let text = |key: &str| prompt[key].as_str().unwrap_or_default().to_owned();
            (text("text"), text("state"))
        })
        .collect()
}

#[tokio::test]
async fn d5_a_queue_goes_out_once_and_in_order_over_three_kills() {
    let mut rig = Rig::started().await;
    let Asking { session, api, question, .. } = rig.asking("please ASK").await;
    let mut ids = Vec::new();
    for text in ["one", "two", "three", "four"] {
        ids.push(api.prompt(&session, text).await);
    }

    // The queue is there after a kill, in its order, and one can be taken back.
    let api = rig.restart().await.of(&session.client);
    api.load(&session).await;
    api.wait_asked::<1>(&session).await;
    let waiting = |texts: &[&str]| -> Vec<(String, String)> {
        texts.iter().map(|text| ((*text).to_owned(), "queued".to_owned())).collect()
    };
    let found: Vec<_> =
        queue(&api, &session).await.into_iter().filter(|(_, state)| state == "queued").collect();
    assert_eq!(found, waiting(&["one", "two", "three", "four"]));
    let path = format!("/session/{}/pending-prompts/{}", session.id, ids[2]);
    assert_eq!(api.delete(&path).await.expect(200), json!({ "removed": true }));
    assert_eq!(api.delete(&path).await.expect(200), json!({ "removed": false }));

    // What was taken back stays so over the second kill; the answer comes by the question's durable identity.
    let api = rig.restart().await.of(&session.client);
    api.answer(&question.id, &answers(&question, BLUE, "r")).await.expect(200);
    api.load(&session).await;
    crate::support::until("the first that waited is begun", async || {
        said(&rig, &session).contains(&"one".to_owned()).then_some(())
    })
    .await;
    // The third kill comes somewhere in the turns that follow.
    let api = rig.restart().await.of(&session.client);
    api.load(&session).await;
    crate::support::until("the last prompt is begun", async || {
        said(&rig, &session).contains(&"four".to_owned()).then_some(())
    })
    .await;
    api.wait_idle(&session).await;
    assert_eq!(said(&rig, &session), ["please ASK", "one", "two", "four"]);
    assert_eq!(queue(&api, &session).await, []);
    let history = rig.story(&session).history;
    let heard: Vec<_> =
        history.iter().filter(|m| m["role"] == "user").filter_map(|m| m["content"].as_str()).collect();
    // A prompt whose turn the kill ended before the model spoke stands beside the next one.
    assert_eq!(heard.join("\n\n"), "please ASK\n\none\n\ntwo\n\nfour", "what the model read");
}

#[tokio::test]
async fn d5_a_prompt_that_is_sent_again_after_a_kill_is_one_turn() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let named = |id: &str, text: &str| {
        let mut body = body(text);
        body["promptId"] = json!(id);
        body
    };
    let (running, waiting) = (named("own-1", "please ASK"), named("own-2", "one"));
    for prompt in [&running, &waiting] {
        let accepted = api.post(&prompts(&session), prompt).await.expect(202);
        assert_eq!(accepted.get("repeated"), None, "{accepted:#}");
    }
    let [question] = api.wait_asked(&session).await;

    // Accepted, and the answer is lost with the daemon: the sender cannot know, and sends it again.
    let api = rig.restart().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    for (prompt, state) in [(&running, "running"), (&waiting, "queued")] {
        let again = api.post(&prompts(&session), prompt).await.expect(202);
        assert_eq!(
            (&again["promptId"], &again["repeated"]),
            (&prompt["promptId"], &json!(true)),
            "{again:#}"
        );
        assert_eq!(again["state"], state, "{again:#}");
    }
    let other = api.post(&prompts(&session), &named("own-2", "two")).await;
    assert_eq!((other.status, other.code().as_str()), (409, "prompt_id_reused"));
    api.answer(&question.id, &answers(&question, BLUE, "r")).await.expect(200);
    events.turn_end("own-1").await;
    events.turn_end("own-2").await;

    // What has ended is known by its id too, over another restart.
    let api = rig.restart().await.of(&session.client);
    api.load(&session).await;
    let again = api.post(&prompts(&session), &waiting).await.expect(202);
    assert_eq!((&again["repeated"], &again["state"]), (&json!(true), &json!("ended")), "{again:#}");
    api.wait_idle(&session).await;
    assert_eq!(said(&rig, &session), ["please ASK", "one"]);
}

#[tokio::test]
async fn d5_a_full_queue_refuses_and_says_how_full_it_is_after_a_kill_too() {
    let mut rig = Rig::new().await;
    rig.args = vec!["--max-pending-prompts-per-session".to_owned(), "3".to_owned()];
    rig.start().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please ASK").await;
    api.wait_asked::<1>(&session).await;
    let first = api.prompt(&session, "one").await;
    api.prompt(&session, "two").await;
    let full = |refused: &crate::support::Response| {
        assert_eq!((refused.status, refused.code().as_str()), (503, "prompt_queue_full"));
        let view = refused.json();
        assert_eq!((&view["limit"], &view["pendingCount"]), (&json!(3), &json!(3)), "{view:#}");
        assert_eq!(view["sessionId"], session.id, "{view:#}");
        assert_eq!(refused.head.get("retry-after"), Some("5"));
    };
    full(&api.post(&prompts(&session), &body("three")).await);

    let api = rig.restart().await.of(&session.client);
    api.load(&session).await;
    api.wait_asked::<1>(&session).await;
    full(&api.post(&prompts(&session), &body("three")).await);
    let path = format!("/session/{}/pending-prompts/{first}", session.id);
    assert_eq!(api.delete(&path).await.expect(200), json!({ "removed": true }));
    api.post(&prompts(&session), &body("three")).await.expect(202);
    // The caps of one prompt (WIRE a.3).
    let empty = api.post(&prompts(&session), &json!({ "prompt": [] })).await;
    assert_eq!((empty.status, empty.code().as_str()), (400, ""));
    let mut body = body("x");
    body["deadlineMs"] = json!(0);
    let late = api.post(&prompts(&session), &body).await;
    assert_eq!((late.status, late.code().as_str()), (400, "invalid_deadline_ms"), "{:#}", late.json());
    let much: Vec<_> =
        (0..257).map(|_| json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" })).collect();
    let much = api.post(&prompts(&session), &json!({ "prompt": much })).await;
    assert_eq!(much.status, 400, "{:#}", much.json());
}
