//! A session on the wire: its status (WIRE a.2) and its rows in lists.

use holdpoint_ledger::SessionRow;
use holdpoint_model::ids::SessionId;
use holdpoint_model::session::{Question, Session};
use serde_json::{Map, Value, json};

use super::{iso, question};
use crate::session::Presence;

/// The fields that say what a session does and waits for, the same in a status and in a list (I6).
///
/// `open` are the questions that people can answer now; for a stored session, those that a load would ask.
pub fn activity<'a>(open: impl Iterator<Item = &'a Question>, running: bool) -> Value {
    let open: Vec<_> = open.collect();
    let waits_for_answer = open.iter().any(|question| question.body.is_question());
    let waits_for_consent = open.iter().any(|question| !question.body.is_question());
    let pending: Vec<_> = open.iter().map(|item| question::pending(item, item.asking.as_ref())).collect();
    json!({
        "hasActivePrompt": running,
        "activeWorkState": if running { "active" } else { "idle" },
        "hasRunningBackgroundTasks": false,
        "isWaitingForPermission": waits_for_consent,
        "isWaitingForUserQuestion": waits_for_answer,
        "pendingInteractionCount": pending.len(),
        "pendingInteractions": pending,
        "turnState": turn_state(running, !open.is_empty()),
    })
}

/// I6: running, waiting, or ended; never two of them.
fn turn_state(running: bool, waits: bool) -> &'static str {
    match (waits, running) {
        (true, _) => "waiting",
        (false, true) => "running",
        (false, false) => "ended",
    }
}

/// `GET /session/:id/status`.
pub fn status<'a>(
    session: &Session,
    clients: impl Iterator<Item = &'a Presence>,
    turn_error: Option<&Value>,
) -> Value {
    let mut view = json!({
        "sessionId": session.id,
        "workspaceCwd": session.info.as_ref().map(|info| &info.workspace_cwd),
        "createdAt": iso(session.created_at),
        "updatedAt": iso(session.updated_at),
    });
    if let Some(title) = &session.title {
        view["displayName"] = json!(title);
    }
    if let Some(source) = session.info.as_ref().and_then(|info| info.source_type.as_ref()) {
        view["sourceType"] = json!(source);
    }
    let clients: Vec<_> = clients.collect();
    view["clientCount"] = json!(clients.len());
    view["clients"] = json!(clients);
    // A question that nobody can answer now (a suppressed load, a time-out) is in the inbox, not here.
    let asked = session.asked_now().map(|(question, _)| question.as_ref());
    merge(&mut view, activity(asked, session.running().is_some()));
    view["openQuestionCount"] = json!(session.open().count());
    view["hasTurnError"] = json!(turn_error.is_some());
    if let Some(error) = turn_error {
        view["turnError"] = error.clone();
    }
    view["queuedPromptCount"] = json!(session.queue.len());
    view
}

/// A row of a session list, for a stored session.
pub fn stored_row(row: &SessionRow, open: &[Question]) -> Value {
    let mut view = json!({
        "sessionId": row.session,
        "workspaceCwd": row.workspace_cwd,
        "createdAt": iso(row.created_at),
        "updatedAt": iso(row.updated_at),
        "displayName": row.title,
        "clientCount": 0,
        "clients": [],
        "isArchived": false,
    });
    merge(&mut view, activity(open.iter(), false));
    view["live"] = json!(false);
    view
}

/// The data of a `session_update`. The update is moved, not copied: histories are long.
pub fn update(session: &SessionId, update: Value) -> Value {
    let mut data = Map::with_capacity(2);
    data.insert("sessionId".to_owned(), json!(session));
    data.insert("update".to_owned(), update);
    Value::Object(data)
}

/// Adds the fields of one object to another.
pub fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
