//! What is compared: the transcript, and the history that the model was sent.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

/// A finished job: what is on disk of it, and what the model read. Two of the same script are equal, whatever
/// happened in between (I10).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Story {
    pub(crate) transcript: Vec<Value>,
    /// What the model was sent last.
    pub(crate) history: Vec<Value>,
}

/// Compares a job with the same one undisturbed, and shows the first difference (I10).
#[track_caller]
pub(crate) fn same(story: &Story, reference: &Story) {
    let parts = [
        ("transcript", &story.transcript, &reference.transcript),
        ("history", &story.history, &reference.history),
    ];
    for (name, got, wanted) in parts {
        for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
            assert_eq!(got, wanted, "I10: entry {i} of the {name}\ngot {got:#}\nwanted {wanted:#}");
        }
        let rest: Vec<_> = got.iter().skip(wanted.len()).chain(wanted.iter().skip(got.len())).collect();
        assert!(rest.is_empty(), "I10: {} entries of the {name}, not {}: {rest:#?}", got.len(), wanted.len());
    }
}

/// Reads a transcript without what differs between two runs: times, and ids by their order.
pub(crate) fn transcript(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is torn");
    let mut names = BTreeMap::new();
    let mut name = move |id: &Value| match id.as_str() {
        Some(id) => {
            let next = names.len();
            json!(format!("#{}", *names.entry(id.to_owned()).or_insert(next)))
        }
        None => Value::Null,
    };
    let mut records = Vec::new();
    for line in text.lines() {
        let record: Map<String, Value> = serde_json::from_str(line).unwrap();
        let mut kept = Map::new();
        for (key, value) in record {
            let value = match key.as_str() {
                "timestamp" | "sessionId" | "cwd" | "gitBranch" => continue,
                "uuid" | "parentUuid" | "daemonPromptId" => name(&value),
                "systemPayload" => {
                    let mut payload = value;
                    // A restored turn's end repeats no prompt: the peer's has none either.
                    for key in ["startedAt", "endedAt", "cancelledAt", "promptText"] {
                        payload.as_object_mut().unwrap().remove(key);
                    }
                    if payload.get("promptId").is_some() {
                        payload["promptId"] = name(&payload["promptId"].clone());
                    }
                    payload
                }
                _ => value,
            };
            kept.insert(key, value);
        }
        records.push(Value::Object(kept));
    }
    records
}

/// The results in a transcript: call id, status, and what the model reads.
pub(crate) fn tool_results(transcript: &[Value]) -> Vec<(String, String, String)> {
    let results = transcript.iter().filter(|record| record["type"] == "tool_result");
    results
        .flat_map(|record| {
            let status = record["toolCallResult"]["status"].as_str().unwrap_or_default().to_owned();
            let parts = record["message"]["parts"].as_array().cloned().unwrap_or_default();
            parts.into_iter().map(move |part| {
                let response = &part["functionResponse"];
                let text = response["response"]["output"].as_str().or(response["response"]["error"].as_str());
                let text = text.unwrap_or_default().to_owned();
                (response["id"].as_str().unwrap_or_default().to_owned(), status.clone(), text)
            })
        })
        .collect()
}

/// A history that every provider accepts: each call is followed by its results, in order, before anything else;
/// no result without its call.
#[track_caller]
pub(crate) fn well_formed(history: &[Value]) {
    let mut owed: Vec<&str> = Vec::new();
    for message in history {
        if message["role"] == "tool" {
            assert!(!owed.is_empty(), "a result that nobody waits for: {message:#}\nin {history:#?}");
            assert_eq!(message["tool_call_id"], owed.remove(0), "results out of order: {history:#?}");
            continue;
        }
        assert!(owed.is_empty(), "calls {owed:?} dangle before {message:#}\nin {history:#?}");
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        owed = calls.map(|call| call["id"].as_str().unwrap()).collect();
    }
    assert!(owed.is_empty(), "calls {owed:?} dangle at the end of {history:#?}");
}
