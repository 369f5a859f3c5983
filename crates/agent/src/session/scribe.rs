//! The records of a turn, and the updates that show them: live and replayed ones come from the same code.

use holdpoint_model::asked::Asked;
use holdpoint_model::history::{Content, FunctionResponse, Part, Role};
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use holdpoint_model::question::Question;
use holdpoint_transcript::replay::{Converter, Finalise, question_answers};
use holdpoint_transcript::{Cause, Kind, Record, ToolCallResult};
use serde_json::{Value, json};

use crate::provider::Usage;

/// Writes the records of one turn.
#[derive(Clone, Debug)]
pub(crate) struct Scribe {
    pub(crate) session: SessionId,
    pub(crate) cwd: String,
    pub(crate) version: String,
    pub(crate) model: String,
    /// The prompt that the turn belongs to, if the client numbers them.
    pub(crate) prompt: Option<PromptId>,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// What the model reads.
    pub(crate) text: String,
    /// Its author and kind (I3).
    pub(crate) cause: Cause,
    /// Whether the model reads it as an error.
    pub(crate) is_error: bool,
    /// What a person is shown, where that is not the text.
    pub(crate) content: Option<Vec<Value>>,
    /// The answers, for `rawOutput`.
    pub(crate) answers: Option<Value>,
}

impl Outcome {
    /// An error that has only a text.
    pub(crate) fn error(cause: Cause, text: impl Into<String>) -> Self {
        Self { text: text.into(), cause, is_error: true, content: None, answers: None }
    }

    /// The outcome of a question; `None` where nothing may be written (R10).
    pub(crate) fn of_question(asked: &Asked, questions: &[Question]) -> Option<Self> {
        let (text, is_error) = asked.result(questions)?;
        let cause = match asked {
            Asked::Answered(_) => Cause::Answered,
            Asked::Declined => Cause::Declined,
            Asked::CancelledBeforeAnswer => Cause::Cancelled,
            Asked::TimedOut => Cause::TimedOut,
            Asked::Halted | Asked::Unattended => return None,
        };
        let answers = match asked {
            Asked::Answered(answers) => Some(question_answers(questions, answers, &text)),
            _ => None,
        };
        Some(Self { text, cause, is_error, content: None, answers })
    }
}

/// A new id for a record. Ids of version 7 sort by time.
pub(crate) fn new_record_id() -> RecordId {
    RecordId::new(uuid::Uuid::now_v7().to_string()).expect("a UUID is a valid record id")
}

/// A new id for a call whose provider sent none, or one that is used.
pub(crate) fn new_call_id() -> CallId {
    CallId::new(format!("call_{}", uuid::Uuid::now_v7().simple())).expect("a UUID is a valid call id")
}

impl Scribe {
    fn record(&self, kind: Kind) -> Record {
        self.record_with(kind, new_record_id())
    }

    fn record_with(&self, kind: Kind, id: RecordId) -> Record {
        let mut record = Record::new(kind, id, &self.session, jiff::Timestamp::now());
        record.cwd = Some(self.cwd.clone());
        record.version = Some(self.version.clone());
        record.prompt_id = self.prompt.clone();
        record
    }

    /// A prompt.
    pub(crate) fn user(&self, parts: Vec<Part>) -> Record {
        let mut record = self.record(Kind::User);
        record.message = Some(Content { role: Role::User, parts });
        record
    }

    /// A model turn.
    pub(crate) fn assistant(&self, id: RecordId, parts: Vec<Part>, usage: Option<Usage>) -> Record {
        let mut record = self.record_with(Kind::Assistant, id);
        record.message = Some(Content { role: Role::Model, parts });
        record.model = Some(self.model.clone());
        record.usage = usage.map(|usage| {
            json!({
                "promptTokenCount": usage.input,
                "candidatesTokenCount": usage.output,
                "totalTokenCount": usage.total,
                "thoughtsTokenCount": usage.thought,
                "cachedContentTokenCount": usage.cached_read,
            })
        });
        record
    }

    /// The result of a call.
    pub(crate) fn result(&self, call: &CallId, tool: &str, outcome: Outcome) -> Record {
        let mut record = self.record(Kind::ToolResult);
        let (status, execution) = match outcome.cause {
            Cause::Answered => ("success", "success"),
            Cause::Ran if outcome.is_error => ("error", "error"),
            Cause::Ran => ("success", "success"),
            Cause::Declined | Cause::Cancelled | Cause::TimedOut | Cause::NotAllowed => {
                ("cancelled", "not_started")
            }
            Cause::Policy | Cause::Invalid => ("error", "not_started"),
            Cause::OrphanRepair => ("error", "unknown"),
        };
        record.tool_result = Some(ToolCallResult {
            call_id: Some(call.clone()),
            status: Some(status.to_owned()),
            execution_status: Some(execution.to_owned()),
            result_display: outcome.answers,
            ..ToolCallResult::default()
        });
        let response = if outcome.is_error {
            FunctionResponse::error(call.clone(), tool, outcome.text)
        } else {
            FunctionResponse::output(call.clone(), tool, outcome.text)
        };
        record.message = Some(Content::response(response));
        record.set_own("cause", outcome.cause.as_str());
        if let Some(content) = outcome.content {
            record.set_own("content", content);
        }
        record
    }

    /// The end of a turn. A parked turn has none: it is not over (R10).
    pub(crate) fn turn_result(&self, end: &TurnRecord<'_>) -> Record {
        let mut record = self.record(Kind::System);
        record.subtype = Some("turn_result".to_owned());
        let ended = format!("{:.3}", jiff::Timestamp::now());
        let mut payload = json!({
            "promptId": self.prompt,
            "state": end.state,
            "stopReason": end.stop_reason,
            "startedAt": format!("{:.3}", end.started),
            "endedAt": ended,
            // The whole of it is in the prompt's own record.
            "promptText": end.prompt_text.chars().take(200).collect::<String>(),
        });
        if end.state == "cancelled" {
            payload["cancelledAt"] = json!(ended);
        }
        if let Some(error) = end.error {
            payload["error"] = json!(error);
        }
        record.system_payload = Some(payload);
        record
    }
}

/// What is written of a turn's end.
#[derive(Debug)]
pub(crate) struct TurnRecord<'a> {
    pub(crate) state: &'static str,
    pub(crate) stop_reason: Option<&'static str>,
    pub(crate) started: jiff::Timestamp,
    pub(crate) prompt_text: &'a str,
    pub(crate) error: Option<&'a str>,
}

/// The updates that show a record.
pub(crate) fn updates(record: &Record) -> Vec<Value> {
    let mut updates = Vec::new();
    Converter::new(&Finalise::Leave).record(record, &mut updates);
    updates
}
