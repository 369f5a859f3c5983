//! Reading the params of requests. Each error says which field and what was wanted.

use agent_client_protocol::Error;
use camino::Utf8PathBuf;
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use serde_json::Value;

use crate::rpc::invalid_params;
use crate::tools::ApprovalMode;

/// Keys of `_meta`, as WIRE d.5 and the daemon name them.
pub(crate) mod keys {
    pub(crate) const SUPPRESS: &str = "qwen.daemon.suppressRestoreAskUserQuestion";
    pub(crate) const RESTORE: &str = "qwen.daemon.restoreAskUserQuestion";
    pub(crate) const REPLAY_MODE: &str = "qwen.session.loadReplayMode";
    pub(crate) const REPLAY_PAGE: &str = "qwen.session.loadReplayPageSize";
    pub(crate) const REPLAY: &str = "qwen.session.loadReplay";
    pub(crate) const INVOCATION: &str = "qwen-code/invocation";
    pub(crate) const CONTINUE: &str = "holdpoint.continue";
    pub(crate) const STORED: &str = "holdpoint.storedAnswers";
    pub(crate) const MODE: &str = "holdpoint.approvalMode";
    pub(crate) const SESSION: &str = "holdpoint.sessionId";
    pub(crate) const TAIL: &str = "holdpoint.tail";
    pub(crate) const PARKED: &str = "holdpoint.parked";
    pub(crate) const TURN_RECORD: &str = "holdpoint.turnRecord";
}

/// A field of `_meta`.
pub(crate) fn meta<'a>(params: &'a Value, key: &str) -> Option<&'a Value> {
    params.get("_meta")?.get(key)
}

/// Whether a field of `_meta` is true.
pub(crate) fn flag(params: &Value, key: &str) -> bool {
    meta(params, key).and_then(Value::as_bool) == Some(true)
}

/// The session that the params name.
pub(crate) fn session_id(params: &Value) -> Result<SessionId, Error> {
    let text = params
        .get("sessionId")
        .and_then(Value::as_str)
        .ok_or_else(|| invalid_params("sessionId: is missing or not a text"))?;
    SessionId::new(text).map_err(|error| invalid_params(format!("sessionId: {error}")))
}

/// The workspace.
pub(crate) fn cwd(params: &Value) -> Result<Utf8PathBuf, Error> {
    let text = params
        .get("cwd")
        .and_then(Value::as_str)
        .ok_or_else(|| invalid_params("cwd: is missing or not a text"))?;
    let path = Utf8PathBuf::from(text);
    if !path.is_absolute() {
        return Err(invalid_params(format!("cwd: {text:?} is not an absolute path")));
    }
    Ok(path)
}

/// The approval mode that `_meta` asks for.
pub(crate) fn mode(params: &Value) -> Result<Option<ApprovalMode>, Error> {
    match meta(params, keys::MODE) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read_mode(keys::MODE, value).map(Some),
    }
}

/// Reads an approval mode.
pub(crate) fn read_mode(field: &str, value: &Value) -> Result<ApprovalMode, Error> {
    value.as_str().and_then(ApprovalMode::parse).ok_or_else(|| {
        let known: Vec<_> = ApprovalMode::ALL.iter().map(|mode| mode.id()).collect();
        invalid_params(format!("{field}: {value} is no mode; the modes are {}", known.join(", ")))
    })
}

/// An answer that the ledger holds for a call that may still dangle (I4, R21).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredAnswer {
    /// The model turn; `None` where the daemon does not know it.
    pub(crate) turn: Option<RecordId>,
    /// The call.
    pub(crate) call: CallId,
    /// The answer, as `session/request_permission` would have been answered.
    pub(crate) response: Value,
}

/// What a load or a resume asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Open {
    /// The workspace.
    pub(crate) cwd: Utf8PathBuf,
    /// The approval mode, if it is set anew.
    pub(crate) mode: Option<ApprovalMode>,
    /// This load will not re-hang (R2).
    pub(crate) suppress: bool,
    /// Answers to write first.
    pub(crate) stored: Vec<StoredAnswer>,
    /// How the history is replayed; `None` for a resume.
    pub(crate) replay: Option<ReplayMode>,
    /// The most records that are replayed.
    pub(crate) page: Option<usize>,
}

/// How a load replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayMode {
    /// As notifications, before the response.
    Live,
    /// Inside the response.
    Bulk,
}

impl Open {
    /// Reads the params of `session/load` (`replays`) or `session/resume`.
    pub(crate) fn read(params: &Value, replays: bool) -> Result<Self, Error> {
        let bulk = match meta(params, keys::REPLAY_MODE) {
            None | Some(Value::Null) => false,
            Some(Value::String(mode)) => mode == "bulk",
            Some(other) => {
                return Err(invalid_params(format!("{}: {other} is not a text", keys::REPLAY_MODE)));
            }
        };
        let stored = match meta(params, keys::STORED) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => list.iter().map(stored_answer).collect::<Result<_, _>>()?,
            Some(_) => return Err(invalid_params(format!("{}: must be a list", keys::STORED))),
        };
        Ok(Self {
            cwd: cwd(params)?,
            mode: mode(params)?,
            suppress: flag(params, keys::SUPPRESS),
            stored,
            replay: replays.then_some(if bulk { ReplayMode::Bulk } else { ReplayMode::Live }),
            page: meta(params, keys::REPLAY_PAGE)
                .and_then(Value::as_u64)
                .and_then(|size| usize::try_from(size).ok())
                .filter(|size| *size > 0),
        })
    }
}

fn stored_answer(value: &Value) -> Result<StoredAnswer, Error> {
    let wrong = |what: &str| invalid_params(format!("{}: {what}", keys::STORED));
    let turn = match value.get("turnRecord") {
        None | Some(Value::Null) => None,
        Some(turn) => {
            let id = turn.as_str().and_then(|id| RecordId::new(id).ok());
            Some(id.ok_or_else(|| wrong("turnRecord is no record id"))?)
        }
    };
    let call = value.get("callId").and_then(Value::as_str).and_then(|id| CallId::new(id).ok());
    let response = value.get("response").filter(|response| response.is_object());
    Ok(StoredAnswer {
        turn,
        call: call.ok_or_else(|| wrong("callId is missing or no call id"))?,
        response: response.cloned().ok_or_else(|| wrong("response is missing or no object"))?,
    })
}

/// The prompt id that the daemon gave the turn. One that is none in our grammar is another tool's business: the
/// turn runs without.
pub(crate) fn prompt_id(params: &Value) -> Option<PromptId> {
    let id = meta(params, keys::INVOCATION)?.get("promptId")?.as_str()?;
    PromptId::new(id).inspect_err(|error| tracing::warn!(%error, "a prompt id is not kept")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_wrong_field_is_named() {
        let cases = [
            (json!({}), "cwd"),
            (json!({"cwd": "relative"}), "absolute"),
            (json!({"cwd": "/w", "_meta": {keys::MODE: "sudo"}}), "plan, default, auto-edit, yolo"),
            (json!({"cwd": "/w", "_meta": {keys::REPLAY_MODE: 7}}), keys::REPLAY_MODE),
            (json!({"cwd": "/w", "_meta": {keys::STORED: {}}}), "must be a list"),
            (json!({"cwd": "/w", "_meta": {keys::STORED: [{"callId": ""}]}}), "callId"),
            (json!({"cwd": "/w", "_meta": {keys::STORED: [{"callId": "c"}]}}), "response"),
        ];
        for (params, wanted) in cases {
            let error = Open::read(&params, true).unwrap_err();
            assert!(error.message.contains(wanted), "{params}: {}", error.message);
        }
        for params in [json!({}), json!({"sessionId": 7}), json!({"sessionId": "../x"})] {
            assert!(session_id(&params).unwrap_err().message.starts_with("sessionId: "));
        }
    }
}
