//! Reads never write (I7), and keys that only the daemon may set come from nobody else (R6).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Rig, same, selected, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// Every file of the data directory. SQLite's index of its log is memory that happens to have a name.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.append(&mut files(&path));
        } else if !path.to_string_lossy().ends_with("-shm") {
            let bytes = std::fs::read(&path).unwrap();
            all.insert(path, bytes);
        }
    }
    all
}

#[tokio::test]
async fn i7_i8_reads_change_nothing_and_see_what_waits() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    rig.api().of(&session.client).prompt(&session, "please ASK").await;
    let [question] = rig.api().of(&session.client).wait_asked(&session).await;
    let api = rig.restart().await;
    let before = files(&rig.data_dir);
    let cwd = rig.work().canonicalize().unwrap().to_string_lossy().replace('/', "%2F");
    let (id, q) = (&session.id, &question.id);
    for (path, status) in [
        ("/health".to_owned(), 200),
        ("/health?deep=1".to_owned(), 200),
        ("/capabilities".to_owned(), 200),
        ("/daemon/status".to_owned(), 200),
        ("/daemon/status?detail=full".to_owned(), 200),
        ("/metrics".to_owned(), 200),
        ("/questions".to_owned(), 200),
        ("/questions?state=all&limit=10".to_owned(), 200),
        (format!("/questions/{q}"), 200),
        (format!("/workspace/{cwd}/sessions"), 200),
        (format!("/session/{id}/transcript"), 200),
        (format!("/session/{id}/transcript?direction=backward&limit=1"), 200),
        (format!("/session/{id}/status"), 404),
        (format!("/session/{id}/context"), 404),
        (format!("/session/{id}/events"), 404),
        (format!("/session/{id}/pending-prompts"), 404),
    ] {
        let got = api.get(&path).await;
        assert_eq!(got.status, status, "{path}: {}", String::from_utf8_lossy(&got.body));
        let head = api.try_send("HEAD", &path, None).await;
        assert!(head.is_err() || head.unwrap().status < 500, "HEAD {path}");
    }
    let rows = api.get(&format!("/workspace/{cwd}/sessions")).await.expect(200);
    let row =
        rows["sessions"].as_array().unwrap().iter().find(|row| row["sessionId"] == id.as_str()).unwrap();
    assert_eq!(row["isWaitingForUserQuestion"], true, "a stored session shows that it waits: {row:#}");
    assert_eq!(row["pendingInteractionCount"], 1, "{row:#}");
    assert_eq!(row["pendingInteractions"][0]["questionId"], q.as_str(), "{row:#}");
    assert_eq!(files(&rig.data_dir).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(files(&rig.data_dir) == before, "a read changed a file");
    assert_eq!(rig.daemon().children().len(), 0, "R12, I9: and no agent runs for it");
    assert_eq!(rig.model.calls(), 1);
}

#[tokio::test]
async fn r6_reserved_keys_of_a_client_do_nothing() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let meta = json!({ "qwen.daemon.restoreAskUserQuestion": true, "holdpoint.continue": true });
    let body = json!({ "prompt": [{ "type": "text", "text": "plain", "_meta": meta }], "_meta": meta });
    let view = api.post(&format!("/session/{}/prompt", session.id), &body).await.expect(202);
    let end = events.turn_end(view["promptId"].as_str().unwrap()).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    assert_eq!(rig.story(&session).history[0]["content"], "plain", "an ordinary prompt");

    let prompt = api.prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;
    let api = rig.restart().await.of(&session.client);
    let suppress = json!({ "_meta": { "qwen.daemon.suppressRestoreAskUserQuestion": true } });
    let view = api.post(&format!("/session/{}/load", session.id), &suppress).await.expect(200);
    assert!(
        !view.to_string().contains("qwen.daemon."),
        "R5: the hint stays between daemon and agent: {view:#}"
    );
    let mut events =
        api.events_from(&session, view["lastEventId"].as_u64().unwrap(), view["eventEpoch"].as_str()).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
}

#[tokio::test]
async fn b4_a_reader_that_comes_back_is_told_what_it_missed_or_that_it_must_look_anew() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events_from(&session, 0, None).await;
    let prompt = api.prompt(&session, "please ASK").await;
    let asked = events.wait_for("permission_request").await;
    let (id, epoch) =
        (asked["id"].as_u64().unwrap(), events.head.get("x-qwen-event-epoch").unwrap().to_owned());
    let mut again = api.events_from(&session, id - 1, Some(&epoch)).await;
    assert_eq!(again.next().await.unwrap()["id"], id);
    assert_eq!(again.wait_for("replay_complete").await["data"]["replayedCount"], 1);

    let api = rig.restart().await.of(&session.client);
    assert_eq!(api.get(&format!("/session/{}/events", session.id)).await.status, 404, "nothing woke it");
    api.resume(&session).await;
    let mut events = api.events_from(&session, id, Some(&epoch)).await;
    let first = events.next().await.unwrap();
    assert_eq!(
        (&first["type"], &first["data"]["reason"]),
        (&json!("state_resync_required"), &json!("epoch_reset"))
    );
    let asked = events.wait_for("permission_request").await;
    api.vote(&session, asked["data"]["requestId"].as_str().unwrap(), &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}
