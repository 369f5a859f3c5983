//! Events of a session: the envelope, and the few that a client acts on.

use holdpoint_model::ids::{Generation, PromptId, QuestionId};
use holdpoint_model::question::{Question, TOOL_NAME, parse_questions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::question::{AnsweredBy, OptionView};

/// One event as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its place on the session's stream; frames for one subscriber only have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The version of the envelope.
    #[serde(default)]
    pub v: u32,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: String,
    /// The prompt whose turn it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// The particulars.
    #[serde(default)]
    pub data: Value,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What an event means to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// Something that the agent said or did.
    Update(Update),
    /// A decision is wanted.
    PermissionRequest(Box<PermissionRequest>),
    /// A decision was made, or is not wanted any more.
    PermissionResolved(Box<PermissionResolved>),
    /// A prompt waits behind others.
    PromptQueued(Option<PromptId>),
    /// A queued prompt starts.
    PromptStarted(Option<PromptId>),
    /// Somebody cancelled the turn.
    PromptCancelled,
    /// A turn ended.
    TurnComplete(TurnComplete),
    /// A turn failed.
    TurnError(TurnError),
    /// The session was closed; the stream ends.
    SessionClosed {
        /// Why.
        reason: String,
    },
    /// The session's agent or daemon went away; the stream ends.
    SessionDied {
        /// Why.
        reason: String,
    },
    /// The cursor could not be honoured: something may have been missed.
    Resync(Resync),
    /// Everything that the cursor asked for has been sent.
    ReplayComplete,
    /// This reader was too slow; the stream ends.
    Evicted,
    /// History was cut short in a replay.
    HistoryTruncated,
    /// Anything else.
    Other,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// What a person said.
    UserText(String),
    /// What the agent says.
    AgentText(String),
    /// What the agent thinks.
    Thought(String),
    /// A tool call, from its first frame to its last.
    Tool(ToolCall),
    /// Anything else.
    Other,
}

/// A frame about a tool call. Later frames may leave out what earlier ones said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// Its identity in the session.
    pub id: String,
    /// The tool.
    pub tool: Option<String>,
    /// The call in a few words.
    pub title: Option<String>,
    /// `pending`, `in_progress`, `completed`, `failed`.
    pub status: Option<String>,
    /// The arguments.
    pub input: Option<Value>,
    /// Whether the arguments are still being written.
    pub preparing: bool,
    /// The text of the result.
    pub text: Option<String>,
}

impl ToolCall {
    /// Whether the call is a question to a person.
    pub fn is_question(&self) -> bool {
        self.tool.as_deref() == Some(TOOL_NAME)
    }
}

/// A decision is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRequest {
    /// The live asking.
    pub request_id: String,
    /// The durable identity, where the daemon has one.
    pub question_id: Option<QuestionId>,
    /// Its generation.
    pub generation: Option<Generation>,
    /// The parts, if it is a question.
    pub questions: Option<Vec<Question>>,
    /// The tool call, as it came.
    pub tool_call: Value,
    /// What can be chosen.
    pub options: Vec<OptionView>,
}

/// A decision was made.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionResolved {
    /// The live asking.
    pub request_id: String,
    /// The durable identity, where the daemon has one.
    pub question_id: Option<QuestionId>,
    /// `selected` or `cancelled`.
    pub outcome: String,
    /// The chosen option.
    pub option_id: Option<String>,
    /// The answers, by index.
    pub answers: Option<Value>,
    /// Who.
    pub answered_by: Option<AnsweredBy>,
    /// The client that voted.
    pub voter: Option<String>,
    /// Nobody decided: it is only not asked any more, and stays open. Says why.
    pub unasked: Option<String>,
}

/// A turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnComplete {
    /// Whose turn.
    pub prompt_id: Option<PromptId>,
    /// `end_turn`, `cancelled`, `max_tokens`, `refusal`, …
    pub stop_reason: String,
    /// The turn ended without a decision, and its question stays open (R10).
    pub parked: bool,
}

/// A turn failed.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnError {
    /// Whose turn.
    pub prompt_id: Option<PromptId>,
    /// What to tell a person.
    pub message: String,
    /// The stable name of the failure.
    pub code: Option<String>,
}

/// Why a cursor was not honoured.
#[derive(Clone, Debug, PartialEq)]
pub struct Resync {
    /// `ring_evicted`, `epoch_reset`, …
    pub reason: String,
}

impl Event {
    /// What it means.
    pub fn parse(&self) -> EventKind {
        let data = &self.data;
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match self.kind.as_str() {
            // On a stream the update is wrapped with its session; in a transcript it is the data itself.
            "session_update" => EventKind::Update(update(data.get("update").unwrap_or(data))),
            "permission_request" => match permission_request(data) {
                Some(request) => EventKind::PermissionRequest(Box::new(request)),
                None => EventKind::Other,
            },
            "permission_resolved" => EventKind::PermissionResolved(Box::new(self.permission_resolved())),
            "pending_prompt_added" => EventKind::PromptQueued(self.prompt()),
            "pending_prompt_started" => EventKind::PromptStarted(self.prompt()),
            "prompt_cancelled" => EventKind::PromptCancelled,
            "turn_complete" => EventKind::TurnComplete(TurnComplete {
                prompt_id: self.prompt(),
                stop_reason: text("stopReason"),
                parked: data.get("parked").and_then(Value::as_bool).unwrap_or(false),
            }),
            "turn_error" => EventKind::TurnError(TurnError {
                prompt_id: self.prompt(),
                message: text("message"),
                code: string(data, "code"),
            }),
            "session_closed" => EventKind::SessionClosed { reason: text("reason") },
            "session_died" => EventKind::SessionDied { reason: text("reason") },
            "state_resync_required" => EventKind::Resync(Resync { reason: text("reason") }),
            "replay_complete" => EventKind::ReplayComplete,
            "client_evicted" => EventKind::Evicted,
            "history_truncated" => EventKind::HistoryTruncated,
            _ => EventKind::Other,
        }
    }

    /// The prompt, from the particulars or else the envelope.
    fn prompt(&self) -> Option<PromptId> {
        string(&self.data, "promptId")
            .and_then(|id| PromptId::new(id).ok())
            .or_else(|| self.prompt_id.clone())
    }

    fn permission_resolved(&self) -> PermissionResolved {
        let data = &self.data;
        let outcome = data.get("outcome");
        PermissionResolved {
            request_id: string(data, "requestId").unwrap_or_default(),
            question_id: string(data, "questionId").and_then(|id| QuestionId::new(id).ok()),
            outcome: outcome.and_then(|outcome| string(outcome, "outcome")).unwrap_or_default(),
            option_id: outcome.and_then(|outcome| string(outcome, "optionId")),
            answers: data.get("answers").filter(|answers| !answers.is_null()).cloned(),
            answered_by: data.get("answeredBy").and_then(|by| serde_json::from_value(by.clone()).ok()),
            voter: string(data, "voterClientId"),
            unasked: data
                .get("open")
                .and_then(Value::as_bool)
                .filter(|open| *open)
                .map(|_| string(data, "cause").unwrap_or_default()),
        }
    }
}

fn string(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn update(update: &Value) -> Update {
    let content = || string(update.get("content").unwrap_or(&Value::Null), "text").unwrap_or_default();
    match update.get("sessionUpdate").and_then(Value::as_str) {
        Some("user_message_chunk") => Update::UserText(content()),
        Some("agent_message_chunk") => Update::AgentText(content()),
        Some("agent_thought_chunk") => Update::Thought(content()),
        Some("tool_call" | "tool_call_update") => Update::Tool(tool_call(update)),
        _ => Update::Other,
    }
}

fn tool_call(update: &Value) -> ToolCall {
    let meta = update.get("_meta").unwrap_or(&Value::Null);
    let text = update.get("content").and_then(Value::as_array).map(|content| {
        content.iter().filter_map(|part| string(part.get("content")?, "text")).collect::<Vec<_>>().join("\n")
    });
    ToolCall {
        id: string(update, "toolCallId").unwrap_or_default(),
        tool: string(meta, "toolName"),
        title: string(update, "title").filter(|title| !title.is_empty()),
        status: string(update, "status"),
        input: update.get("rawInput").filter(|input| !is_empty(input)).cloned(),
        preparing: string(meta, "phase").as_deref() == Some("preparing"),
        text: text.filter(|text| !text.is_empty()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn permission_request(data: &Value) -> Option<PermissionRequest> {
    let tool_call = data.get("toolCall").cloned().unwrap_or(Value::Null);
    let meta = tool_call.get("_meta").unwrap_or(&Value::Null);
    let is_question = string(meta, "qwenInteractionKind").as_deref() == Some("user_question")
        || string(meta, "toolName").as_deref() == Some(TOOL_NAME);
    let questions = if is_question {
        meta.get("qwenQuestions")
            .map(|questions| serde_json::json!({ "questions": questions }))
            .and_then(|args| parse_questions(&args).ok())
            .or_else(|| tool_call.get("rawInput").and_then(|args| parse_questions(args).ok()))
    } else {
        None
    };
    Some(PermissionRequest {
        request_id: string(data, "requestId")?,
        question_id: string(data, "questionId").and_then(|id| QuestionId::new(id).ok()),
        generation: data.get("generation").and_then(Value::as_u64).map(Generation),
        questions,
        options: data
            .get("options")
            .and_then(|options| serde_json::from_value(options.clone()).ok())
            .unwrap_or_default(),
        tool_call,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, data: Value) -> Event {
        serde_json::from_value(json!({"v": 1, "id": 1, "type": kind, "data": data})).unwrap()
    }

    #[test]
    fn an_update_is_read_from_a_stream_and_from_a_transcript() {
        let update =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}});
        for data in [json!({"sessionId": "s", "update": update}), update.clone()] {
            let got = event("session_update", data).parse();
            assert_eq!(got, EventKind::Update(Update::AgentText("hi".into())));
        }
    }

    #[test]
    fn a_question_is_known_by_its_meta_and_read_by_the_one_parser() {
        let questions = json!([{"question": "Which?", "header": "Colour",
            "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]);
        let kind = event(
            "permission_request",
            json!({"requestId": "r1", "sessionId": "s", "questionId": "q_1", "generation": 1,
                   "toolCall": {"toolCallId": "c", "rawInput": {"questions": questions},
                     "_meta": {"toolName": "ask_user_question", "qwenInteractionKind": "user_question", "qwenQuestions": questions}},
                   "options": [{"optionId": "proceed_once", "name": "Submit", "kind": "allow_once"}]}),
        )
        .parse();
        let EventKind::PermissionRequest(request) = kind else { panic!("{kind:?}") };
        assert_eq!(request.questions.as_ref().map(Vec::len), Some(1));
        assert_eq!(request.generation, Some(Generation(1)));
        assert_eq!(request.options[0].label, "Submit");
    }

    #[test]
    fn r10_a_parked_end_is_told_from_a_cancelled_one() {
        let parked =
            event("turn_complete", json!({"stopReason": "cancelled", "promptId": "p", "parked": true}))
                .parse();
        let EventKind::TurnComplete(end) = parked else { panic!("{parked:?}") };
        assert!(end.parked);
        assert_eq!(end.prompt_id, PromptId::new("p").ok());
    }

    #[test]
    fn odd_events_are_no_error() {
        for data in [json!(null), json!(7), json!({"update": 1}), json!({"outcome": "x"})] {
            for kind in
                ["session_update", "permission_request", "permission_resolved", "turn_error", "new_thing"]
            {
                let _ = event(kind, data.clone()).parse();
            }
        }
    }
}
