//! A question on the wire: as an event, in a status, in the inbox, and as a receipt.

use std::time::Duration;

use holdpoint_ledger::QuestionRow;
use holdpoint_model::ids::{Micros, SessionId};
use holdpoint_model::question::{Question as Part, TOOL_NAME};
use holdpoint_model::session::{Answerer, Asking, Body, Decision, Question, Settlement, State, VoteOption};
use serde_json::{Value, json};

use super::iso;
use crate::frame::Event;

/// `permission_request` (WIRE b.2).
pub fn request_event(session: &SessionId, question: &Question, asking: &Asking) -> Event {
    let data = json!({
        "requestId": asking.request,
        "sessionId": session,
        "toolCall": tool_call(question),
        "options": options(&question.options),
        "questionId": question.id,
        "generation": question.generation,
    });
    Event::new("permission_request", data).of_prompt(question.prompt.as_ref()).by(question.author.as_ref())
}

/// The tool call that asks.
fn tool_call(question: &Question) -> Value {
    match &question.body {
        Body::UserQuestion { questions } => json!({
            "toolCallId": question.call.call,
            "status": "pending",
            "title": call_title(questions),
            "kind": "think",
            "content": [],
            "locations": [],
            "rawInput": { "questions": questions },
            "_meta": {
                "toolName": TOOL_NAME,
                "qwenInteractionKind": "user_question",
                "qwenQuestions": questions,
            },
        }),
        Body::Permission { action } => action.clone(),
    }
}

fn call_title(questions: &[Part]) -> String {
    let plural = if questions.len() == 1 { "" } else { "s" };
    format!("Ask user {} question{plural}", questions.len())
}

fn options(options: &[VoteOption]) -> Value {
    options
        .iter()
        .map(|option| json!({ "optionId": option.option_id, "name": option.name, "kind": option.kind }))
        .collect()
}

/// The outcome of a request, as the peer writes it.
pub fn outcome(question: &Question) -> Value {
    match &question.state {
        State::Settled(Settlement { decision, .. }) => match decision {
            Decision::Answered { .. } => json!({
                "outcome": "selected",
                "optionId": holdpoint_model::question::OPTION_SUBMIT,
            }),
            Decision::Selected { option_id } | Decision::Declined { option_id: Some(option_id) } => {
                json!({ "outcome": "selected", "optionId": option_id })
            }
            Decision::Declined { option_id: None } => json!({ "outcome": "cancelled" }),
        },
        State::Open | State::Closed { .. } => json!({ "outcome": "cancelled" }),
    }
}

/// `permission_resolved`: an asking is over.
pub fn resolved_event(question: &Question, request: &str) -> Event {
    let mut data = json!({
        "requestId": request,
        "outcome": outcome(question),
        "questionId": question.id,
        "generation": question.generation,
    });
    add_verdict(&mut data, question);
    let voter = settlement(question).and_then(|settlement| settlement.by.client_id.clone());
    if let Some(voter) = &voter {
        data["voterClientId"] = json!(voter);
    }
    Event::new("permission_resolved", data).of_prompt(question.prompt.as_ref()).by(voter.as_ref())
}

/// `permission_already_resolved`: a late vote (WIRE b.2, V4).
pub fn already_resolved_event(session: &SessionId, question: &Question, request: &str) -> Event {
    let mut data = json!({
        "requestId": request,
        "sessionId": session,
        "outcome": outcome(question),
        "questionId": question.id,
        "generation": question.generation,
    });
    add_verdict(&mut data, question);
    Event::new("permission_already_resolved", data)
}

fn settlement(question: &Question) -> Option<&Settlement> {
    match &question.state {
        State::Settled(settlement) => Some(settlement),
        State::Open | State::Closed { .. } => None,
    }
}

/// Adds who decided what, when and where, or why it was closed (V4).
pub fn add_verdict(data: &mut Value, question: &Question) {
    match &question.state {
        State::Open => {}
        State::Settled(settlement) => {
            data["answeredBy"] = answerer(&settlement.by);
            data["answeredAt"] = json!(iso(settlement.at));
            match &settlement.decision {
                Decision::Answered { answers } => data["answers"] = json!(answers),
                Decision::Selected { option_id } | Decision::Declined { option_id: Some(option_id) } => {
                    data["optionId"] = json!(option_id);
                }
                Decision::Declined { option_id: None } => {}
            }
        }
        State::Closed { cause, at } => {
            data["cause"] = json!(cause);
            data["closedAt"] = json!(iso(*at));
        }
    }
}

fn answerer(by: &Answerer) -> Value {
    json!(by)
}

/// An element of `pendingInteractions` (WIRE a.2).
pub fn pending(question: &Question, asking: Option<&Asking>) -> Value {
    let mut item = match &question.body {
        Body::UserQuestion { questions } => json!({
            "kind": "user_question",
            "createdAt": iso(question.asked_at),
            "title": call_title(questions),
            "questions": parts(questions),
        }),
        Body::Permission { action } => json!({
            "kind": "permission",
            "createdAt": iso(question.asked_at),
            "title": question.title,
            "action": action_view(action),
        }),
    };
    item["options"] = question
        .options
        .iter()
        .map(|option| json!({ "optionId": option.option_id, "label": option.name, "kind": option.kind }))
        .collect();
    if let Some(asking) = asking {
        item["requestId"] = json!(asking.request);
    } else if let Some(request) = question.request() {
        item["requestId"] = json!(request);
    }
    item["questionId"] = json!(question.id);
    item["generation"] = json!(question.generation);
    add_call(&mut item, question);
    item
}

/// Which call asks: its id, and that of the message that holds it, where the agent tells it (H1).
fn add_call(item: &mut Value, question: &Question) {
    item["toolCallId"] = json!(question.call.call);
    if let Some(turn) = &question.call.turn {
        item["messageId"] = json!(turn);
    }
}

fn parts(questions: &[Part]) -> Value {
    questions
        .iter()
        .enumerate()
        .map(|(i, part)| {
            let mut value = json!(part);
            value["answerKey"] = json!(i.to_string());
            value
        })
        .collect()
}

fn action_view(action: &Value) -> Value {
    json!({
        "type": action.get("kind").cloned().unwrap_or(Value::Null),
        "title": action.get("title").cloned().unwrap_or(Value::Null),
        "content": action.get("content").cloned().unwrap_or_else(|| json!([])),
        "locations": action.get("locations").cloned().unwrap_or_else(|| json!([])),
        "input": action.get("rawInput").cloned().unwrap_or(Value::Null),
    })
}

/// The word for a question's state in the inbox (D2).
pub fn state_word(question: &Question) -> &'static str {
    match &question.state {
        State::Open => "open",
        State::Settled(Settlement { decision: Decision::Declined { .. }, .. }) => "declined",
        State::Settled(_) => "answered",
        State::Closed { .. } => "closed",
    }
}

/// Whether a question waits for longer than `after`, and no surface has shown it (D4).
pub fn is_unseen(question: &Question, now: Micros, after: Option<Duration>) -> bool {
    let since = u128::try_from(now.0.saturating_sub(question.asked_at.0)).unwrap_or(0);
    let late = after.is_some_and(|after| since >= after.as_micros());
    question.is_open() && question.shown.is_empty() && late
}

/// A row of the inbox, or the whole question (D2). `asking` is the asking that people can answer now;
/// `restorable` whether a load would ask it again; `answerable` whether an answer is taken all the same, and the turn
/// goes on with it (D3); `unseen` whether it should have been shown by now and was not.
pub fn inbox_row(
    row: &QuestionRow,
    asking: Option<&Asking>,
    restorable: bool,
    answerable: bool,
    unseen: bool,
) -> Value {
    let question = &row.question;
    let mut item = json!({
        "questionId": question.id,
        "generation": question.generation,
        "sessionId": row.session.session,
        "kind": if question.body.is_question() { "user_question" } else { "permission" },
        "state": state_word(question),
        "title": question.title,
    });
    match &question.body {
        Body::UserQuestion { questions } => item["questions"] = parts(questions),
        Body::Permission { action } => {
            item["action"] = action_view(action);
            item["options"] = options(&question.options);
        }
    }
    add_call(&mut item, question);
    item["workspaceCwd"] = json!(row.session.workspace_cwd);
    item["sessionTitle"] = json!(row.session.title);
    item["agent"] = json!(row.session.agent);
    item["askedAt"] = json!(iso(question.asked_at));
    item["live"] = json!(asking.is_some());
    if question.is_open() {
        item["restorable"] = json!(restorable);
        item["answerable"] = json!(asking.is_some() || answerable);
    }
    if let Some(asking) = asking {
        item["requestId"] = json!(asking.request);
    }
    item["shown"] =
        question.shown.iter().map(|shown| json!({ "surface": shown.surface, "at": iso(shown.at) })).collect();
    if unseen {
        item["unseen"] = json!(true);
    }
    add_outcome(&mut item, question);
    item
}

fn add_outcome(item: &mut Value, question: &Question) {
    if question.is_open() {
        return;
    }
    let mut verdict = json!({ "state": state_word(question) });
    add_verdict(&mut verdict, question);
    verdict["delivered"] = json!(question.delivered);
    item["outcome"] = verdict;
}

/// The receipt of an answer (D2). `delivery` is where the answer is on its way to the agent; there is none while
/// nothing is.
pub fn receipt(question: &Question, response: Option<&str>, delivery: Option<&str>) -> Value {
    let mut receipt = json!({
        "status": state_word(question),
        "questionId": question.id,
        "generation": question.generation,
    });
    if let Some(response) = response {
        receipt["responseId"] = json!(response);
    }
    add_verdict(&mut receipt, question);
    if let Some(delivery) = delivery {
        receipt["delivery"] = json!(delivery);
    }
    receipt
}
