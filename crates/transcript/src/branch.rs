//! A session copied into a new one: the same history, with what dangles closed on disk, since a copy asks nobody
//! (E7, CR20).

use camino::Utf8Path;
use holdpoint_model::history::{Content, FunctionResponse};
use holdpoint_model::ids::{RecordId, SessionId};
use holdpoint_model::restore::repair_text;

use crate::chain::Walk;
use crate::error::{BranchError, ReadError};
use crate::record::{Cause, Kind, Record, ToolCallResult};
use crate::tail::{self, open, read_error};
use crate::writer::{Durability, Writer};

/// Copies the session at `from` to `to`, where no file may be. Only the path from the last record to the root is
/// copied; what a rewind left behind is not. The copy is durable when this returns.
///
/// # Errors
/// The original cannot be read, the copy cannot be written, or there is a file already.
pub fn branch(from: &Utf8Path, to: &Utf8Path, session: &SessionId) -> Result<(), BranchError> {
    let mut records = records(from)?;
    records.extend(repairs(from, session)?);
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

fn repairs(path: &Utf8Path, session: &SessionId) -> Result<Vec<Record>, ReadError> {
    let scan = tail::scan(path)?;
    let mut parent = scan.next_parent;
    let Some(turn) = scan.tail.turn() else { return Ok(Vec::new()) };
    let dangling = turn.calls.iter().filter(|call| call.result.is_none());
    let made = dangling.filter_map(|call| {
        let id = call.id.clone()?;
        let uuid = RecordId::new(uuid::Uuid::now_v7().to_string()).ok()?;
        let mut record = Record::new(Kind::ToolResult, uuid, session, jiff::Timestamp::now());
        record.parent = std::mem::replace(&mut parent, record.as_parent());
        record.cwd = scan.cwd.clone();
        record.tool_result = Some(ToolCallResult {
            call_id: Some(id.clone()),
            status: Some("cancelled".to_owned()),
            execution_status: Some("not_started".to_owned()),
            ..ToolCallResult::default()
        });
        let text = repair_text(&call.name);
        record.message = Some(Content::response(FunctionResponse::error(id, call.name.clone(), text)));
        record.set_own("cause", Cause::OrphanRepair.as_str());
        Some(record)
    });
    Ok(made.collect())
}

#[cfg(test)]
mod tests {
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
}
