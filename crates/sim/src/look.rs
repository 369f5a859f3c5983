//! Those who only look: what they are told agrees with itself and with what is durable (I6, I7, R4).

use holdpoint_engine::Attached;
use holdpoint_engine::wire::audit::AuditPage;
use holdpoint_ledger::{QuestionFilter, SessionFilter, StateFilter};
use holdpoint_model::ids::SessionId;
use serde_json::{Value, json};

use crate::ledger::SimLedger;
use crate::people::People;
use crate::store::Shared;

/// Reads everything that can be read of a session. Nobody else acts in between: all these reads are answered
/// from what is, in one go.
pub(crate) fn look(people: People, session: SessionId) {
    tokio::spawn(async move {
        let People { engine, store, ledger, .. } = people;
        let versions_before = versions(&ledger);
        let before = engine.status(&session, None).await;
        let filter = QuestionFilter { state: StateFilter::Open, limit: 100, ..QuestionFilter::default() };
        let inbox = engine.questions(filter).await;
        let list = engine.sessions(SessionFilter { limit: 100, ..SessionFilter::default() }).await;
        drop(engine.audit(&session, AuditPage { from: 0, limit: 1000 }).await);
        drop(engine.transcript(&session, None, false, 10).await);
        drop(engine.activity().await);
        drop(engine.prompts(&session, None).await);
        drop(engine.context(&session, None).await);
        drop(engine.heartbeat(&session, None).await);
        let after = engine.status(&session, None).await;
        let (Ok(before), Ok(after)) = (before, after) else { return };
        if before != after || versions_before != versions(&ledger) {
            // Others act too; only where nobody did does this say something.
            return;
        }
        if let Some(problem) = states(&before) {
            store.violation(format!("I6: {session}: {problem}: {before}"));
        }
        if let Ok(inbox) = inbox {
            let waits = before["isWaitingForUserQuestion"] == json!(true);
            let live = inbox.rows.iter().any(|row| {
                row["sessionId"] == json!(session)
                    && row["live"] == json!(true)
                    && row["kind"] == "user_question"
            });
            if waits != live {
                store.violation(format!("I6: {session} waits: {waits}, and the inbox says {live}"));
            }
        }
        let row =
            list.ok().and_then(|list| list.rows.into_iter().find(|row| row["sessionId"] == json!(session)));
        if let Some(row) = row {
            for field in
                ["turnState", "hasActivePrompt", "isWaitingForUserQuestion", "pendingInteractionCount"]
            {
                if row[field] != before[field] {
                    store.violation(format!(
                        "I5: {field} of {session} is {} in the list and {} in its status",
                        row[field], before[field]
                    ));
                }
            }
        }
    });
}

/// I6: a turn is exactly one of running, waiting, ended, and every field says so.
fn states(status: &Value) -> Option<&'static str> {
    let active = status["hasActivePrompt"] == json!(true);
    let asks =
        status["isWaitingForUserQuestion"] == json!(true) || status["isWaitingForPermission"] == json!(true);
    match status["turnState"].as_str() {
        Some("running") if asks => Some("it runs, and asks"),
        Some("running" | "waiting") if !active => Some("it has not ended, and no prompt is active"),
        Some("ended") if active || asks => Some("it has ended, and does something"),
        Some("running" | "waiting" | "ended") => None,
        _ => Some("it says nothing"),
    }
}

/// R1, R2, R4: a replay shows a call as failed, or it is asked; never both, never neither.
pub(crate) fn replay_agrees(store: &Shared, attached: &Attached, by_a_client: bool, restore: bool) {
    let Some(replay) = &attached.replay else { return };
    let shown = serde_json::to_value(&replay.compacted).unwrap_or_default();
    let status = |wanted: &str| {
        let events = shown.as_array().into_iter().flatten().map(|event| &event["data"]["update"]);
        events
            .filter(|update| update["status"] == wanted)
            .map(|u| u["toolCallId"].clone())
            .collect::<Vec<_>>()
    };
    let session = &attached.session;
    let (waits, failed) = (status("in_progress"), status("failed"));
    // A turn that ended while the history was read has its end in the journal.
    let ended = replay.journal.iter().any(|event| event.get().contains("\"turn_complete\""));
    if !waits.is_empty() && !attached.has_active_prompt && !ended {
        store.violation(format!("R4: {session} shows {waits:?} in progress, and nothing goes on"));
    }
    if !restore && !waits.is_empty() && !attached.attached {
        store.violation(format!("S3: {session} shows {waits:?} in progress, and the flag is off"));
    }
    let asked: Vec<_> = replay
        .journal
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event.get()).ok())
        .filter(|event| event["type"] == "permission_request")
        .map(|event| event["data"]["toolCall"]["toolCallId"].clone())
        .collect();
    if by_a_client && let Some(call) = failed.iter().find(|call| asked.contains(call)) {
        store.violation(format!("R2: {session} shows {call} as failed, and asks it"));
    }
}

fn versions(ledger: &SimLedger) -> Vec<u64> {
    ledger.sessions().iter().map(|session| session.version).collect()
}
