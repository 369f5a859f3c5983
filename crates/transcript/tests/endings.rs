//! How a stored history can end, and what a load makes of it: who is asked again, how its calls are shown, and what
//! the model reads (E2–E4, R1–R4, R18, R20, R21). One table; repair and replay are held against the same row.

#[cfg(test)]
mod common;

use std::collections::BTreeSet;

use common::{place, question_args, write_lines};
use holdpoint_model::history::Role;
use holdpoint_model::restore::{Restore, assess, repair};
use holdpoint_transcript::replay::{self, Finalise, Window};
use holdpoint_transcript::{ReadError, history, tail};
use serde_json::{Value, json};

/// One ending.
struct Row {
    name: &'static str,
    /// The records; those without a parent follow the one before.
    lines: Vec<Value>,
    /// `ask` with the calls that are asked again, `go on`, or why neither.
    restore: &'static str,
    /// Each call in the replay with its last status, when the load restores.
    shown: &'static [&'static str],
    /// What had to be made up for the model, as record:call.
    repaired: &'static [&'static str],
}

/// A record; its id is its place in the file.
fn record(kind: &str, rest: Value) -> Value {
    let mut line = json!({ "type": kind });
    line.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
    line
}

fn user(text: &str) -> Value {
    record("user", json!({ "message": { "role": "user", "parts": [{ "text": text }] } }))
}

fn model(parts: Vec<Value>) -> Value {
    record("assistant", json!({ "message": { "role": "model", "parts": parts } }))
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

fn call(id: &str, name: &str, args: Value) -> Value {
    let mut call = json!({ "name": name, "args": args });
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    json!({ "functionCall": call })
}

fn asks(id: &str) -> Value {
    call(id, "ask_user_question", question_args())
}

fn shell(id: &str) -> Value {
    call(id, "run_shell_command", json!({ "command": "true" }))
}

fn result(id: &str, name: &str) -> Value {
    let mut response = json!({ "name": name, "response": { "output": "done" } });
    if !id.is_empty() {
        response["id"] = json!(id);
    }
    let parts = json!([{ "functionResponse": response }]);
    record("tool_result", json!({ "message": { "role": "user", "parts": parts } }))
}

fn answer(id: &str) -> Value {
    result(id, "ask_user_question")
}

fn system(subtype: &str, payload: Value) -> Value {
    record("system", json!({ "subtype": subtype, "systemPayload": payload }))
}

fn turn_over() -> Value {
    system("turn_result", json!({ "state": "completed", "stopReason": "end_turn" }))
}

/// The record stands behind that one, not behind the one before.
fn behind(place: usize, mut line: Value) -> Value {
    line["parentUuid"] = json!(format!("r{place}"));
    line
}

fn compressed(last: Value) -> Value {
    let history = json!([{ "role": "user", "parts": [{ "text": "summary" }] }, last]);
    system("chat_compression", json!({ "compressedHistory": history }))
}

fn table() -> Vec<Row> {
    vec![
        Row {
            name: "one question",
            lines: vec![user("go"), model(vec![asks("q")])],
            restore: "ask q",
            shown: &["q in_progress"],
            repaired: &["r1:q"],
        },
        Row {
            name: "a batch of four, none answered",
            lines: vec![user("go"), model(vec![asks("a"), asks("b"), asks("c"), asks("d")])],
            restore: "ask a b c d",
            shown: &["a in_progress", "b in_progress", "c in_progress", "d in_progress"],
            repaired: &["r1:a", "r1:b", "r1:c", "r1:d"],
        },
        Row {
            name: "a batch of four, the second and the last answered, the last first",
            lines: vec![
                user("go"),
                model(vec![asks("a"), asks("b"), asks("c"), asks("d")]),
                answer("d"),
                answer("b"),
            ],
            restore: "ask a c",
            shown: &["a in_progress", "b completed", "c in_progress", "d completed"],
            repaired: &["r1:a", "r1:c"],
        },
        Row {
            name: "a command that finished beside a question",
            lines: vec![user("go"), model(vec![shell("s"), asks("q")]), result("s", "run_shell_command")],
            restore: "ask q",
            shown: &["s completed", "q in_progress"],
            repaired: &["r1:q"],
        },
        Row {
            name: "a command that dangles beside a question",
            lines: vec![user("go"), model(vec![shell("s"), asks("q")])],
            restore: "no: the call s of run_shell_command has no result either, and only questions can be asked again",
            shown: &["s failed", "q failed"],
            repaired: &["r1:s", "r1:q"],
        },
        Row {
            name: "a command that dangles beside an answered question",
            lines: vec![user("go"), model(vec![asks("q"), shell("s")]), answer("q")],
            restore: "go on",
            shown: &["q completed", "s failed"],
            repaired: &["r1:s"],
        },
        Row {
            name: "one question of two that cannot be read",
            lines: vec![
                user("go"),
                model(vec![asks("q"), call("bad", "ask_user_question", json!({ "questions": [] }))]),
            ],
            restore: "no: the call bad cannot be asked again: …",
            shown: &["q failed", "bad failed"],
            repaired: &["r1:q", "r1:bad"],
        },
        Row {
            name: "a command without an id beside a question",
            lines: vec![user("go"), model(vec![shell(""), asks("q")])],
            restore: "ask q",
            shown: &["r1#0 failed", "q in_progress"],
            repaired: &["r1:-", "r1:q"],
        },
        Row {
            name: "a question without an id",
            lines: vec![user("go"), model(vec![asks("")])],
            restore: "no: the trailing model turn calls no tool",
            shown: &["r1#0 failed"],
            repaired: &["r1:-"],
        },
        Row {
            name: "a question without an id beside one that has one",
            lines: vec![user("go"), model(vec![asks(""), asks("q")])],
            restore: "ask q",
            shown: &["r1#0 failed", "q in_progress"],
            repaired: &["r1:-", "r1:q"],
        },
        Row {
            name: "a text behind the call in the same turn",
            lines: vec![user("go"), model(vec![asks("q"), text("I wait.")])],
            restore: "ask q",
            shown: &["q in_progress"],
            repaired: &["r1:q"],
        },
        Row {
            name: "a text of the model behind the turn",
            lines: vec![user("go"), model(vec![asks("q")]), model(vec![text("Never mind.")])],
            restore: "no: the trailing model turn calls no tool",
            shown: &["q failed"],
            repaired: &["r1:q"],
        },
        Row {
            name: "a prompt behind the turn",
            lines: vec![user("go"), model(vec![asks("q")]), user("hello?")],
            restore: "no: the history does not end with a model turn",
            shown: &["q failed"],
            repaired: &["r1:q"],
        },
        Row {
            name: "system records behind the turn",
            lines: vec![
                user("go"),
                model(vec![asks("q")]),
                system("ui_telemetry", json!({ "x": 1 })),
                system("file_history_snapshot", json!({})),
                system("a_kind_of_tomorrow", json!({})),
            ],
            restore: "ask q",
            shown: &["q in_progress"],
            repaired: &["r1:q"],
        },
        Row {
            name: "an answered call",
            lines: vec![user("go"), model(vec![asks("q")]), answer("q")],
            restore: "go on",
            shown: &["q completed"],
            repaired: &[],
        },
        Row {
            name: "an answered call, and the turn over",
            lines: vec![user("go"), model(vec![asks("q")]), answer("q"), turn_over()],
            restore: "no: the turn is over",
            shown: &["q completed"],
            repaired: &[],
        },
        Row {
            name: "an answered call, and what the model said to it",
            lines: vec![user("go"), model(vec![asks("q")]), answer("q"), model(vec![text("Blue.")])],
            restore: "no: the trailing model turn calls no tool",
            shown: &["q completed"],
            repaired: &[],
        },
        Row {
            name: "a command that finished, alone",
            lines: vec![user("go"), model(vec![shell("s")]), result("s", "run_shell_command")],
            restore: "no: the settled batch holds no question",
            shown: &["s completed"],
            repaired: &[],
        },
        Row {
            name: "nothing but system records",
            lines: vec![system("session_source", json!({}))],
            restore: "no: the history does not end with a model turn",
            shown: &[],
            repaired: &[],
        },
        Row {
            name: "nothing at all",
            lines: vec![],
            restore: "no: the history does not end with a model turn",
            shown: &[],
            repaired: &[],
        },
        Row {
            name: "rewound to before the question",
            lines: vec![
                user("one"),
                model(vec![text("first")]),
                user("two"),
                model(vec![asks("q")]),
                behind(1, system("rewind", json!({}))),
            ],
            restore: "no: the trailing model turn calls no tool",
            shown: &[],
            repaired: &[],
        },
        Row {
            name: "rewound to the question, from behind its answer",
            lines: vec![
                user("go"),
                model(vec![asks("q")]),
                answer("q"),
                model(vec![text("Blue it is.")]),
                behind(1, system("rewind", json!({}))),
            ],
            restore: "ask q",
            shown: &["q in_progress"],
            repaired: &["r1:q"],
        },
        Row {
            name: "rewound, and another question asked since; the first dangles in the branch that was left",
            lines: vec![
                user("go"),
                model(vec![asks("q")]),
                behind(0, system("rewind", json!({}))),
                user("another way"),
                model(vec![asks("p")]),
            ],
            restore: "ask p",
            shown: &["p in_progress"],
            repaired: &["r4:p"],
        },
        Row {
            name: "a record of the branch that was left stands last in the file, but the leaf is elsewhere",
            lines: vec![
                user("go"),
                model(vec![asks("q")]),
                behind(0, model(vec![text("a late word of a branch that was left")])),
                behind(1, system("rewind", json!({}))),
            ],
            restore: "ask q",
            shown: &["q in_progress"],
            repaired: &["r1:q"],
        },
        Row {
            name: "a question behind a compression",
            lines: vec![
                user("one"),
                model(vec![asks("old")]),
                compressed(json!({ "role": "model", "parts": [{ "text": "ok" }] })),
                user("two"),
                model(vec![asks("q")]),
            ],
            restore: "ask q",
            shown: &["old failed", "q in_progress"],
            repaired: &["r4:q"],
        },
        Row {
            name: "a question that a compression has replaced",
            lines: vec![
                user("one"),
                model(vec![asks("old")]),
                compressed(json!({ "role": "model", "parts": [{ "text": "ok" }] })),
            ],
            restore: "no: the trailing model turn calls no tool",
            shown: &["old failed"],
            repaired: &[],
        },
        Row {
            name: "a question that a compression has kept",
            lines: vec![
                user("one"),
                model(vec![asks("q")]),
                compressed(json!({ "role": "model", "parts": [asks("q")] })),
            ],
            restore: "ask q",
            shown: &["q in_progress"],
            repaired: &["-:q"],
        },
        Row {
            name: "ids that a provider repeats: the first answered, the second not",
            lines: vec![
                user("one"),
                model(vec![asks("call_0")]),
                answer("call_0"),
                model(vec![asks("call_0")]),
            ],
            restore: "ask call_0",
            shown: &["call_0 completed", "call_0 in_progress"],
            repaired: &["r3:call_0"],
        },
        Row {
            name: "ids that a provider repeats: the first dangles in mid-file, the second at the end",
            lines: vec![user("one"), model(vec![asks("call_0")]), user("two"), model(vec![asks("call_0")])],
            restore: "ask call_0",
            shown: &["call_0 failed", "call_0 in_progress"],
            repaired: &["r1:call_0", "r3:call_0"],
        },
        Row {
            name: "ids that a provider repeats: the first dangles in mid-file, the second is answered",
            lines: vec![
                user("one"),
                model(vec![asks("call_0")]),
                user("two"),
                model(vec![asks("call_0")]),
                answer("call_0"),
            ],
            restore: "go on",
            shown: &["call_0 failed", "call_0 completed"],
            repaired: &["r1:call_0"],
        },
    ]
}

/// The file of a row.
fn lines(row: &Row) -> Vec<Value> {
    let numbered = row.lines.iter().enumerate().map(|(at, line)| {
        let mut line = line.clone();
        line["uuid"] = json!(format!("r{at}"));
        if line.get("parentUuid").is_none() {
            line["parentUuid"] = at.checked_sub(1).map_or(Value::Null, |before| json!(format!("r{before}")));
        }
        line
    });
    numbered.collect()
}

/// Each call in a replay, with its last status. A repeated id is a call of its own each time.
fn shown(updates: &[Value]) -> Vec<String> {
    let mut calls: Vec<(String, String)> = Vec::new();
    for update in updates {
        let (Some(id), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) else {
            continue;
        };
        match update["sessionUpdate"].as_str() {
            Some("tool_call") => calls.push((id.to_owned(), status.to_owned())),
            _ => {
                let call = calls.iter_mut().rev().find(|(known, _)| known == id);
                call.expect("an update follows its call").1 = status.to_owned();
            }
        }
    }
    calls.into_iter().map(|(id, status)| format!("{id} {status}")).collect()
}

#[test]
fn e2_e3_e4_r1_r2_r3_r4_r18_r20_repair_and_replay_agree_however_a_history_ends() {
    for row in table() {
        let (_dir, path) = place();
        write_lines(&path, &lines(&row));
        let name = row.name;
        let assessed = assess(&tail::scan(&path).unwrap().tail);
        let (said, spare) = match &assessed {
            Ok(restore @ Restore::Ask { questions, .. }) => {
                let calls: Vec<_> = questions.iter().map(|open| open.call.to_string()).collect();
                (format!("ask {}", calls.join(" ")), restore.spared())
            }
            Ok(Restore::GoOn { .. }) => ("go on".to_owned(), BTreeSet::new()),
            Err(reason) => (format!("no: {reason}"), BTreeSet::new()),
        };
        let as_said = match row.restore.strip_suffix('…') {
            Some(start) => said.starts_with(start),
            None => said == row.restore,
        };
        assert!(as_said, "{name}: {said}");

        // R1, R4: the load that restores shows as waiting what it asks, and nothing else.
        let spared = Finalise::Close { spare: spare.clone() };
        let restored = replay::window(&path, &Window::default(), &spared).unwrap();
        assert_eq!(shown(&restored.updates), row.shown, "{name}");
        let open: BTreeSet<_> = restored.open.into_iter().collect();
        assert!(open.is_subset(&spare), "{name}: {open:?}");
        let page = replay::PageRequest {
            direction: replay::Direction::Backward,
            cursor: None,
            limit: 500,
            max_bytes: 1 << 20,
        };
        let page = replay::page(&path, &page, &spared).unwrap();
        assert_eq!(shown(&page.updates), row.shown, "{name}: as a page");
        // R2: the load that does not closes everything.
        let all = replay::window(&path, &Window::default(), &Finalise::all()).unwrap();
        assert!(!shown(&all.updates).iter().any(|call| call.ends_with("in_progress")), "{name}");

        // R3: what is sent is whole, and made up is only what has no result.
        let entries = history::read(&path).unwrap().entries;
        let repaired = repair(entries.clone(), &BTreeSet::new());
        let made: Vec<_> = repaired
            .synthetic
            .iter()
            .map(|made| {
                let record = made.record.as_ref().map_or("-", |record| record.as_str());
                format!("{record}:{}", made.response.id.as_ref().map_or("-", |id| id.as_str()))
            })
            .collect();
        assert_eq!(made, row.repaired, "{name}");
        let contents: Vec<_> = repaired.entries.iter().map(|entry| &entry.content).collect();
        for (at, content) in contents.iter().enumerate().filter(|(_, c)| c.role == Role::Model) {
            let calls = content.calls().count();
            let answers = contents.get(at + 1).map_or(0, |next| next.responses().count());
            assert_eq!(calls, answers, "{name}: entry {at}");
        }
    }
}

#[test]
fn e2_a_history_that_is_not_there_is_told_from_an_empty_one() {
    let (_dir, path) = place();
    assert!(matches!(tail::scan(&path), Err(ReadError::NotFound { .. })));
    assert!(matches!(
        replay::window(&path, &Window::default(), &Finalise::all()),
        Err(ReadError::NotFound { .. })
    ));
    std::fs::write(&path, "").unwrap();
    assert!(assess(&tail::scan(&path).unwrap().tail).is_err());
    assert!(replay::window(&path, &Window::default(), &Finalise::all()).unwrap().updates.is_empty());
}

/// A repair is written when the next prompt goes out, before what that says. A crash between the two must not make the
/// prompt look as if it had begun: it would never be sent again.
#[test]
fn d5_a_repair_shows_no_beginning_of_the_prompt_that_it_was_written_for() {
    let of = |prompt: &str, mut line: Value| {
        line["daemonPromptId"] = json!(prompt);
        line
    };
    let result = |id: &str, prompt: &str, cause: &str| {
        let response = json!({ "functionResponse": { "id": id, "name": "run_shell_command", "response": { "output": "x" } } });
        let mut line = record("tool_result", json!({ "message": { "role": "user", "parts": [response] } }));
        line["holdpoint"] = json!({ "v": 1, "cause": cause });
        of(prompt, line)
    };
    let begun = || vec![of("p1", user("go")), of("p1", model(vec![shell("a"), shell("b")]))];
    for (after, expected) in [
        (vec![], "p1"),
        (vec![result("a", "p1", "ran")], "p1"),
        (vec![result("a", "p2", "orphan_repair")], "p1"),
        (vec![result("a", "p2", "orphan_repair"), result("b", "p2", "orphan_repair")], "p1"),
        (
            vec![
                result("a", "p2", "orphan_repair"),
                result("b", "p2", "orphan_repair"),
                of("p2", user("next")),
            ],
            "p2",
        ),
    ] {
        let (_keep, path) = place();
        let mut lines = begun();
        lines.extend(after);
        for (at, line) in lines.iter_mut().enumerate() {
            line["uuid"] = json!(format!("r{at}"));
            line["parentUuid"] = if at == 0 { Value::Null } else { json!(format!("r{}", at - 1)) };
        }
        write_lines(&path, &lines);
        let scan = tail::scan(&path).unwrap();
        assert_eq!(scan.last_prompt_id.as_ref().map(AsRef::as_ref), Some(expected), "{lines:#?}");
    }
}
