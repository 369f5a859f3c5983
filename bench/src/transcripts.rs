//! Long transcripts: older records in front of what a real session wrote.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

/// Makes a transcript of `records` records out of a real, shorter one: turns are put in front of it, and its first
/// record is linked to the last of them. What it ends in stays as it was.
pub(crate) fn lengthen(path: &Path, records: usize) -> anyhow::Result<()> {
    let real = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = real.lines();
    let mut first: Value = serde_json::from_str(lines.next().context("the transcript is empty")?)?;
    if !first["parentUuid"].is_null() {
        bail!("the first record has a parent already");
    }
    let own = real.lines().count();
    let session = first["sessionId"].as_str().unwrap_or_default().to_owned();
    let common = json!({ "cwd": first["cwd"], "version": first["version"], "holdpoint": { "v": first["holdpoint"]["v"] } });
    let mut out = Vec::new();
    let mut parent = Value::Null;
    for number in 0..records.saturating_sub(own) {
        let uuid = format!("00000000-0000-4000-8000-{number:012x}");
        serde_json::to_writer(&mut out, &older(number, &uuid, &parent, &session, &common))?;
        out.push(b'\n');
        parent = json!(uuid);
    }
    first["parentUuid"] = parent;
    serde_json::to_writer(&mut out, &first)?;
    out.push(b'\n');
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    let mut file = fs::File::create(path)?;
    file.write_all(&out)?;
    // So that writing it back does not disturb what is measured next.
    file.sync_all()?;
    Ok(())
}

/// Turns of four records: a prompt, a call, its result, a reply. About 700 bytes each.
fn older(number: usize, uuid: &str, parent: &Value, session: &str, common: &Value) -> Value {
    let call = format!("call_{}", number / 4);
    let filler = "It reads a file, thinks about what it says, and goes on to the next. ".repeat(5);
    let (kind, role, part) = match number % 4 {
        0 => ("user", "user", json!({ "text": format!("Prompt {number}. {filler}") })),
        1 => (
            "assistant",
            "model",
            json!({ "functionCall": { "id": call, "name": "read_file", "args": { "path": format!("src/{number}.rs"), "why": filler } } }),
        ),
        2 => (
            "tool_result",
            "user",
            json!({ "functionResponse": { "id": call, "name": "read_file", "response": { "output": filler } } }),
        ),
        _ => ("assistant", "model", json!({ "text": format!("Done with {number}. {filler}") })),
    };
    let mut record = json!({
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": session,
        "timestamp": format!("2026-01-01T{:02}:{:02}:{:02}.000Z", number / 3600 % 24, number / 60 % 60, number % 60),
        "type": kind,
        "cwd": common["cwd"],
        "version": common["version"],
        "message": { "role": role, "parts": [part] },
    });
    if kind == "tool_result" {
        record["toolCallResult"] = json!({ "callId": call, "status": "success", "executionStatus": "success", "resultDisplay": "read" });
    }
    record["holdpoint"] = common["holdpoint"].clone();
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lengthened_transcript_is_one_chain_with_the_same_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let real = "{\"uuid\":\"a\",\"parentUuid\":null,\"sessionId\":\"s\",\"holdpoint\":{\"v\":1}}\n{\"uuid\":\"b\",\"parentUuid\":\"a\"}\n";
        fs::write(&path, real).unwrap();
        lengthen(&path, 10).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), 10);
        assert!(records.windows(2).all(|two| two[0]["uuid"] == two[1]["parentUuid"]));
        assert_eq!(text.lines().last(), real.lines().last());
    }
}
