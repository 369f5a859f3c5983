//! Things that come at the same time: loads beside loads (R19), prompts beside restores (R6), reads beside turns
//! (R22), and readers that come late (R23).

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;

use serde_json::{Value, json};

use crate::support::{Api, Asking, Rig, Session, selected, tool_results, until};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// So many sessions that wait, on a daemon that was killed and started again; each with its question.
async fn waiting(count: usize) -> (Rig, Vec<(Session, String, String)>) {
    let mut rig = Rig::started().await;
    let mut sessions = Vec::new();
    for _ in 0..count {
        let Asking { session, prompt, question, .. } = rig.asking("please ASK").await;
        sessions.push((session, question.id, prompt));
    }
    rig.restart().await;
    (rig, sessions)
}

/// The last status of the call in the response of a load.
fn shown(view: &Value) -> Option<&str> {
    let lists = [&view["compactedReplay"], &view["liveJournal"]];
    let all = lists.iter().flat_map(|list| list.as_array().unwrap());
    let mut calls =
        all.map(|event| &event["data"]["update"]).filter(|update| update["toolCallId"].is_string());
    calls.next_back().map(|update| update["status"].as_str().unwrap())
}

/// One asking of one question, in the ledger and for people.
async fn asked_once(api: &Api, session: &Session, question: &str) -> String {
    let [asked] = api.wait_asked(session).await;
    assert_eq!(asked.id, question);
    let rows = api.get(&format!("/questions?session={}", session.id)).await.expect(200);
    assert_eq!(rows["questions"].as_array().unwrap().len(), 1, "{rows:#}");
    let audit = api.get(&format!("/questions/{question}/audit")).await.expect(200);
    let asked_again = audit["entries"].as_array().unwrap().iter();
    let asked_again = asked_again.filter(|entry| entry.to_string().contains(&asked.request)).count();
    assert!(asked_again >= 1, "{audit:#}");
    asked.request
}

#[tokio::test]
async fn r19_two_loads_at_once_each_get_what_their_own_client_id_says() {
    let clients = [(false, true), (true, false), (true, true), (false, false)];
    let (rig, sessions) = waiting(clients.len() * 2 * 2).await;
    let mut sessions = sessions.into_iter();
    for verb in ["load", "resume"] {
        for (first, second) in clients {
            for live in [false, true] {
                let name = format!("{verb}, client ids {first} and {second}, live {live}");
                let (session, question, _) = sessions.next().unwrap();
                let before = std::fs::read(rig.transcript_path(&session)).unwrap();
                let nobody = rig.api();
                if live {
                    nobody.load(&session).await;
                }
                let of = |somebody| if somebody { nobody.of(&session.client) } else { nobody.clone() };
                let (path, body) = (format!("/session/{}/{verb}", session.id), json!({}));
                let (one, other) = (of(first), of(second));
                let (one, other) = tokio::join!(one.post(&path, &body), other.post(&path, &body));
                for (somebody, response) in [(first, one), (second, other)] {
                    let view = response.expect(200);
                    if somebody {
                        assert_eq!(view["hasActivePrompt"], true, "{name}: {view:#}");
                    }
                    if somebody && verb == "load" {
                        assert_eq!(shown(&view), Some("in_progress"), "{name}: {view:#}");
                    }
                    if !first && !second && verb == "load" {
                        assert_eq!(shown(&view), Some("failed"), "{name}: {view:#}");
                    }
                }
                let api = nobody.of(&session.client);
                if first || second {
                    asked_once(&api, &session, &question).await;
                } else {
                    assert_eq!(api.asked(&session).await.len(), 0, "{name}");
                    let row = api.question(&question).await;
                    assert_eq!((&row["state"], &row["restorable"]), (&json!("open"), &json!(true)), "{name}");
                }
                assert_eq!(std::fs::read(rig.transcript_path(&session)).unwrap(), before, "{name}");
            }
        }
    }
    assert!(sessions.next().is_none());
}

/// The daemon died before it stored the question: only the file knows it. Each of two loads shows it as waiting.
#[tokio::test]
async fn r4_r19_two_loads_of_a_question_that_only_the_transcript_knows() {
    let rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please ASK").await;
    api.wait_asked::<1>(&session).await;
    // A transcript that was put there under another name.
    for at in 0..8 {
        let copy = Session { id: format!("00000000-0000-4000-8000-{at:012}"), client: "anyone".to_owned() };
        let text = std::fs::read_to_string(rig.transcript_path(&session)).unwrap();
        std::fs::write(rig.transcript_path(&copy), text.replace(&session.id, &copy.id)).unwrap();
        let (path, body) = (format!("/session/{}/load", copy.id), json!({}));
        let (one, other) = (rig.api().of("one"), rig.api().of("another"));
        let (first, second) = tokio::join!(one.post(&path, &body), other.post(&path, &body));
        for view in [first.expect(200), second.expect(200)] {
            assert_eq!(shown(&view), Some("in_progress"), "{view:#}");
            assert_eq!(view["hasActivePrompt"], true, "{view:#}");
        }
        let [asked] = rig.api().wait_asked(&copy).await;
        asked_once(&rig.api(), &copy, &asked.id).await;
    }
}

#[tokio::test]
async fn r19_a_load_beside_a_resume_goes_with_it_or_is_told_to_come_again() {
    let (rig, sessions) = waiting(4).await;
    for (session, question, _) in sessions {
        let api = rig.api().of(&session.client);
        let (load, resume) =
            (format!("/session/{}/load", session.id), format!("/session/{}/resume", session.id));
        let body = json!({});
        let (load, resume) = tokio::join!(api.post(&load, &body), api.post(&resume, &body));
        let mut done = 0;
        for response in [load, resume] {
            match response.status {
                200 => done += 1,
                409 => {
                    assert_eq!(response.code(), "restore_in_progress");
                    assert!(response.head.get("retry-after").is_some());
                }
                other => panic!("{other}: {:#}", response.json()),
            }
        }
        assert!(done >= 1);
        asked_once(&api, &session, &question).await;
    }
}

/// How an ordinary prompt and a restore meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The load is answered, then the prompt is sent.
    RestoreFirst,
    /// Both at once, on a session that is not live.
    Together,
    /// Both at once, on a session that is live and asks nothing.
    TogetherLive,
    /// The prompt runs on a session that is live and asks nothing, then comes the load.
    PromptFirst,
}

#[tokio::test]
async fn r6_e5_r2_a_prompt_and_a_restore_in_every_order_are_one_after_the_other() {
    let orders = [Order::RestoreFirst, Order::Together, Order::TogetherLive, Order::PromptFirst];
    let rounds = 3;
    let (rig, sessions) = waiting(orders.len() * 2 * rounds).await;
    let mut sessions = sessions.into_iter();
    for _ in 0..rounds {
        for verb in ["load", "resume"] {
            for order in orders {
                let (session, question, first) = sessions.next().unwrap();
                meet(&rig, verb, order, &session, &question, &first).await;
            }
        }
    }
    rig.story(&Session { id: String::new(), client: String::new() });
}

async fn meet(rig: &Rig, verb: &str, order: Order, session: &Session, question: &str, first: &str) {
    let name = format!("{verb} {order:?}");
    let api = rig.api().of(&session.client);
    let (path, body) = (format!("/session/{}/{verb}", session.id), json!({}));
    let prompt_path = format!("/session/{}/prompt", session.id);
    let text = json!({ "prompt": [{ "type": "text", "text": format!("{name} {}", session.id) }] });
    if matches!(order, Order::TogetherLive | Order::PromptFirst) {
        rig.api().load(session).await;
    }
    let prompt = match order {
        Order::RestoreFirst => {
            let view = api.post(&path, &body).await.expect(200);
            assert_eq!(view["hasActivePrompt"], true, "{name}");
            api.post(&prompt_path, &text).await.expect(202)
        }
        Order::Together | Order::TogetherLive => {
            let (load, prompt) = tokio::join!(api.post(&path, &body), api.post(&prompt_path, &text));
            load.expect(200);
            // Sent before there was a session to take it.
            if prompt.status == 404 {
                api.post(&prompt_path, &text).await.expect(202)
            } else {
                prompt.expect(202)
            }
        }
        Order::PromptFirst => {
            let hang =
                json!({ "prompt": [{ "type": "text", "text": format!("{name} {} HANG", session.id) }] });
            let calls = rig.model.calls();
            let prompt = api.post(&prompt_path, &hang).await.expect(202);
            rig.model.called(calls + 1).await;
            let view = api.post(&path, &body).await.expect(200);
            assert_eq!(view["hasActivePrompt"], true, "{name}: the prompt's turn runs");
            assert_eq!(api.asked(session).await.len(), 0, "{name}: E5");
            api.post(&format!("/session/{}/cancel", session.id), &json!({})).await.expect(204);
            prompt
        }
    };
    let prompt = prompt["promptId"].as_str().unwrap();
    let mut events = api.events_from(session, 0, None).await;
    // Whichever of the two came first, it is one of two stories and never something between.
    let restored = until("one of the two has begun", async || {
        let row = api.question(question).await;
        match (row["state"].as_str().unwrap(), row["live"] == true) {
            ("open", true) => Some(true),
            ("closed", _) => Some(false),
            _ => None,
        }
    })
    .await;
    match order {
        Order::RestoreFirst | Order::Together => assert!(restored, "{name}: the restore goes first"),
        Order::PromptFirst => assert!(!restored, "{name}"),
        Order::TogetherLive => {}
    }
    if restored {
        let request = asked_once(&api, session, question).await;
        let queue = api.get(&format!("/session/{}/pending-prompts", session.id)).await.expect(200);
        assert!(queue.to_string().contains(prompt), "{name}: it waits: {queue:#}");
        api.vote(session, &request, &selected(BLUE)).await.expect(200);
        events.turn_end(first).await;
    }
    events.turn_end(prompt).await;
    let results = tool_results(&rig.transcript(session));
    assert_eq!(results.len(), 1, "{name}: one result for one call: {results:#?}");
    let row = api.question(question).await;
    if restored {
        assert_eq!(row["state"], "answered", "{name}: {row:#}");
        assert!(results[0].2.contains("Blue1"), "{name}: {results:#?}");
    } else {
        assert_eq!(row["outcome"]["cause"], "orphan_repair", "{name}: {row:#}");
        assert!(results[0].2.starts_with("Not answered"), "{name}: {results:#?}");
        assert!(!events.saw("permission_request"), "{name}: asked, and answered by nobody");
    }
    // The call has its result before the prompt's own words, on disk as for the model (R3).
    let kinds: Vec<_> = rig.transcript(session).iter().map(|record| record["type"].clone()).collect();
    let result = kinds.iter().position(|kind| kind == "tool_result").unwrap();
    let last_user = kinds.iter().rposition(|kind| kind == "user").unwrap();
    assert!(result < last_user, "{name}: {kinds:?}");
}

#[tokio::test]
async fn r23_a_reader_that_comes_late_is_told_first_what_waits() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let mut api = rig.api().of(&session.client);
    api.prompt(&session, "please ASK_TWO").await;
    for restored in [false, true] {
        if restored {
            api = rig.restart().await.of(&session.client);
            api.resume(&session).await;
        }
        let asked = api.wait_asked::<2>(&session).await;
        let mut late = api.events(&session).await;
        for question in &asked {
            let told = late.next().await.unwrap();
            assert_eq!(told["type"], "permission_request", "{told:#}");
            assert_eq!(told["data"]["requestId"], question.request.as_str(), "{told:#}");
            assert_eq!(told["data"]["questionId"], question.id.as_str(), "{told:#}");
            assert_eq!(told["_meta"]["replayed"], true, "{told:#}");
            assert!(told.get("id").is_none(), "it moves no cursor: {told:#}");
        }
        // One that has a cursor finds them at their place, once.
        let mut whole = api.events_from(&session, 0, None).await;
        let end = whole.wait_for("replay_complete").await;
        assert!(end.get("id").is_none());
        let told: Vec<_> = whole.seen.iter().filter(|event| event["type"] == "permission_request").collect();
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(told.iter().all(|event| event["id"].is_u64() && event["_meta"]["replayed"].is_null()));
    }
    let [first, second] = api.wait_asked(&session).await;
    api.vote(&session, &first.request, &selected(BLUE)).await.expect(200);
    let mut later = api.events(&session).await;
    let told = later.next().await.unwrap();
    assert_eq!(told["data"]["requestId"], second.request.as_str(), "only what still waits: {told:#}");
    api.vote(&session, &second.request, &selected(&[("0", "Red2")])).await.expect(200);
    later.wait_for("turn_complete").await;
    let told = later.seen.iter().filter(|event| event["type"] == "permission_request");
    assert_eq!(told.count(), 1);
}

/// Opens the writing end of a pipe if somebody reads it. As long as it is held, the reader waits for it.
fn hold(pipe: &std::path::Path) -> Option<File> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    std::fs::OpenOptions::new().write(true).custom_flags(nonblock).open(pipe).ok()
}

/// A transcript that takes for ever to read, read by more than the daemon has threads for its sessions, holds nobody
/// up: reading is done elsewhere.
#[tokio::test]
async fn r22_a_transcript_that_takes_long_to_read_holds_no_other_session_up() {
    let rig = Rig::started().await;
    let (live, stored) = (rig.api().create("yolo").await, rig.api().create("yolo").await);
    let api = rig.api().of(&stored.client);
    let prompt = api.prompt(&stored, "please ASK").await;
    api.wait_asked::<1>(&stored).await;
    api.delete(&format!("/session/{}", stored.id)).await.expect(204);

    let slow = Session { id: "00000000-0000-4000-8000-000000000000".to_owned(), client: "anyone".to_owned() };
    let pipe = rig.transcript_path(&slow);
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reads: Vec<_> = (0..8)
        .map(|n| {
            let api = rig.api();
            let path = format!("/session/{}/transcript?limit={}", slow.id, n + 1);
            tokio::spawn(async move { api.get(&path).await })
        })
        .collect();
    let writer = until("the transcript is being read", async || hold(&pipe)).await;
    let load = {
        let (api, path) = (rig.api().of("anyone"), format!("/session/{}/load", slow.id));
        tokio::spawn(async move { api.post(&path, &json!({})).await })
    };

    // A turn, a load, an answer and a page of other sessions, meanwhile.
    let api = rig.api().of(&live.client);
    let mut events = api.events(&live).await;
    let first = api.prompt(&live, "hello").await;
    events.turn_end(&first).await;
    let api = rig.api().of(&stored.client);
    let mut events = api.load_and_follow(&stored).await;
    let [question] = api.wait_asked(&stored).await;
    api.vote(&stored, &question.request, &selected(BLUE)).await.expect(200);
    let end = events.wait_for("turn_complete").await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#} after {prompt}");
    api.get(&format!("/session/{}/transcript", stored.id)).await.expect(200);
    assert!(reads.iter().all(|read| !read.is_finished()), "they were read all the while");
    assert!(!load.is_finished());

    drop(writer);
    load.abort();
    until("the reads end", async || {
        drop(hold(&pipe));
        reads.iter().all(|read| read.is_finished()).then_some(())
    })
    .await;
    for read in reads {
        assert!(matches!(read.await.unwrap().status, 200 | 500));
    }
}

#[tokio::test]
async fn a2_a_session_that_another_process_writes_is_a_conflict_till_that_one_is_gone() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    rig.api().of(&session.client).prompt(&session, "please ASK").await;
    let [question] = rig.api().of(&session.client).wait_asked(&session).await;
    rig.kill().await;
    // The other process is this one: it has the lock once the agent that died has left it.
    let file = File::options().read(true).write(true).open(rig.transcript_path(&session)).unwrap();
    until("the lock is free", async || file.try_lock().ok()).await;
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();

    let api = rig.start().await.of(&session.client);
    for action in ["load", "resume"] {
        let refused = api.post(&format!("/session/{}/{action}", session.id), &json!({})).await.expect(409);
        assert_eq!(refused["code"], "session_writer_conflict", "{action}: {refused:#}");
    }
    assert_eq!(std::fs::read(rig.transcript_path(&session)).unwrap(), before, "nothing is written");
    assert_eq!(api.inbox().await[0]["questionId"], question.id.as_str());
    drop(file);
    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.wait_for("turn_complete").await;
}
