//! Putting one question, or one request for permission, to the client (Q3, Q5), and reading the answer.

use holdpoint_model::answers::Answers;
use holdpoint_model::asked::{Asked, CANCEL_REASON_KEY, CAUSE_KEY};
use holdpoint_model::ids::{CallId, RecordId};
use holdpoint_model::question::{OPTION_CANCEL, OPTION_SUBMIT, Question, TOOL_NAME, title};
use holdpoint_transcript::replay::describe;
use serde_json::{Map, Value, json};

use super::stop::Stop;
use crate::client::Client;
use crate::params::keys;
use crate::rpc::{AskError, Peer, Sent};
use crate::tools::PlannedCall;

/// "Always": the option that allows a tool for the rest of the session.
const OPTION_ALWAYS: &str = "proceed_always";

/// What identifies a call towards the client.
#[derive(Clone, Debug)]
pub(crate) struct CallRef {
    pub(crate) session: String,
    pub(crate) turn: RecordId,
    pub(crate) call: CallId,
    pub(crate) name: String,
    pub(crate) args: Value,
}

/// Whether a client can be asked this at all (Q3); the text is for the model.
pub(crate) fn askable(client: Client, questions: &[Question]) -> Result<(), &'static str> {
    match (client, questions) {
        (Client::Daemon | Client::Qwen | Client::Forms, _) => Ok(()),
        (Client::Plain, [only]) if !only.multi_select => Ok(()),
        (Client::Plain, _) => {
            Err("This client can show only one question at a time, and only one choice of \
            its options. Ask with a single question whose multiSelect is not true.")
        }
    }
}

/// How an asking ended.
#[derive(Debug)]
pub(crate) enum AskEnd {
    /// As the model of questions has it.
    Ended(Asked),
    /// The client's answer makes no sense; the text says why.
    Unreadable(String),
}

/// A question on its way to people.
pub(crate) struct Asking {
    sent: Sent,
    client: Client,
    questions: Vec<Question>,
    /// With the flag on, or asked again: an end that nobody decided leaves it open (R10).
    keep_open: bool,
    restored: bool,
    stop: Stop,
}

impl Asking {
    /// Sends the question.
    pub(crate) fn send(
        peer: &Peer,
        client: Client,
        call: &CallRef,
        questions: Vec<Question>,
        restored: bool,
        flag: bool,
        stop: Stop,
    ) -> Self {
        let (method, params) = match client {
            Client::Daemon | Client::Qwen => ("session/request_permission", permission(call, &questions)),
            Client::Forms => ("elicitation/create", form(call, &questions)),
            Client::Plain => ("session/request_permission", choice(call, &questions)),
        };
        let sent = peer.ask(method, params);
        Self { sent, client, questions, keep_open: flag || restored, restored, stop }
    }

    /// Waits for people: for as long as it takes, or until the turn stops and the client has had its chance
    /// to say how the question ends.
    pub(crate) async fn end(self) -> AskEnd {
        let Self { sent, client, questions, keep_open, restored, stop } = self;
        let unanswered = |stop: &Stop| AskEnd::Ended(stop.end_of_question(restored, keep_open));
        let answer = tokio::select! {
            answer = sent.answer() => answer,
            () = stop.expired() => return unanswered(&stop),
        };
        let answer = match answer {
            Ok(answer) => answer,
            // Never an answer (trap 1): a client that fails on a question has decided nothing.
            Err(AskError::Gone) => return AskEnd::Ended(Asked::Unattended),
            Err(AskError::Refused(error)) => {
                tracing::warn!(code = i32::from(error.code), message = %error.message, "a question was refused by the client");
                return AskEnd::Ended(Asked::Unattended);
            }
        };
        // By ACP a client that stops a turn answers its open requests as cancelled; that is the stop, not a
        // person's no.
        if stop.is_set() && is_bare_cancel(&answer) {
            return unanswered(&stop);
        }
        let read = match client {
            Client::Daemon | Client::Qwen => Asked::from_response(&answer, &questions, keep_open),
            Client::Forms => form_answer(&answer, &questions),
            Client::Plain => choice_answer(&answer, &questions),
        };
        match read {
            Ok(asked) => AskEnd::Ended(asked),
            Err(problem) if client == Client::Daemon => {
                tracing::error!(%problem, "the daemon's answer cannot be read; the question stays open");
                AskEnd::Ended(Asked::Unattended)
            }
            Err(problem) => AskEnd::Unreadable(problem),
        }
    }
}

/// A cancelled outcome that names neither a cause nor a reason.
fn is_bare_cancel(answer: &Value) -> bool {
    let cancelled = answer.pointer("/outcome/outcome").and_then(Value::as_str) == Some("cancelled")
        || answer.get("action").and_then(Value::as_str) == Some("cancel");
    let named = answer
        .get("_meta")
        .is_some_and(|meta| meta.get(CAUSE_KEY).is_some() || meta.get(CANCEL_REASON_KEY).is_some());
    cancelled && !named
}

fn option(id: &str, name: &str, kind: &str) -> Value {
    json!({ "optionId": id, "name": name, "kind": kind })
}

/// The question as `qwen serve` and our daemon take it (WIRE b.3, d.5).
fn permission(call: &CallRef, questions: &[Question]) -> Value {
    let description = describe(&call.name, &call.args);
    json!({
        "sessionId": call.session,
        "options": [
            option(OPTION_SUBMIT, "Submit", "allow_once"),
            option(OPTION_CANCEL, "Cancel", "reject_once"),
        ],
        "toolCall": {
            "toolCallId": call.call,
            "status": "pending",
            "title": description.title,
            "kind": description.kind,
            "content": [],
            "locations": [],
            "rawInput": call.args,
            "_meta": {
                "toolName": TOOL_NAME,
                "qwenInteractionKind": "user_question",
                "qwenQuestions": questions,
                keys::TURN_RECORD: call.turn,
            },
        },
    })
}

/// The question as a form of ACP's elicitation: a choice for each question, and a field for another answer.
fn form(call: &CallRef, questions: &[Question]) -> Value {
    let mut properties = Map::new();
    for (i, question) in questions.iter().enumerate() {
        let options: Vec<Value> = question
            .options
            .iter()
            .map(|choice| json!({ "const": choice.label, "title": choice.label, "description": choice.description }))
            .collect();
        let schema = if question.multi_select {
            json!({ "type": "array", "title": question.header, "description": question.question,
                "items": { "anyOf": options } })
        } else {
            json!({ "type": "string", "title": question.header, "description": question.question,
                "oneOf": options })
        };
        properties.insert(i.to_string(), schema);
        properties.insert(
            other(i),
            json!({ "type": "string", "title": format!("{} (other)", question.header),
                "description": "Another answer, in your own words; it counts instead of the choice." }),
        );
    }
    json!({
        "mode": "form",
        "sessionId": call.session,
        "toolCallId": call.call,
        "message": title(questions),
        "requestedSchema": { "type": "object", "properties": properties, "required": [] },
        "_meta": { "toolName": TOOL_NAME, keys::TURN_RECORD: call.turn },
    })
}

fn other(index: usize) -> String {
    format!("{index}_other")
}

fn form_answer(answer: &Value, questions: &[Question]) -> Result<Asked, String> {
    match answer.get("action").and_then(Value::as_str) {
        Some("accept") => {
            let content = answer.get("content");
            let given = |key: &str| {
                let value = content?.get(key)?;
                let text = match value {
                    Value::String(text) => text.trim().to_owned(),
                    Value::Array(list) => {
                        list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                    }
                    Value::Null => return None,
                    other => other.to_string(),
                };
                (!text.is_empty()).then_some(text)
            };
            let pairs = (0..questions.len()).filter_map(|i| {
                let text = given(&other(i)).or_else(|| given(&i.to_string()))?;
                Some((u8::try_from(i).ok()?, text))
            });
            Answers::from_pairs(pairs)
                .map(Asked::Answered)
                .ok_or_else(|| "no field of the form was filled in".to_owned())
        }
        Some("decline" | "cancel") => Ok(Asked::Declined),
        _ => Err("the action is none of accept, decline and cancel".to_owned()),
    }
}

/// One single-choice question as a permission whose options are the labels.
fn choice(call: &CallRef, questions: &[Question]) -> Value {
    let question = questions.first();
    let mut options: Vec<Value> = question
        .iter()
        .flat_map(|question| question.options.iter().enumerate())
        .map(|(i, choice)| option(&format!("choice_{i}"), &choice.label, "allow_once"))
        .collect();
    options.push(option(OPTION_CANCEL, "Decline", "reject_once"));
    let explained: String = question
        .iter()
        .flat_map(|question| &question.options)
        .map(|choice| format!("\n- {}: {}", choice.label, choice.description))
        .collect();
    let text = format!("{}\n{explained}", title(questions));
    json!({
        "sessionId": call.session,
        "options": options,
        "toolCall": {
            "toolCallId": call.call,
            "status": "pending",
            "title": title(questions),
            "kind": "think",
            "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
            "locations": [],
            "rawInput": call.args,
            "_meta": { "toolName": TOOL_NAME, keys::TURN_RECORD: call.turn },
        },
    })
}

fn choice_answer(answer: &Value, questions: &[Question]) -> Result<Asked, String> {
    let picked = match answer.pointer("/outcome/outcome").and_then(Value::as_str) {
        Some("selected") => answer.pointer("/outcome/optionId").and_then(Value::as_str),
        Some("cancelled") => return Ok(Asked::Declined),
        _ => return Err("the outcome is neither \"selected\" nor \"cancelled\"".to_owned()),
    };
    let picked = picked.ok_or("the outcome \"selected\" has no \"optionId\"")?;
    if picked == OPTION_CANCEL {
        return Ok(Asked::Declined);
    }
    let index: Option<usize> = picked.strip_prefix("choice_").and_then(|index| index.parse().ok());
    let choice = index.and_then(|index| questions.first()?.options.get(index));
    choice
        .and_then(|choice| Answers::from_pairs([(0, choice.label.clone())]))
        .map(Asked::Answered)
        .ok_or_else(|| format!("{picked:?} is none of the options"))
}

/// How a request for permission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The call may run.
    Once,
    /// The tool may run for the rest of the session.
    Always,
    /// A person said no.
    Declined,
    /// The turn stops, or time ran out: nobody decided.
    Undecided,
    /// The connection is gone or the client failed: nothing may be written.
    Gone,
}

/// Asks whether a planned call may run (V6).
pub(crate) async fn permit(peer: &Peer, call: &CallRef, planned: &PlannedCall, stop: &Stop) -> Permission {
    let mut options = vec![option(OPTION_SUBMIT, "Allow once", "allow_once")];
    // "Always" never reaches outside the workspace, so it is not offered there.
    if !planned.outside_workspace {
        // What is allowed is the tool, not this call of it.
        let name = format!("Allow every {} of this session", calls_of(&call.name));
        options.push(option(OPTION_ALWAYS, &name, "allow_always"));
    }
    options.push(option(OPTION_CANCEL, "Decline", "reject_once"));
    let params = json!({
        "sessionId": call.session,
        "options": options,
        "toolCall": {
            "toolCallId": call.call,
            "status": "pending",
            "title": planned.title,
            "kind": planned.kind,
            "content": planned.content,
            "locations": locations(planned),
            "rawInput": call.args,
            "_meta": { "toolName": call.name, keys::TURN_RECORD: call.turn },
        },
    });
    let sent = peer.ask("session/request_permission", params);
    let answer = tokio::select! {
        answer = sent.answer() => answer,
        () = stop.expired() => return Permission::Undecided,
    };
    match answer {
        Ok(answer) => permission_answer(&answer, stop.is_set()),
        Err(AskError::Gone) => Permission::Gone,
        Err(AskError::Refused(error)) => {
            tracing::warn!(code = i32::from(error.code), message = %error.message, "a request for permission was refused by the client");
            Permission::Gone
        }
    }
}

fn permission_answer(answer: &Value, stopping: bool) -> Permission {
    let outcome = answer.get("outcome");
    let field = |key: &str| outcome.and_then(|outcome| outcome.get(key)).and_then(Value::as_str);
    let cause = answer.get("_meta").and_then(|meta| meta.get(CAUSE_KEY)).and_then(Value::as_str);
    match (field("outcome"), field("optionId")) {
        // A stopped turn runs nothing more, whoever said yes at the last moment.
        (Some("selected"), Some(_)) if stopping => Permission::Undecided,
        (Some("selected"), Some(OPTION_SUBMIT)) => Permission::Once,
        (Some("selected"), Some(option)) if option.starts_with(OPTION_ALWAYS) => Permission::Always,
        (Some("selected"), Some(_)) => Permission::Declined,
        (Some("cancelled"), _) if cause == Some("declined") => Permission::Declined,
        (Some("cancelled"), _) if stopping || !is_bare_cancel(answer) => Permission::Undecided,
        (Some("cancelled"), _) => Permission::Declined,
        // What is no answer is no consent.
        _ => Permission::Undecided,
    }
}

/// The calls of a tool, for people.
fn calls_of(tool: &str) -> String {
    match tool {
        "run_shell_command" => "shell command".to_owned(),
        "write_file" | "edit" => format!("use of {tool} in the workspace"),
        other => format!("use of {other}"),
    }
}

/// The places that a call touches, as ACP has them.
pub(crate) fn locations(planned: &PlannedCall) -> Vec<Value> {
    planned
        .locations
        .iter()
        .map(|location| match location.line {
            Some(line) => json!({ "path": location.path, "line": line }),
            None => json!({ "path": location.path }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use holdpoint_model::question::parse_questions;

    use super::*;

    fn questions(multi: bool) -> Vec<Question> {
        parse_questions(&json!({"questions": [{"question": "Which?", "header": "Pick", "multiSelect": multi,
            "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]}))
        .unwrap()
    }

    #[test]
    fn q3_a_client_without_forms_is_asked_only_what_it_can_show() {
        let two = [questions(false), questions(false)].concat();
        assert!(askable(Client::Plain, &questions(false)).is_ok());
        assert!(askable(Client::Plain, &questions(true)).is_err());
        assert!(askable(Client::Plain, &two).is_err());
        assert!(askable(Client::Forms, &two).is_ok());
    }

    #[test]
    fn q5_a_form_and_a_choice_give_the_same_outcome_as_a_permission() {
        let answered = Asked::Answered(Answers::from_pairs([(0, "B".to_owned())]).unwrap());
        let form = json!({"action": "accept", "content": {"0": "B"}});
        assert_eq!(form_answer(&form, &questions(false)), Ok(answered.clone()));
        let choice = json!({"outcome": {"outcome": "selected", "optionId": "choice_1"}});
        assert_eq!(choice_answer(&choice, &questions(false)), Ok(answered));
        let both = json!({"action": "accept", "content": {"0": ["A", "B"]}});
        let joined = Asked::Answered(Answers::from_pairs([(0, "A, B".to_owned())]).unwrap());
        assert_eq!(form_answer(&both, &questions(true)), Ok(joined));
        let own = json!({"action": "accept", "content": {"0": "A", "0_other": "neither"}});
        let free = Asked::Answered(Answers::from_pairs([(0, "neither".to_owned())]).unwrap());
        assert_eq!(form_answer(&own, &questions(false)), Ok(free));
        for no in [json!({"action": "decline"}), json!({"action": "cancel"})] {
            assert_eq!(form_answer(&no, &questions(false)), Ok(Asked::Declined));
        }
        let no = json!({"outcome": {"outcome": "selected", "optionId": "cancel"}});
        assert_eq!(choice_answer(&no, &questions(false)), Ok(Asked::Declined));
        assert!(
            choice_answer(
                &json!({"outcome": {"outcome": "selected", "optionId": "choice_9"}}),
                &questions(false)
            )
            .is_err()
        );
        assert!(form_answer(&json!({"action": "accept"}), &questions(false)).is_err());
    }

    #[test]
    fn what_is_no_consent_is_never_taken_for_it() {
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        let cancelled =
            |cause: &str| json!({"outcome": {"outcome": "cancelled"}, "_meta": {CAUSE_KEY: cause}});
        let bare = json!({"outcome": {"outcome": "cancelled"}});
        assert_eq!(permission_answer(&selected("proceed_once"), false), Permission::Once);
        assert_eq!(permission_answer(&selected("proceed_always"), false), Permission::Always);
        assert_eq!(permission_answer(&selected("proceed_once"), true), Permission::Undecided);
        assert_eq!(permission_answer(&selected("cancel"), false), Permission::Declined);
        assert_eq!(permission_answer(&cancelled("declined"), false), Permission::Declined);
        assert_eq!(permission_answer(&cancelled("timed_out"), false), Permission::Undecided);
        assert_eq!(permission_answer(&bare, false), Permission::Declined);
        assert_eq!(permission_answer(&bare, true), Permission::Undecided);
        assert_eq!(permission_answer(&json!({}), false), Permission::Undecided);
    }
}
