//! A restore reads the end of a transcript, however long the rest is (E8): counted in bytes.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Acp, Rig, Session};

/// Puts so many turns before those of a transcript.
fn lengthen(path: &Path, turns: usize) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pattern = |kind: &str| records.iter().find(|record| record["type"] == kind).unwrap().clone();
    let patterns = [(pattern("user"), "user"), (pattern("assistant"), "model")];
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut parent = Value::Null;
    for turn in 0..turns {
        for (at, (pattern, role)) in patterns.iter().enumerate() {
            let mut record = pattern.clone();
            record["uuid"] = json!(format!("{turn:08x}-0000-4000-8000-{at:012x}"));
            record["parentUuid"] = parent;
            record["message"] =
                json!({ "role": role, "parts": [{ "text": format!("{turn} {}", "x".repeat(300)) }] });
            parent = record["uuid"].clone();
            writeln!(file, "{record}").unwrap();
        }
    }
    if turns > 0 {
        records[0]["parentUuid"] = parent;
    }
    for record in records {
        writeln!(file, "{record}").unwrap();
    }
    file.flush().unwrap();
}

/// How many bytes an agent reads to find out that a session can be restored.
async fn read_by_a_resume(rig: &Rig, session: &Session) -> u64 {
    let mut command = rig.command();
    command.args(["acp", "--restore-ask-user-question"]);
    let mut acp = Acp::start(command).await;
    let before = acp.bytes_read();
    let params = json!({ "sessionId": session.id, "cwd": rig.work(), "mcpServers": [], "_meta": {} });
    let resumed = acp.call("session/resume", params).await.unwrap();
    let read = acp.bytes_read() - before;
    assert_eq!(resumed["_meta"]["qwen.daemon.restoreAskUserQuestion"], true, "R5: {resumed:#}");
    acp.end().await;
    read
}

#[tokio::test]
async fn e8_a_restore_of_a_long_transcript_reads_no_more_of_it_than_of_a_short_one() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    api.prompt(&session, "please ASK").await;
    api.wait_asked::<1>(&session).await;
    rig.kill_all().await;
    let path = rig.transcript_path(&session);
    let asked = std::fs::read(&path).unwrap();

    let mut read = Vec::new();
    for turns in [400, 12_000] {
        std::fs::write(&path, &asked).unwrap();
        lengthen(&path, turns);
        read.push((std::fs::metadata(&path).unwrap().len(), read_by_a_resume(&rig, &session).await));
    }
    let (short, long) = (read[0], read[1]);
    assert!(long.0 > 25 * short.0 && short.0 > 256 * 1024, "the files are of different size: {read:?}");
    // A little more or less: where blocks begin is a matter of luck.
    assert!(long.1 < short.1 + 64 * 1024, "(size, bytes read): {read:?}");
    assert!(long.1 < long.0 / 20, "(size, bytes read): {read:?}");
}
