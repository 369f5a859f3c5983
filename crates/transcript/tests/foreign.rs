//! Files of another tool, made by hand after the shape that they have.

#[cfg(test)]
mod common;

use common::{call_id, place, question_args, user, visible, write_lines};
use holdpoint_model::restore::{Restore, Tail, assess, repair};
use holdpoint_transcript::replay::{self, Finalise, Window};
use holdpoint_transcript::{Durability, Parent, Writer, history, tail};
use serde_json::{Value, json};

#[cfg(test)]
fn foreign(uuid: &str, parent: Option<&str>, kind: &str, rest: Value) -> Value {
    let mut line = json!({"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind,
        "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/w", "version": "0.24.4", "gitBranch": "main",
        "provenance": {"source": "cli"}});
    line.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    line
}

fn text(role: &str, text: &str) -> Value {
    json!({"message": {"role": role, "parts": [{"text": text}]}})
}

fn asks(id: &str) -> Value {
    json!({"message": {"role": "model", "parts": [
        {"text": "thinking", "thought": true, "thoughtSignature": "sig"},
        {"functionCall": {"id": id, "name": "ask_user_question", "args": question_args()}}]},
        "model": "qwen-x", "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}})
}

#[test]
fn e2_a_crashed_question_is_found_behind_system_records() {
    let (_dir, path) = place();
    write_lines(
        &path,
        &[
            foreign("a", None, "user", text("user", "go")),
            foreign("b", Some("a"), "assistant", asks("call_1")),
            foreign("c", Some("b"), "system", json!({"subtype": "ui_telemetry", "systemPayload": {"x": 1}})),
            foreign("d", Some("c"), "weather_report", json!({"sunny": true})),
        ],
    );
    let scan = tail::scan(&path).unwrap();
    let Ok(Restore::Ask { turn, questions }) = assess(&scan.tail) else { panic!("{scan:?}") };
    assert_eq!((turn.as_str(), questions.len()), ("b", 1));
    assert_eq!(scan.next_parent, Parent::Of(common::id("d")));
    assert_eq!(scan.cwd.as_deref(), Some("/w"));

    // Our record goes behind theirs, and theirs are untouched.
    let before = std::fs::read(&path).unwrap();
    let mut writer = Writer::open(&path).unwrap().writer;
    writer
        .append(
            &common::result("e", "d", "call_1", "ask_user_question", holdpoint_transcript::Cause::Answered),
            Durability::Fsync,
        )
        .unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(&before));
    assert_eq!(visible(&path), ["a", "b", "e"]);
    assert!(matches!(assess(&tail::scan(&path).unwrap().tail), Ok(Restore::GoOn { .. })));
}

#[test]
fn r4_replay_shows_what_a_live_turn_showed_and_finalises_all_but_the_spared() {
    let (_dir, path) = place();
    write_lines(
        &path,
        &[
            foreign(
                "a",
                None,
                "user",
                json!({"daemonPromptId": "p1", "message": {"role": "user", "parts": [{"text": "go"}]}}),
            ),
            foreign(
                "b",
                Some("a"),
                "assistant",
                json!({"message": {"role": "model", "parts": [
                {"functionCall": {"id": "w1", "name": "write_file", "args": {"path": "x"}}},
                {"functionCall": {"id": "w2", "name": "read_file", "args": {}}}]}}),
            ),
            foreign(
                "c",
                Some("b"),
                "tool_result",
                json!({"message": {"role": "user", "parts": [
                {"functionResponse": {"id": "w1", "name": "write_file", "response": {"output": "ok"}}}]},
                "toolCallResult": {"callId": "w1", "status": "success", "resultDisplay":
                    {"fileName": "x", "originalContent": null, "newContent": "hello", "fileDiff": "…"}}}),
            ),
            foreign(
                "d",
                Some("c"),
                "user",
                json!({"subtype": "notification", "message": {"role": "user", "parts": [{"text": "a task ended"}]}}),
            ),
            foreign("e", Some("d"), "assistant", asks("q1")),
        ],
    );
    let spare = Finalise::Close { spare: [call_id("q1")].into() };
    let replay = replay::window(&path, &Window::default(), &spare).unwrap();
    let kinds: Vec<_> = replay
        .updates
        .iter()
        .map(|u| {
            let of = u["toolCallId"].as_str().or(u["content"]["text"].as_str()).unwrap_or_default();
            format!("{} {} {}", u["sessionUpdate"].as_str().unwrap(), u["status"].as_str().unwrap_or("-"), of)
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "user_message_chunk - go",
            "tool_call in_progress w1",
            "tool_call in_progress w2",
            "tool_call_update completed w1",
            "tool_call_update failed w2",
            "user_message_chunk - a task ended",
            "agent_thought_chunk - thinking",
            "tool_call in_progress q1",
            "agent_message_chunk - ",
        ]
    );
    assert_eq!(
        replay.updates[3]["content"][0],
        json!({"type": "diff", "path": "x", "oldText": null, "newText": "hello"})
    );
    assert_eq!(replay.updates[7]["rawInput"], question_args());
    assert_eq!(replay.updates[7]["kind"], "think");
    assert_eq!(
        replay.updates[8]["_meta"]["usage"],
        json!({"inputTokens": 5, "outputTokens": 2, "totalTokens": 7})
    );
    assert_eq!(
        replay.updates[0]["_meta"],
        json!({"promptId": "p1", "timestamp": 1_767_323_045_678_i64, "qwen.session.recordId": "a"})
    );
    assert_eq!(replay.open, [call_id("q1")]);
    let all = replay::window(&path, &Window::default(), &Finalise::all()).unwrap();
    assert!(all.open.is_empty());
    assert_eq!(all.updates.last().unwrap()["status"], "failed");
}

#[test]
fn a_rewind_hides_the_branch_that_it_left() {
    let (_dir, path) = place();
    write_lines(
        &path,
        &[
            foreign("a", None, "user", text("user", "one")),
            foreign("b", Some("a"), "assistant", text("model", "first")),
            foreign("c", Some("b"), "user", text("user", "two")),
            foreign("d", Some("c"), "assistant", asks("q1")),
            foreign("r", Some("b"), "system", json!({"subtype": "rewind", "systemPayload": {"to": "b"}})),
        ],
    );
    assert_eq!(visible(&path), ["a", "b"]);
    let scan = tail::scan(&path).unwrap();
    assert!(matches!(&scan.tail, Tail::Model(turn) if turn.record.as_str() == "b" && turn.calls.is_empty()));
    assert_eq!(replay::window(&path, &Window::default(), &Finalise::all()).unwrap().records, 2);
}

#[test]
fn a_compression_stands_for_what_it_replaced_for_the_model_only() {
    let (_dir, path) = place();
    let compressed = json!([{"role": "user", "parts": [{"text": "summary"}]}, {"role": "model", "parts": [{"text": "ok"}]}]);
    write_lines(
        &path,
        &[
            foreign("a", None, "user", text("user", "one")),
            foreign("b", Some("a"), "assistant", asks("q0")),
            foreign(
                "c",
                Some("b"),
                "system",
                json!({"subtype": "chat_compression", "systemPayload":
                {"info": {}, "compressedHistory": compressed}}),
            ),
            foreign("d", Some("c"), "user", text("user", "two")),
        ],
    );
    let history = history::read(&path).unwrap();
    let texts: Vec<_> =
        history.entries.iter().map(|entry| entry.content.parts[0].text.clone().unwrap()).collect();
    assert_eq!(texts, ["summary", "ok", "two"]);
    assert!(history.call_ids.contains(&call_id("q0")), "a replaced call's id is used all the same");
    assert_eq!(replay::window(&path, &Window::default(), &Finalise::all()).unwrap().records, 3);
    let mut lines: Vec<Value> =
        std::fs::read_to_string(&path).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    lines.pop();
    write_lines(&path, &lines);
    assert!(matches!(&tail::scan(&path).unwrap().tail, Tail::Model(turn) if turn.calls.is_empty()));
}

#[test]
fn records_without_ids_follow_one_another() {
    let (_dir, path) = place();
    let bare = |kind: &str, rest: Value| {
        let mut line = foreign("x", None, kind, rest);
        line.as_object_mut().unwrap().shift_remove("uuid");
        line.as_object_mut().unwrap().shift_remove("parentUuid");
        line
    };
    let call =
        json!({"message": {"role": "model", "parts": [{"functionCall": {"name": "glob", "args": {}}}]}});
    let response =
        json!({"message": {"parts": [{"functionResponse": {"name": "glob", "response": {"output": "x"}}}]}});
    write_lines(
        &path,
        &[bare("user", text("user", "one")), bare("assistant", call), bare("tool_result", response)],
    );
    let scan = tail::scan(&path).unwrap();
    assert_eq!(scan.next_parent, Parent::Unsaid);
    let mut writer = Writer::open(&path).unwrap().writer;
    let mut next = user("new", None, "two");
    next.parent = scan.next_parent;
    writer.append(&next, Durability::Buffered).unwrap();
    let history = history::read(&path).unwrap();
    assert_eq!(history.entries.len(), 4);
    assert!(repair(history.entries, &Default::default()).synthetic.is_empty());
    let shown = replay::window(&path, &Window::default(), &Finalise::all()).unwrap().updates;
    let call = shown.iter().find(|u| u["sessionUpdate"] == "tool_call").unwrap();
    let update = shown.iter().find(|u| u["sessionUpdate"] == "tool_call_update").unwrap();
    assert_eq!(call["toolCallId"], update["toolCallId"]);
    assert_eq!(update["status"], "completed");
}
