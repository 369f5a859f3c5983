//! A transcript of a newer version: refused with a code and words of its own, and left as it is.

use serde_json::json;

use crate::rig::Machine;
use crate::support::Tune;
use crate::votes::got;

#[tokio::test]
async fn a_transcript_of_a_newer_version_is_a_conflict_and_stays_as_it_is() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let id = uuid::Uuid::new_v4().to_string();
    let record = json!({
        "uuid": "r1", "parentUuid": null, "sessionId": id, "timestamp": "2026-01-01T00:00:00.000Z", "type": "user",
        "cwd": "/", "version": "9", "message": { "role": "user", "parts": [{ "text": "hello" }] },
        "holdpoint": { "v": 99 },
    });
    let path = life.daemon.data_dir.join("sessions").join(format!("{id}.jsonl"));
    let text = format!("{record}\n");
    std::fs::write(&path, &text).unwrap();
    let requests = [
        life.post(&format!("/session/{id}/load"), Some("me"), &json!({})).await,
        life.post(&format!("/session/{id}/resume"), None, &json!({})).await,
        life.get(&format!("/session/{id}/transcript")).await,
        life.post(&format!("/session/{id}/branch"), None, &json!({})).await,
    ];
    for response in &requests {
        assert_eq!(got(response), (409, "transcript_format_newer"), "{response:?}");
        let words = response.body["error"].as_str().unwrap();
        assert!(words.contains("format 99") && words.contains("use a newer holdpoint"), "{words}");
    }
    let taken = life.post("/session", None, &json!({ "sessionId": id })).await;
    assert_eq!(got(&taken), (409, "session_id_conflict"), "{taken:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    life.stop().await;
}
