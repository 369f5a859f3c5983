//! Histories over the wire: the window of a load, pages, and what is left of a turn that was cut off (WIRE a.2, a.4, f).

use serde_json::{Value, json};

use crate::rig::{Life, Machine, Made};
use crate::support::{Request, Tune};
use crate::votes::got;

/// One record, that follows the one before it.
fn record(n: usize, kind: &str, more: Value) -> Value {
    let mut record = json!({
        "uuid": format!("r{n}"),
        "parentUuid": n.checked_sub(1).filter(|before| *before > 0).map(|before| format!("r{before}")),
        "sessionId": "s",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "type": kind,
        "cwd": "/",
    });
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    record
}

fn user(n: usize, text: &str) -> Value {
    record(n, "user", json!({ "message": { "role": "user", "parts": [{ "text": text }] } }))
}

fn model(n: usize, part: Value) -> Value {
    record(n, "assistant", json!({ "message": { "role": "model", "parts": [part] } }))
}

/// So many turns of two records.
fn turns(count: usize, size: usize) -> Vec<Value> {
    let text = |n: usize| format!("{n} {}", "x".repeat(size));
    (0..count)
        .flat_map(|turn| {
            let n = 2 * turn + 1;
            [user(n, &text(n)), model(n + 1, json!({ "text": text(n + 1) }))]
        })
        .collect()
}

/// A stored session with this transcript.
async fn put(life: &Life, records: &[Value]) -> Made {
    let session = life.make().await;
    let closed = life.daemon.send(Request::new("DELETE", &format!("/session/{}", session.id))).await;
    assert_eq!(closed.status, 204, "{closed:?}");
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(path(life, &session.id), text).unwrap();
    session
}

fn path(life: &Life, id: &str) -> camino::Utf8PathBuf {
    life.daemon.data_dir.join("sessions").join(format!("{id}.jsonl"))
}

/// The ids of the records that these updates are of.
fn records(updates: &[&Value]) -> Vec<String> {
    let id = |update: &&Value| update["_meta"]["qwen.session.recordId"].as_str().map(ToOwned::to_owned);
    let mut ids: Vec<_> = updates.iter().filter_map(id).collect();
    ids.dedup();
    ids
}

fn numbered(range: std::ops::RangeInclusive<usize>) -> Vec<String> {
    range.map(|n| format!("r{n}")).collect()
}

async fn load(life: &Life, session: &Made, body: Value) -> Value {
    let loaded = life.post(&format!("/session/{}/load", session.id), Some("me"), &body).await;
    assert_eq!(loaded.status, 200, "{loaded:?}");
    loaded.body
}

/// Checks a load that does not tell everything: which records it tells.
fn is_a_window(loaded: &Value, expected: &[String]) {
    let replay = loaded["compactedReplay"].as_array().unwrap();
    let notice = &replay[0];
    assert_eq!((&notice["type"], notice.get("id")), (&json!("history_truncated"), None), "{notice:#}");
    let told: Vec<_> = replay[1..].iter().map(|event| &event["data"]["update"]).collect();
    assert_eq!(records(&told), expected);
    let data = &notice["data"];
    let fields = json!({
        "reason": "replay_window_exceeded",
        "retainedEvents": told.len(),
        "maxBytes": 4 * 1024 * 1024,
        "recordId": expected[0],
        "fullTranscriptAvailable": true,
    });
    for (key, value) in fields.as_object().unwrap() {
        assert_eq!(&data[key], value, "{data:#}");
    }
    // A client of the peer drops the event if this is no whole number.
    assert!(data["truncatedEvents"].as_u64() > Some(0), "{data:#}");
    assert_eq!(
        (&loaded["historyHasMore"], &loaded["historyAnchorRecordId"]),
        (&json!(true), &json!(expected[0]))
    );
    // What is told here has the first ids of the stream.
    let ids: Vec<_> = replay[1..].iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=told.len() as u64).collect::<Vec<_>>());
    assert_eq!(loaded["lastEventId"], told.len());
}

#[tokio::test]
async fn d4_17_a_load_tells_as_much_of_the_end_as_was_asked_for() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    for (size, first) in [(10, 51), (1, 60), (59, 2)] {
        let session = put(&life, &turns(30, 10)).await;
        let loaded = load(&life, &session, json!({ "historyPageSize": size })).await;
        is_a_window(&loaded, &numbered(first..=60));
        let data = &loaded["compactedReplay"][0]["data"];
        // All records are about as long here, so the estimate is about right.
        let dropped = data["truncatedEvents"].as_u64().unwrap().abs_diff(first as u64 - 1);
        assert!(dropped <= 6, "{data:#}");
    }
    for size in [json!(60), json!(500), Value::Null] {
        let session = put(&life, &turns(30, 10)).await;
        let loaded = load(&life, &session, json!({ "historyPageSize": size })).await;
        let replay = loaded["compactedReplay"].as_array().unwrap();
        let told: Vec<_> = replay.iter().map(|event| &event["data"]["update"]).collect();
        assert_eq!(records(&told), numbered(1..=60), "{size}");
        assert!(loaded.get("historyHasMore").is_none() && loaded.get("historyAnchorRecordId").is_none());
    }
    let session = put(&life, &turns(1, 10)).await;
    for bad in [json!(0), json!(501), json!(-1), json!(1.5), json!("10"), json!([])] {
        let path = format!("/session/{}/load", session.id);
        let refused = life.post(&path, None, &json!({ "historyPageSize": bad })).await;
        assert_eq!(got(&refused), (400, "invalid_transcript_limit"), "{bad}: {refused:?}");
        assert_eq!(refused.body["maxLimit"], 500);
    }
    life.stop().await;
}

#[tokio::test]
async fn d4_17_a_long_history_is_told_from_its_tail_and_never_refused() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    // 60 records of more than 100 KiB: 4 MiB hold the last 40 of them, less what is around the texts.
    let session = put(&life, &turns(30, 104_000)).await;
    let loaded = load(&life, &session, json!({})).await;
    is_a_window(&loaded, &numbered(21..=60));
    // The rest is a page away, up to the record that the window begins with.
    let older = format!("/session/{}/transcript?beforeRecordId=r21&limit=500", session.id);
    let page = life.get(&older).await.body;
    let told: Vec<_> = page["events"].as_array().unwrap().iter().map(|event| &event["data"]).collect();
    assert_eq!((records(&told), &page["hasMore"]), (numbered(1..=20), &json!(false)));
    life.stop().await;
}

#[tokio::test]
async fn a4_a_page_before_a_record_goes_back_from_it() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = put(&life, &turns(10, 10)).await;
    let base = format!("/session/{}/transcript", session.id);
    for limit in [1, 3, 7, 20, 500] {
        let (mut before, mut found) = ("r20".to_owned(), vec!["r20".to_owned()]);
        loop {
            let page = life.get(&format!("{base}?beforeRecordId={before}&limit={limit}")).await;
            assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")), "{page:?}");
            let events = page.body["events"].as_array().unwrap();
            let told: Vec<_> = events.iter().map(|event| &event["data"]).collect();
            let ids = records(&told);
            assert!((1..=limit).contains(&ids.len()), "{limit}: {ids:?}");
            before.clone_from(&ids[0]);
            found.splice(0..0, ids);
            let more = page.body["hasMore"] == true;
            assert_eq!((page.body.get("nextCursor").is_some(), page.body["hasOlder"] == true), (more, more));
            if !more {
                break;
            }
        }
        assert_eq!(found, numbered(1..=20), "by {limit}");
    }
    // Before the first there is nothing.
    let page = life.get(&format!("{base}?beforeRecordId=r1")).await.body;
    assert_eq!((&page["events"], &page["hasMore"]), (&json!([]), &json!(false)));
    for bad in [
        "beforeRecordId=r99",
        "beforeRecordId=a%20b",
        "beforeRecordId=",
        "direction=sideways&beforeRecordId=r2",
    ] {
        let refused = life.get(&format!("{base}?{bad}")).await;
        assert_eq!(got(&refused), (400, "invalid_transcript_cursor"), "{bad}: {refused:?}");
    }
    life.stop().await;
}

async fn recovery(life: &Life, session: &Made) -> Value {
    let context = life.get(&format!("/session/{}/context", session.id)).await;
    assert_eq!(context.status, 200, "{context:?}");
    context.body["recovery"].clone()
}

#[tokio::test]
async fn f2_how_a_history_was_interrupted_and_what_continue_makes_of_it() {
    let shell = json!({
        "functionCall": { "id": "c1", "name": "run_shell_command", "args": { "command": "make" } },
    });
    // (how it ends, the records)
    let table = [
        ("clean", turns(1, 1)),
        ("interrupted_prompt", vec![user(1, "go")]),
        ("interrupted_turn", vec![user(1, "go"), model(2, shell)]),
    ];
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    for (kind, records) in table {
        let goes_on = kind != "clean";
        let session = put(&life, &records).await;
        life.load(&session, Some("me")).await;
        assert_eq!(recovery(&life, &session).await, json!({ "kind": kind, "canContinue": goes_on }));
        let mut events = life.events(&session).await;
        let response = life.post(&format!("/session/{}/continue", session.id), None, &json!({})).await;
        assert_eq!(response.status, 200, "{kind}: {response:?}");
        if !goes_on {
            assert_eq!(response.body, json!({ "accepted": false, "interruption": "none" }));
            continue;
        }
        assert_eq!(
            (&response.body["accepted"], &response.body["interruption"]),
            (&json!(true), &json!(kind)),
            "{response:?}"
        );
        assert!(response.body["lastEventId"].is_u64() && response.body["eventEpoch"].is_string());
        let end = events.wait_for("turn_complete").await;
        assert_eq!(end["data"]["promptId"], response.body["promptId"], "{kind}");
    }
    life.stop().await;
}

#[tokio::test]
async fn a2_a_history_that_cannot_be_read_is_degraded_and_not_clean() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = put(&life, &turns(1, 1)).await;
    life.load(&session, Some("me")).await;
    assert_eq!(recovery(&life, &session).await["kind"], "clean");
    let newer = record(1, "user", json!({ "holdpoint": { "v": 99 } }));
    std::fs::write(path(&life, &session.id), format!("{newer}\n")).unwrap();
    assert_eq!(recovery(&life, &session).await, json!({ "kind": "degraded_history", "canContinue": false }));
    let loaded = load(&life, &session, json!({})).await;
    assert_eq!((&loaded["partial"], &loaded["compactedReplay"]), (&json!(true), &json!([])), "{loaded:#}");
    assert!(loaded["replayError"].as_str().is_some_and(|why| why.contains("format 99")), "{loaded:#}");
    life.stop().await;
}

#[tokio::test]
async fn a2_which_sessions_a_list_is_of() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = life.make().await;
    let cwd = life.status(&session).await["workspaceCwd"].as_str().unwrap().replace('/', "%2F");
    let path = format!("/workspace/{cwd}/sessions");
    for (state, count) in
        [("", 1), ("?archiveState=active", 1), ("?archiveState=all", 1), ("?archiveState=archived", 0)]
    {
        let list = life.get(&format!("{path}{state}")).await;
        assert_eq!(list.status, 200, "{list:?}");
        assert_eq!(list.body["sessions"].as_array().unwrap().len(), count, "{state}");
    }
    for bad in ["", "Active", "deleted", "1"] {
        let refused = life.get(&format!("{path}?archiveState={bad}")).await;
        assert_eq!(got(&refused), (400, "invalid_archive_state"), "{bad:?}: {refused:?}");
    }
    life.stop().await;
}

#[tokio::test]
async fn a3_a_session_is_copied_whole_or_not_at_all() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = put(&life, &turns(2, 1)).await;
    let path = format!("/session/{}/branch", session.id);
    for record in [json!("r1"), json!("r99"), json!(7)] {
        let refused = life.post(&path, None, &json!({ "atRecordId": record })).await;
        assert_eq!(got(&refused), (409, "branch_point_invalid"), "{record}: {refused:?}");
    }
    assert_eq!(life.daemon.engine.live_sessions(), 0, "nothing was copied or woken");
    let copied = life.post(&path, None, &json!({ "atRecordId": null, "name": "mine" })).await;
    assert_eq!(copied.status, 201, "{copied:?}");
    assert_eq!(
        (&copied.body["displayName"], &copied.body["forkedFrom"]["sessionId"]),
        (&json!("mine"), &json!(session.id))
    );
    life.stop().await;
}
