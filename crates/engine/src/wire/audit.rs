//! The audit: what happened to questions, read from the events that made it so (V5).

use std::collections::BTreeMap;

use holdpoint_ledger::StoredEvent;
use holdpoint_model::ids::{Generation, QuestionId};
use holdpoint_model::session::{Decision, Event, UnaskedCause};
use serde_json::{Value, json};

use super::iso;

/// The entries of a session's events, oldest first.
pub fn entries(events: &[StoredEvent]) -> Vec<Value> {
    let mut questions: BTreeMap<Generation, QuestionId> = BTreeMap::new();
    let mut entries = Vec::new();
    for stored in events {
        if let Event::Asked { question, generation, .. } = &stored.event {
            questions.insert(*generation, question.clone());
        }
        let Some(mut entry) = entry(&stored.event) else { continue };
        entry["at"] = json!(iso(stored.at));
        if let Some(generation) = stored.event.generation() {
            entry["generation"] = json!(generation);
            entry["questionId"] = json!(questions.get(&generation));
        }
        entries.push(entry);
    }
    entries
}

/// One entry: the peer's kinds where it has one (WIRE c.5).
fn entry(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Asked { title, asking, prompt, author, .. } => json!({
            "kind": "permission.requested",
            "requestId": asking.request,
            "title": title,
            "promptId": prompt,
            "authorClientId": author,
            "policy": asking.capture.strategy().as_str(),
            "restored": false,
        }),
        Event::Reasked { asking, .. } => json!({
            "kind": "permission.requested",
            "requestId": asking.request,
            "policy": asking.capture.strategy().as_str(),
            "restored": true,
        }),
        Event::Reissued { request, .. } => {
            json!({ "kind": "question.answered_from_ledger", "requestId": request })
        }
        Event::Shown { surface, .. } => json!({ "kind": "question.shown", "surface": surface }),
        Event::Voted { ballot, .. } => json!({ "kind": "permission.voted", "clientId": ballot.client }),
        Event::Refused { by, reason, .. } => {
            json!({ "kind": "permission.forbidden", "by": by, "reason": reason.as_str() })
        }
        Event::Settled { settlement, .. } => {
            let mut entry = json!({ "kind": "permission.resolved", "by": settlement.by });
            match &settlement.decision {
                Decision::Answered { answers } => {
                    entry["decision"] = json!("answered");
                    entry["answers"] = json!(answers);
                }
                Decision::Selected { option_id } => {
                    entry["decision"] = json!("selected");
                    entry["optionId"] = json!(option_id);
                }
                Decision::Declined { option_id } => {
                    entry["decision"] = json!("declined");
                    entry["optionId"] = json!(option_id);
                }
            }
            if let Some(response) = &settlement.response {
                entry["responseId"] = json!(response);
            }
            entry
        }
        Event::Closed { cause, .. } => json!({ "kind": "question.closed", "cause": cause }),
        Event::Unasked { cause: UnaskedCause::TimedOut, .. } => json!({ "kind": "permission.timeout" }),
        Event::Unasked { cause, .. } => json!({ "kind": "question.unasked", "cause": cause }),
        Event::Delivered { .. } => json!({ "kind": "question.delivered" }),
        Event::Opened { .. }
        | Event::LifeStarted { .. }
        | Event::ClientRegistered { .. }
        | Event::Titled { .. }
        | Event::PromptQueued { .. }
        | Event::PromptRemoved { .. }
        | Event::TurnStarted { .. }
        | Event::TurnRequeued { .. }
        | Event::TurnEnded { .. }
        | Event::Deleted => return None,
    })
}
