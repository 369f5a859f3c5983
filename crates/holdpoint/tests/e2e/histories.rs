//! Stored histories that no run of ours would leave so, loaded through the daemon: what is asked again, what is
//! shown, and what the model reads after the answers. How each ending is judged is a table of the transcript's own
//! tests; here it is seen that daemon and agent keep to it together.

use serde_json::{Value, json};

use crate::support::{Rig, Session, part, selected, until};

/// A stored history.
struct Row {
    name: &'static str,
    lines: Vec<Value>,
    /// The calls that the load asks again, in order.
    asked: &'static [&'static str],
    /// The statuses of the calls in the load's response, in order.
    shown: &'static [&'static str],
    /// How the results begin that the model reads next, in order.
    reads: &'static [&'static str],
}

fn record(kind: &str, rest: Value) -> Value {
    let mut line = json!({ "type": kind });
    line.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
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

fn asks(id: &str, n: usize) -> Value {
    call(id, "ask_user_question", json!({ "questions": [part(n)] }))
}

fn shell(id: &str) -> Value {
    call(id, "run_shell_command", json!({ "command": "echo ran >> ran.txt" }))
}

fn result(id: &str, name: &str, text: &str) -> Value {
    let response = json!({ "id": id, "name": name, "response": { "output": text } });
    record(
        "tool_result",
        json!({ "message": { "role": "user", "parts": [{ "functionResponse": response }] } }),
    )
}

fn system(subtype: &str, payload: Value) -> Value {
    record("system", json!({ "subtype": subtype, "systemPayload": payload }))
}

fn behind(place: usize, mut line: Value) -> Value {
    line["parentUuid"] = json!(format!("r{place}"));
    line
}

const ANSWER: &str = "The person answered";
const REPAIR: &str = "Not answered";
const MAY_HAVE_RUN: &str = "Interrupted";

fn table() -> Vec<Row> {
    vec![
        Row {
            name: "a batch of four, one answered",
            lines: vec![
                user("go"),
                model(vec![asks("a", 1), asks("b", 2), asks("c", 3), asks("d", 4)]),
                result("c", "ask_user_question", "The person answered: before"),
            ],
            asked: &["a", "b", "d"],
            shown: &["a in_progress", "b in_progress", "c completed", "d in_progress"],
            reads: &[ANSWER, ANSWER, "The person answered: before", ANSWER],
        },
        Row {
            name: "a command that finished beside a question",
            lines: vec![
                user("go"),
                model(vec![shell("s"), asks("q", 1)]),
                result("s", "run_shell_command", "it ran"),
            ],
            asked: &["q"],
            shown: &["s completed", "q in_progress"],
            reads: &["it ran", ANSWER],
        },
        Row {
            name: "a command that dangles beside a question",
            lines: vec![user("go"), model(vec![shell("s"), asks("q", 1)])],
            asked: &[],
            shown: &["s failed", "q failed"],
            reads: &[MAY_HAVE_RUN, REPAIR],
        },
        Row {
            name: "arguments that cannot be read",
            lines: vec![
                user("go"),
                model(vec![asks("q", 1), call("bad", "ask_user_question", json!({ "questions": 7 }))]),
            ],
            asked: &[],
            shown: &["q failed", "bad failed"],
            reads: &[REPAIR, REPAIR],
        },
        Row {
            name: "a call without an id beside a question",
            lines: vec![user("go"), model(vec![shell(""), asks("q", 1)])],
            asked: &["q"],
            shown: &["r1#0 failed", "q in_progress"],
            reads: &[MAY_HAVE_RUN, ANSWER],
        },
        Row {
            name: "text behind the call, and system records behind the turn",
            lines: vec![
                user("go"),
                model(vec![asks("q", 1), text("I wait.")]),
                system("ui_telemetry", json!({ "x": 1 })),
                system("a_kind_of_tomorrow", json!({})),
            ],
            asked: &["q"],
            shown: &["q in_progress"],
            reads: &[ANSWER],
        },
        Row {
            name: "the model has said something since",
            lines: vec![user("go"), model(vec![asks("q", 1)]), model(vec![text("Never mind.")])],
            asked: &[],
            shown: &["q failed"],
            reads: &[REPAIR],
        },
        Row {
            name: "answered, and the turn over",
            lines: vec![
                user("go"),
                model(vec![asks("q", 1)]),
                result("q", "ask_user_question", "The person answered: before"),
                model(vec![text("Good.")]),
                system("turn_result", json!({ "state": "completed", "stopReason": "end_turn" })),
            ],
            asked: &[],
            shown: &["q completed"],
            reads: &["The person answered: before"],
        },
        Row {
            name: "nothing but system records",
            lines: vec![system("session_source", json!({}))],
            asked: &[],
            shown: &[],
            reads: &[],
        },
        Row {
            name: "rewound to before the question",
            lines: vec![
                user("one"),
                model(vec![text("first")]),
                user("two"),
                model(vec![asks("q", 1)]),
                behind(1, system("rewind", json!({}))),
            ],
            asked: &[],
            shown: &[],
            reads: &[],
        },
        Row {
            name: "rewound to the question, from behind its answer",
            lines: vec![
                user("go"),
                model(vec![asks("q", 1)]),
                result("q", "ask_user_question", "The person answered: in the branch that was left"),
                model(vec![text("Good.")]),
                behind(1, system("rewind", json!({}))),
            ],
            asked: &["q"],
            shown: &["q in_progress"],
            reads: &[ANSWER],
        },
        Row {
            name: "a question behind a compression",
            lines: vec![
                user("one"),
                model(vec![asks("old", 1)]),
                system(
                    "chat_compression",
                    json!({ "compressedHistory": [
                        { "role": "user", "parts": [{ "text": "summary" }] },
                        { "role": "model", "parts": [{ "text": "ok" }] },
                    ] }),
                ),
                user("two"),
                model(vec![asks("q", 2)]),
            ],
            asked: &["q"],
            shown: &["old failed", "q in_progress"],
            reads: &[ANSWER],
        },
        Row {
            name: "an id that the provider repeats, answered the first time",
            lines: vec![
                user("one"),
                model(vec![asks("call_0", 1)]),
                result("call_0", "ask_user_question", "The person answered: before"),
                model(vec![asks("call_0", 2)]),
            ],
            asked: &["call_0"],
            shown: &["call_0 completed", "call_0 in_progress"],
            reads: &["The person answered: before", ANSWER],
        },
        Row {
            name: "an id that the provider repeats, dangling in mid-file",
            lines: vec![
                user("one"),
                model(vec![asks("call_0", 1)]),
                user("two"),
                model(vec![asks("call_0", 2)]),
            ],
            asked: &["call_0"],
            shown: &["call_0 failed", "call_0 in_progress"],
            reads: &[REPAIR, ANSWER],
        },
    ]
}

/// Writes the row's file; the session that it is.
fn store(rig: &Rig, at: usize, row: &Row) -> Session {
    let id = format!("00000000-0000-4000-8000-{at:012}");
    let session = Session { id: id.clone(), client: "somebody".to_owned() };
    let path = rig.transcript_path(&session);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut text = String::new();
    for (at, line) in row.lines.iter().enumerate() {
        let mut line = line.clone();
        line["uuid"] = json!(format!("r{at}"));
        if line.get("parentUuid").is_none() {
            line["parentUuid"] = at.checked_sub(1).map_or(Value::Null, |before| json!(format!("r{before}")));
        }
        line["sessionId"] = json!(id);
        line["cwd"] = json!(rig.work().canonicalize().unwrap());
        text.push_str(&format!("{line}\n"));
    }
    std::fs::write(path, text).unwrap();
    session
}

/// Each call with its last status; a repeated id is a call of its own each time.
fn shown<'a>(updates: impl Iterator<Item = &'a Value>) -> Vec<String> {
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

async fn play(rig: &mut Rig, at: usize, row: Row) {
    let name = row.name;
    let session = store(rig, at, &row);
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();
    let api = rig.api().of(&session.client);
    let transcript = format!("/session/{}/transcript", session.id);
    let cold = api.get(&transcript).await.expect(200);
    let cold = shown(cold["events"].as_array().unwrap().iter().map(|event| &event["data"]));
    assert_eq!(cold, row.shown, "{name}: R4, the page agrees with the load that follows");

    let view = api.load(&session).await;
    let api = api.of(view["clientId"].as_str().unwrap());
    let updates = view["compactedReplay"].as_array().unwrap().iter().map(|event| &event["data"]["update"]);
    assert_eq!(shown(updates), row.shown, "{name}: R4");
    assert_eq!(view["hasActivePrompt"], !row.asked.is_empty(), "{name}: R8");
    let calls = rig.model.calls();
    let inbox = format!("/questions?session={}", session.id);
    let open = until("what is asked", async || {
        let view = api.get(&inbox).await.expect(200);
        let open = view["questions"].as_array().unwrap().clone();
        (open.len() >= row.asked.len() && open.iter().all(|row| row["live"] == true)).then_some(open)
    })
    .await;
    assert_eq!(open.len(), row.asked.len(), "{name}: {open:#?}");
    assert_eq!(std::fs::read(rig.transcript_path(&session)).unwrap(), before, "{name}: R2");
    if open.is_empty() {
        api.prompt(&session, "then go on").await;
    }
    let mut events = api.events_from(&session, 0, None).await;
    let mut asked = Vec::new();
    for _ in &open {
        let event = events.wait_for("permission_request").await;
        asked.push((
            event["data"]["toolCall"]["toolCallId"].as_str().unwrap().to_owned(),
            event["data"]["requestId"].as_str().unwrap().to_owned(),
        ));
    }
    let ids: Vec<_> = asked.iter().map(|(call, _)| call.as_str()).collect();
    assert_eq!(ids, row.asked, "{name}: asked again");
    for (_, request) in &asked {
        api.vote(&session, request, &selected(&[("0", "Blue")])).await.expect(200);
    }
    rig.model.called(calls + 1).await;
    api.wait_idle(&session).await;
    // R3: every request is one that a provider accepts.
    let history = rig.story(&session).history;
    let results: Vec<_> = history.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), row.reads.len(), "{name}: {history:#?}");
    for (result, start) in results.iter().zip(row.reads) {
        assert!(result["content"].as_str().unwrap().starts_with(start), "{name}: {history:#?}");
    }
}

#[tokio::test]
async fn e2_e3_e4_r1_r3_r4_r18_r21_a_stored_history_is_asked_shown_and_read_as_it_ends() {
    let mut rig = Rig::started().await;
    for (at, row) in table().into_iter().enumerate() {
        play(&mut rig, at, row).await;
    }
    assert!(!rig.work().join("ran.txt").exists(), "R21: no command ran again");
    // What was repaired stays repaired, what was answered stays answered: nothing is left to ask.
    let api = rig.restart().await;
    assert_eq!(api.inbox().await, Vec::<Value>::new());
}

#[tokio::test]
async fn e2_an_empty_file_is_a_session_without_a_history() {
    let rig = Rig::started().await;
    let row = Row { name: "empty", lines: Vec::new(), asked: &[], shown: &[], reads: &[] };
    let session = store(&rig, 99, &row);
    let api = rig.api().of("somebody");
    let view = api.load(&session).await;
    assert_eq!(view["compactedReplay"], json!([]));
    assert_eq!(view["hasActivePrompt"], false);
    let api = api.of(view["clientId"].as_str().unwrap());
    api.prompt(&session, "hello").await;
    rig.model.called(1).await;
    api.wait_idle(&session).await;
    rig.story(&session);
}
