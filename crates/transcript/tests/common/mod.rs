//! Records for tests, in the shape that the files of qwen-code have.
#![expect(dead_code, reason = "each test binary uses its own part of this")]

use camino::Utf8PathBuf;
use holdpoint_model::history::{Content, FunctionCall, FunctionResponse, Part, Role};
use holdpoint_model::ids::{CallId, RecordId, SessionId};
use holdpoint_transcript::{Cause, Durability, Kind, Parent, Record, Writer};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) fn session() -> SessionId {
    SessionId::new("11111111-2222-4333-8444-555555555555").unwrap()
}

pub(crate) fn id(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

pub(crate) fn call_id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

pub(crate) fn record(kind: Kind, uuid: &str, parent: Option<&str>) -> Record {
    let at = jiff::Timestamp::from_millisecond(1_767_323_045_678).unwrap();
    let mut record = Record::new(kind, id(uuid), &session(), at);
    record.parent = parent.map_or(Parent::Root, |parent| Parent::Of(id(parent)));
    record.cwd = Some("/work".to_owned());
    record
}

pub(crate) fn user(uuid: &str, parent: Option<&str>, text: &str) -> Record {
    Record { message: Some(Content::user_text(text)), ..record(Kind::User, uuid, parent) }
}

pub(crate) fn says(uuid: &str, parent: &str, text: &str) -> Record {
    let message = Content { role: Role::Model, parts: vec![Part::text(text)] };
    Record { message: Some(message), ..record(Kind::Assistant, uuid, Some(parent)) }
}

pub(crate) fn question_args() -> Value {
    json!({"questions": [{"question": "Which?", "header": "Pick", "options": [
        {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]})
}

pub(crate) fn calls(uuid: &str, parent: &str, list: &[(&str, &str)]) -> Record {
    let parts = list
        .iter()
        .map(|(id, name)| {
            let args = if *name == "ask_user_question" { question_args() } else { json!({"path": "a"}) };
            Part::call(FunctionCall { id: Some(call_id(id)), name: (*name).to_owned(), args })
        })
        .collect();
    let message = Content { role: Role::Model, parts };
    Record { message: Some(message), ..record(Kind::Assistant, uuid, Some(parent)) }
}

pub(crate) fn result(uuid: &str, parent: &str, call: &str, name: &str, cause: Cause) -> Record {
    let response = match cause {
        Cause::Answered | Cause::Ran => FunctionResponse::output(call_id(call), name, format!("of {call}")),
        _ => FunctionResponse::error(call_id(call), name, format!("of {call}")),
    };
    let mut record = record(Kind::ToolResult, uuid, Some(parent));
    record.message = Some(Content::response(response));
    record.set_own("cause", cause.as_str());
    record
}

pub(crate) fn system(uuid: &str, parent: &str, subtype: &str, payload: Value) -> Record {
    let mut record = record(Kind::System, uuid, Some(parent));
    record.subtype = Some(subtype.to_owned());
    record.system_payload = Some(payload);
    record
}

/// A directory, and the path of a transcript in it that is not there yet.
pub(crate) fn place() -> (TempDir, Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().join(format!("{}.jsonl", session()))).unwrap();
    (dir, path)
}

pub(crate) fn write(path: &Utf8PathBuf, records: &[Record]) {
    let mut writer = Writer::open(path).unwrap().writer;
    for record in records {
        writer.append(record, Durability::Buffered).unwrap();
    }
}

/// Lines as another tool wrote them.
pub(crate) fn write_lines(path: &Utf8PathBuf, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(path, text).unwrap();
}

/// Ids of the records that a model reads, in order.
pub(crate) fn visible(path: &Utf8PathBuf) -> Vec<String> {
    let history = holdpoint_transcript::history::read(path).unwrap();
    history.entries.iter().filter_map(|entry| Some(entry.record.as_ref()?.to_string())).collect()
}
