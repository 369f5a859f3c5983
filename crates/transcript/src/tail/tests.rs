//! Tests of reading the end of a transcript.

use std::cell::Cell;
use std::io::{Cursor, Result as IoResult, SeekFrom};
use std::rc::Rc;

use holdpoint_model::restore::{Restore, assess};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::history;

/// Counts what is read.
struct Counting<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        let read = self.inner.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counting<R> {
    fn seek(&mut self, to: SeekFrom) -> IoResult<u64> {
        self.inner.seek(to)
    }
}

fn line(uuid: &str, parent: Value, kind: &str, message: Value) -> String {
    format!("{}\n", json!({"uuid": uuid, "parentUuid": parent, "type": kind, "message": message}))
}

#[test]
fn e8_the_scan_reads_as_much_of_a_long_file_as_of_a_short_one() {
    let mut costs = Vec::new();
    for records in [200, 20_000] {
        let mut file = String::new();
        let mut parent = Value::Null;
        for i in 0..records {
            let kind = if i % 2 == 0 { "user" } else { "assistant" };
            let text = "x".repeat(500);
            file += &line(&format!("r{i}"), parent, kind, json!({"role": kind, "parts": [{"text": text}]}));
            parent = json!(format!("r{i}"));
        }
        let question = json!({"questions": [{"question": "?", "header": "h", "options": [
            {"label": "a", "description": "a"}, {"label": "b", "description": "b"}]}]});
        let call = json!({"functionCall": {"id": "c", "name": TOOL_NAME, "args": question}});
        file += &line("q", parent, "assistant", json!({"role": "model", "parts": [call]}));
        let read = Rc::new(Cell::new(0));
        let scan = scan_reader(Counting { inner: Cursor::new(file), read: read.clone() }).unwrap();
        assert!(matches!(assess(&scan.tail), Ok(Restore::Ask { .. })));
        costs.push(read.get());
    }
    assert_eq!(costs[0], costs[1]);
}

/// One line of a random file.
#[derive(Clone, Debug)]
struct Step {
    /// How far back the parent stands; beyond the start there is none.
    back: usize,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    User,
    Notice,
    Calls(Vec<(u8, bool)>),
    Result(u8),
    TurnResult { parked: bool },
    Telemetry,
    Rubbish,
    Compression { model: bool },
}

fn any_step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        2 => Just(What::User),
        1 => Just(What::Notice),
        4 => proptest::collection::vec((0u8..4, any::<bool>()), 0..3).prop_map(What::Calls),
        4 => (0u8..4).prop_map(What::Result),
        1 => any::<bool>().prop_map(|parked| What::TurnResult { parked }),
        1 => Just(What::Telemetry),
        1 => Just(What::Rubbish),
        1 => any::<bool>().prop_map(|model| What::Compression { model }),
    ];
    (prop_oneof![6 => Just(1usize), 2 => 2usize..6, 1 => Just(99)], what)
        .prop_map(|(back, what)| Step { back, what })
}

fn write_file(steps: &[Step]) -> String {
    let mut file = String::new();
    for (i, step) in steps.iter().enumerate() {
        let parent = i.checked_sub(step.back).map_or_else(
            || if step.back == 99 { json!("of another file") } else { Value::Null },
            |at| json!(format!("r{at}")),
        );
        let uuid = format!("r{i}");
        let name = |question: bool| if question { TOOL_NAME } else { "glob" };
        let mut value = json!({"uuid": uuid, "parentUuid": parent});
        let rest = match &step.what {
            What::User => json!({"type": "user", "message": {"role": "user", "parts": [{"text": "hi"}]}}),
            What::Notice => {
                json!({"type": "user", "subtype": "notification", "message": {"role": "user", "parts": [{"text": "n"}]}})
            }
            What::Calls(calls) => {
                let mut parts = vec![json!({"text": "t"})];
                parts.extend(calls.iter().map(
                    |(id, question)| json!({"functionCall": {"id": format!("c{id}"), "name": name(*question), "args": {}}}),
                ));
                json!({"type": "assistant", "message": {"role": "model", "parts": parts}})
            }
            What::Result(id) => json!({"type": "tool_result", "message": {"role": "user", "parts": [
                {"functionResponse": {"id": format!("c{id}"), "name": "glob", "response": {"output": "x"}}}]}}),
            What::TurnResult { parked } => {
                json!({"type": "system", "subtype": "turn_result", "systemPayload": {"parked": parked}})
            }
            What::Telemetry => json!({"type": "system", "subtype": "ui_telemetry", "systemPayload": {}}),
            What::Rubbish => {
                file += "{\"uuid\": broken\n";
                continue;
            }
            What::Compression { model } => {
                let role = if *model { "model" } else { "user" };
                json!({"type": "system", "subtype": "chat_compression", "systemPayload":
                    {"compressedHistory": [{"role": role, "parts": [{"text": "s"}]}]}})
            }
        };
        value.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        file += &format!("{value}\n");
    }
    file
}

/// The same question, answered from the whole file read forwards: the entries of the history and the marks of
/// ended turns, in order, then a look at the end of that list.
fn oracle(file: &str) -> (String, Vec<String>, Vec<String>, bool, bool) {
    let records: Vec<Value> = file.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let mut path = Vec::new();
    let mut at = records.len().checked_sub(1);
    while let Some(i) = at {
        path.push(&records[i]);
        let parent = &records[i]["parentUuid"];
        at = if parent.is_null() {
            None
        } else {
            (0..i).rev().find(|j| records[*j]["uuid"] == *parent).or_else(|| i.checked_sub(1))
        };
    }
    path.reverse();
    // Compression forgets all before.
    let from = path.iter().rposition(|r| r["subtype"] == "chat_compression").unwrap_or(0);
    let path = &path[from..];
    let turn_at = path.iter().rposition(|r| {
        r["type"] == "assistant"
            || r["subtype"] == "chat_compression"
                && r["systemPayload"]["compressedHistory"][0]["role"] == "model"
    });
    let none = |what: &str| (what.to_owned(), vec![], vec![], false, false);
    let Some(turn_at) = turn_at else {
        let anything = path
            .iter()
            .any(|r| r["type"] == "user" || r["type"] == "tool_result" || r["subtype"] == "chat_compression");
        return none(if anything { "user" } else { "empty" });
    };
    let list = |r: &Value, key: &str| -> Vec<String> {
        let parts = r["message"]["parts"].as_array().cloned().unwrap_or_default();
        parts.iter().filter_map(|p| Some(p[key]["id"].as_str()?.to_owned())).collect()
    };
    let calls = list(path[turn_at], "functionCall");
    let behind = &path[turn_at + 1..];
    let prompts = behind.iter().any(|r| r["type"] == "user" && r["subtype"].is_null());
    let results: Vec<String> = behind.iter().flat_map(|r| list(r, "functionResponse")).collect();
    if prompts || results.iter().any(|id| !calls.contains(id)) {
        return none("user");
    }
    let settled: Vec<String> = calls.iter().filter(|c| results.contains(c)).cloned().collect();
    let open: Vec<String> = calls.iter().filter(|c| !results.contains(c)).cloned().collect();
    let last_result = behind.iter().rposition(|r| r["type"] == "tool_result").map_or(0, |i| i + 1);
    let ended = behind[last_result..]
        .iter()
        .any(|r| r["subtype"] == "turn_result" && r["systemPayload"]["parked"] == false);
    let notices = behind.iter().any(|r| r["subtype"] == "notification");
    (format!("model {}", path[turn_at]["uuid"].as_str().unwrap()), open, settled, ended, notices)
}

proptest! {
    #[test]
    fn e2_the_scan_from_the_end_agrees_with_a_read_of_the_whole(steps in proptest::collection::vec(any_step(), 0..25)) {
        let file = write_file(&steps);
        let scan = scan_reader(Cursor::new(file.as_bytes())).unwrap();
        let texts = |ids: Vec<CallId>| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let got = match &scan.tail {
            Tail::Empty => ("empty".to_owned(), vec![], vec![], false, false),
            Tail::User => ("user".to_owned(), vec![], vec![], false, false),
            Tail::Model(turn) => (
                format!("model {}", turn.record), texts(turn.open()), texts(turn.settled()), turn.ended, turn.notices_after,
            ),
        };
        prop_assert_eq!(got, oracle(&file), "{}", file);
        // The leaf is the same for the reader of the whole history.
        let whole = history::from_bytes(file.as_bytes()).unwrap();
        prop_assert_eq!(whole.next_parent.unwrap_or(Parent::Root), scan.next_parent);
    }
}
