//! A session copied into a new one: the same history, with what dangles closed on disk, since a copy asks nobody
//! (E7, CR20).

use camino::Utf8Path;
use holdpoint_model::history::{Content, FunctionResponse};
use holdpoint_model::ids::{RecordId, SessionId};
use holdpoint_model::restore::repair_text;
use serde_json::json;

use crate::chain::Walk;
use crate::error::{BranchError, ReadError};
use crate::record::{Cause, Kind, Record, ToolCallResult};
use crate::tail::{self, TailScan, open, read_error};
use crate::writer::{Durability, Writer};

/// Copies the session at `from` to `to`, where no file may be. Only the path from the last record to the root is
/// copied; what a rewind left behind is not. The copy is durable when this returns.
///
/// # Errors
/// The original cannot be read, the copy cannot be written, or there is a file already.
pub fn branch(from: &Utf8Path, to: &Utf8Path, session: &SessionId) -> Result<(), BranchError> {
    let mut records = records(from)?;
    records.extend(endings(from, session)?);
    let opened = Writer::open(to)?;
    if opened.existed {
        return Err(BranchError::Exists { path: to.to_owned() });
    }
    let mut writer = opened.writer;
    let last = records.len().saturating_sub(1);
    for (i, mut record) in records.into_iter().enumerate() {
        record.session_id = Some(session.to_string());
        let durability = if i == last { Durability::Fsync } else { Durability::Buffered };
        writer.append(&record, durability)?;
    }
    Ok(())
}

/// The records from the root to the leaf.
fn records(path: &Utf8Path) -> Result<Vec<Record>, ReadError> {
    let mut walk = Walk::new(open(path)?).map_err(|source| read_error(path, source.into()))?;
    let mut records = Vec::new();
    while let Some(placed) = walk.next().map_err(|error| read_error(path, error))? {
        records.push(placed.record);
    }
    records.reverse();
    Ok(records)
}

/// What the copy has behind the original's records: results of the calls that dangle, and the end of the turn that
/// made them. A turn that is over neither asks nor goes on by itself in the copy (E7, R20).
fn endings(path: &Utf8Path, session: &SessionId) -> Result<Vec<Record>, ReadError> {
    let TailScan { tail, next_parent: mut parent, cwd, last_prompt_id, .. } = tail::scan(path)?;
    let Some(turn) = tail.turn().filter(|turn| !turn.calls.is_empty()) else {
        return Ok(Vec::new());
    };
    let now = jiff::Timestamp::now();
    let mut record = |kind| {
        let uuid = RecordId::new(uuid::Uuid::now_v7().to_string()).expect("a UUID is a record id");
        let mut record = Record::new(kind, uuid, session, now);
        record.parent = std::mem::replace(&mut parent, record.as_parent());
        record.cwd = cwd.clone();
        record
    };
    let mut made = Vec::new();
    for call in turn.calls.iter().filter(|call| call.dangles()) {
        let Some(id) = call.id.clone() else { continue };
        let mut result = record(Kind::ToolResult);
        result.tool_result = Some(ToolCallResult {
            call_id: Some(id.clone()),
            status: Some("error".to_owned()),
            execution_status: Some("unknown".to_owned()),
            ..ToolCallResult::default()
        });
        let text = repair_text(&call.name);
        result.message = Some(Content::response(FunctionResponse::error(id, call.name.clone(), text)));
        result.set_own("cause", Cause::OrphanRepair.as_str());
        made.push(result);
    }
    if turn.ended && made.is_empty() {
        return Ok(made);
    }
    let mut end = record(Kind::System);
    end.subtype = Some("turn_result".to_owned());
    end.system_payload = Some(json!({
        "promptId": last_prompt_id,
        "state": "cancelled",
        "stopReason": "cancelled",
        "endedAt": format!("{now:.3}"),
    }));
    made.push(end);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use holdpoint_model::restore::{Interruption, NotRestorable, Restore, assess, interruption};

    use super::*;
    use crate::replay::{Finalise, Window, window};

    const ORIGINAL: &str = concat!(
        r#"{"uuid":"r1","parentUuid":null,"sessionId":"old","type":"user","message":{"role":"user","parts":[{"text":"hi"}]}}"#,
        "\n",
        r#"{"uuid":"r2","parentUuid":"r1","sessionId":"old","type":"assistant","message":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"ask_user_question","args":{}}}]}}"#,
        "\n",
    );

    #[test]
    fn e7_cr20_a_copy_has_no_open_call_and_the_original_keeps_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        let (from, to) = (dir.join("old.jsonl"), dir.join("new.jsonl"));
        std::fs::write(&from, ORIGINAL).unwrap();
        let session = SessionId::new("new").unwrap();
        branch(&from, &to, &session).unwrap();
        assert_eq!(std::fs::read_to_string(&from).unwrap(), ORIGINAL);
        let copy = window(&to, &Window::default(), &Finalise::Leave).unwrap();
        assert!(copy.open.is_empty(), "{:?}", copy.open);
        assert!(!std::fs::read_to_string(&to).unwrap().contains("\"old\""));
        assert!(matches!(branch(&from, &to, &session), Err(BranchError::Exists { .. })));
    }

    const ENDED: &str = concat!(
        r#"{"uuid":"r3","parentUuid":"r2","sessionId":"old","type":"system","subtype":"turn_result","systemPayload":{"promptId":"p","state":"completed","stopReason":"end_turn"}}"#,
        "\n",
    );

    #[test]
    fn e7_a_copy_of_a_turn_that_ended_with_a_call_open_has_no_open_call() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        let (from, to) = (dir.join("old.jsonl"), dir.join("new.jsonl"));
        std::fs::write(&from, format!("{ORIGINAL}{ENDED}")).unwrap();
        branch(&from, &to, &SessionId::new("new").unwrap()).unwrap();
        let copy = tail::scan(&to).unwrap();
        let turn = copy.tail.turn().unwrap();
        assert!(turn.open().is_empty() && turn.ended, "{turn:?}");
    }

    const ANSWERED: &str = concat!(
        r#"{"uuid":"r3","parentUuid":"r2","sessionId":"old","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"ask_user_question","response":{"output":"Blue"}}}]},"holdpoint":{"cause":"answered"}}"#,
        "\n",
    );

    #[test]
    fn e7_r20_a_copy_of_an_interrupted_turn_does_nothing_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        for (name, original) in
            [("asking", ORIGINAL.to_owned()), ("answered", format!("{ORIGINAL}{ANSWERED}"))]
        {
            let (from, to) = (dir.join(format!("{name}.jsonl")), dir.join(format!("{name}-copy.jsonl")));
            std::fs::write(&from, &original).unwrap();
            branch(&from, &to, &SessionId::new("new").unwrap()).unwrap();
            let copy = tail::scan(&to).unwrap();
            assert_eq!(assess(&copy.tail), Err(NotRestorable::TurnOver), "{name}");
            // What was answered is in the copy too, and a person can have it go on.
            assert_eq!(interruption(&copy.tail), Interruption::InterruptedPrompt, "{name}");
        }
        let from = dir.join("answered.jsonl");
        assert!(matches!(assess(&tail::scan(&from).unwrap().tail), Ok(Restore::GoOn { .. })));
    }
}
