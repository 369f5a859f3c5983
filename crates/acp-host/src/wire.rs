//! The frames that we build and the results that we read: plain functions over JSON, because typed messages of
//! the SDK lose what they do not know (trap 11).

use holdpoint_engine::port::{
    AgentInfo, AgentPrompt, AgentTail, NewSession, PromptEnd, PromptKind, TakeUp, TakenUp,
};
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use serde_json::{Map, Value, json};

use crate::config::Restore;

/// The protocol version that we speak.
pub(crate) const PROTOCOL_VERSION: u64 = 1;

const SUPPRESS: &str = "qwen.daemon.suppressRestoreAskUserQuestion";
const RESTORE: &str = "qwen.daemon.restoreAskUserQuestion";
const REPLAY_MODE: &str = "qwen.session.loadReplayMode";
const REPLAY: &str = "qwen.session.loadReplay";
const INVOCATION: &str = "qwen-code/invocation";
const CONTINUE: &str = "holdpoint.continue";
const STORED: &str = "holdpoint.storedAnswers";
const MODE: &str = "holdpoint.approvalMode";
const SESSION: &str = "holdpoint.sessionId";
const TAIL: &str = "holdpoint.tail";
const DAEMON: &str = "holdpoint.daemon";
const AGENT: &str = "holdpoint.agent";

/// What an agent said about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hello {
    /// For the engine.
    pub info: AgentInfo,
    /// Whether it has `session/close`.
    pub can_close: bool,
}

/// Params of `initialize`.
pub(crate) fn initialize(client_version: &str) -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "clientInfo": { "name": "holdpoint", "title": "Holdpoint", "version": client_version },
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "_meta": { DAEMON: { "v": 1 } },
    })
}

/// Reads the result of `initialize`.
pub(crate) fn hello(result: &Value) -> Result<Hello, String> {
    match result.get("protocolVersion") {
        Some(Value::Number(n)) if n.as_u64() == Some(PROTOCOL_VERSION) => {}
        Some(Value::Number(n)) => {
            return Err(format!(
                "it speaks version {n} of ACP, and this daemon speaks version {PROTOCOL_VERSION}; \
                 install a version of the agent that speaks it"
            ));
        }
        _ => return Err("its answer to initialize names no protocol version: is this an ACP agent?".into()),
    }
    let capabilities = &result["agentCapabilities"];
    let session = &capabilities["sessionCapabilities"];
    let ours = result.pointer(&format!("/_meta/{AGENT}")).filter(|v| v.is_object());
    let text = |key: &str| result["agentInfo"][key].as_str().unwrap_or_default().to_owned();
    Ok(Hello {
        info: AgentInfo {
            name: text("name"),
            version: text("version"),
            ours: ours.is_some(),
            model: ours.and_then(|o| o["model"].as_str()).map(str::to_owned),
            can_load: capabilities["loadSession"] == Value::Bool(true),
            can_resume: session["resume"].is_object(),
        },
        can_close: session["close"].is_object(),
    })
}

/// Params of `session/new`.
pub(crate) fn new_session(new: &NewSession) -> Value {
    let mut meta = Map::new();
    meta.insert(SESSION.into(), new.session.as_str().into());
    if let Some(mode) = &new.approval_mode {
        meta.insert(MODE.into(), mode.as_str().into());
    }
    json!({ "cwd": new.cwd, "mcpServers": [], "_meta": meta })
}

/// Params of `session/load` (`load`) or `session/resume`.
pub(crate) fn take_up(take: &TakeUp, load: bool, restore: Restore) -> Value {
    let mut meta = Map::new();
    if load {
        meta.insert(REPLAY_MODE.into(), "bulk".into());
    }
    if take.suppress || restore == Restore::Off {
        meta.insert(SUPPRESS.into(), true.into());
    }
    if !take.stored.is_empty() {
        let stored = take.stored.iter().map(|end| {
            json!({
                "turnRecord": end.turn.as_ref().map(RecordId::as_str),
                "callId": end.call.as_str(),
                "response": end.response,
            })
        });
        meta.insert(STORED.into(), stored.collect());
    }
    if let Some(mode) = &take.approval_mode {
        meta.insert(MODE.into(), mode.as_str().into());
    }
    json!({ "sessionId": take.session.as_str(), "cwd": take.cwd, "mcpServers": [], "_meta": meta })
}

/// Params of `session/prompt`.
pub(crate) fn prompt(prompt: &AgentPrompt) -> Value {
    let mut invocation = json!({
        "version": 1,
        "sessionId": prompt.session.as_str(),
        "promptId": prompt.prompt.as_str(),
    });
    if let Some(client) = &prompt.client {
        invocation["originatorClientId"] = client.as_str().into();
    }
    let mut meta = Map::new();
    meta.insert(INVOCATION.into(), invocation);
    let blocks = match &prompt.kind {
        PromptKind::Client { blocks } => blocks.clone(),
        PromptKind::Restore => {
            meta.insert(RESTORE.into(), true.into());
            Vec::new()
        }
        PromptKind::Continue => {
            meta.insert(CONTINUE.into(), true.into());
            Vec::new()
        }
    };
    json!({ "sessionId": prompt.session.as_str(), "prompt": blocks, "_meta": meta })
}

/// Reads the result of `session/prompt`.
pub(crate) fn prompt_end(mut result: Value) -> Result<PromptEnd, String> {
    let Some(stop_reason) = result["stopReason"].as_str().map(str::to_owned) else {
        return Err("the agent ended the prompt without a stop reason".into());
    };
    let meta = result.get_mut("_meta").map(Value::take).unwrap_or_default();
    Ok(PromptEnd { stop_reason, meta })
}

/// Reads the id of a new session. It becomes a file name and a path of our routes, so one that is not an id in
/// our grammar is refused here.
pub(crate) fn new_session_id(result: &Value) -> Result<SessionId, String> {
    let id = result["sessionId"].as_str().ok_or("the agent made a session without an id")?;
    SessionId::new(id)
        .map_err(|error| format!("the agent made a session with an id that cannot be used: {error}"))
}

/// Reads what `session/new`, `session/load` and `session/resume` have in common.
pub(crate) fn taken_up(session: SessionId, mut result: Value, restore: Restore) -> TakenUp {
    let meta = result.get_mut("_meta").map(Value::take).unwrap_or_default();
    let mut state = Map::new();
    for key in ["modes", "models", "configOptions"] {
        if let Some(value) = result.get_mut(key) {
            state.insert(key.into(), value.take());
        }
    }
    TakenUp {
        session: Some(session),
        hint: restore == Restore::Native && meta[RESTORE] == Value::Bool(true),
        tail: meta.get(TAIL).and_then(tail),
        state: Value::Object(state),
        replay: Vec::new(),
    }
}

/// The updates of a replay that came in the result of `session/load`; `None` if the agent sends them one by one.
pub(crate) fn bulk_replay(result: &mut Value) -> Option<Vec<Value>> {
    match result.get_mut("_meta")?.get_mut(REPLAY)?.get_mut("updates")?.take() {
        Value::Array(updates) => Some(updates),
        _ => None,
    }
}

fn tail(tail: &Value) -> Option<AgentTail> {
    let tail = tail.as_object()?;
    let text = |key: &str| tail.get(key).and_then(Value::as_str);
    let open = tail.get("open").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Some(AgentTail {
        turn: text("turnRecord").and_then(|id| RecordId::new(id).ok()),
        open: open.iter().filter_map(|id| CallId::new(id.as_str()?).ok()).collect(),
        last_prompt: text("lastPromptId").and_then(|id| PromptId::new(id).ok()),
        restorable: tail.get("restorable") == Some(&Value::Bool(true)),
    })
}

/// Takes a `session/update` apart: the session and the update. What stands beside the update in `_meta` is put
/// into the update's own, where that has no such key.
pub(crate) fn session_update(mut params: Value) -> Option<(String, Value)> {
    let session = params["sessionId"].as_str()?.to_owned();
    let mut update = params.get_mut("update")?.take();
    let fields = update.as_object_mut()?;
    if let Some(Value::Object(outer)) = params.get_mut("_meta").map(Value::take) {
        let inner = fields.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if let Some(inner) = inner.as_object_mut() {
            for (key, value) in outer {
                inner.entry(key).or_insert(value);
            }
        }
    }
    Some((session, update))
}

/// About how many bytes of memory a value takes: for bounds, not for bills.
pub(crate) fn weight(value: &Value) -> usize {
    const NODE: usize = 32;
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
