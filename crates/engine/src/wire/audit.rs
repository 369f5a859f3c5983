//! The audit: what happened to questions, read from the events that made it so (V5).

use std::collections::BTreeMap;

use holdpoint_ledger::StoredEvent;
use holdpoint_model::ids::{Generation, QuestionId};
use holdpoint_model::policy::Strategy;
use holdpoint_model::session::{CloseCause, Decision, Event, UnaskedCause};
use serde_json::{Value, json};

use super::iso;

/// Which part of an audit is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditPage {
    /// From this place on: the version of an event, as [`AuditList::next`] gives it.
    pub from: u64,
    /// At most so many entries.
    pub limit: usize,
}

/// A part of an audit.
#[derive(Clone, Debug, Default)]
pub struct AuditList {
    /// The entries, oldest first.
    pub entries: Vec<Value>,
    /// Where the next part begins, if there is one.
    pub next: Option<u64>,
}

/// What the entries of one question need of earlier events.
struct Told {
    id: QuestionId,
    policy: &'static str,
}

/// A part of the audit of a session's events: of all its questions, or of one.
pub fn page(events: &[StoredEvent], of: Option<Generation>, page: AuditPage) -> AuditList {
    let mut told: BTreeMap<Generation, Told> = BTreeMap::new();
    let mut list = AuditList::default();
    for stored in events {
        let generation = stored.event.generation();
        note(&mut told, &stored.event);
        if stored.version < page.from || (of.is_some() && generation != of) {
            continue;
        }
        let about = generation.and_then(|generation| told.get(&generation));
        let Some(mut entry) = entry(&stored.event, about) else { continue };
        if list.entries.len() == page.limit {
            list.next = Some(stored.version);
            break;
        }
        entry["at"] = json!(iso(stored.at));
        if let Some(generation) = generation {
            entry["generation"] = json!(generation);
            entry["questionId"] = json!(about.map(|told| &told.id));
        }
        list.entries.push(entry);
    }
    list
}

fn note(told: &mut BTreeMap<Generation, Told>, event: &Event) {
    match event {
        Event::Asked { question, generation, asking, .. } => {
            let policy = asking.capture.strategy().as_str();
            told.insert(*generation, Told { id: question.clone(), policy });
        }
        Event::Reasked { generation, asking } => {
            if let Some(told) = told.get_mut(generation) {
                told.policy = asking.capture.strategy().as_str();
            }
        }
        _ => {}
    }
}

/// The peer's word for what decided (WIRE c.5). A decline without an option is one that needs no policy.
fn decision_type(decision: &Decision, policy: &str) -> &'static str {
    match (decision, policy) {
        (Decision::Declined { option_id: None }, _) => "voter-cancelled",
        (_, "designated") => "designated-originator",
        (_, "consensus") => "consensus-quorum",
        (_, "local-only") => "local-only-loopback",
        _ => "first-responder",
    }
}

/// The peer's word for an end that nobody decided (WIRE c.5), if it has one: what people stopped ends as a closed
/// session's does there (c.4).
fn end_type(cause: CloseCause) -> Option<&'static str> {
    match cause {
        CloseCause::TimedOut => Some("timeout"),
        CloseCause::CancelledBeforeAnswer
        | CloseCause::UnreachableQuestion
        | CloseCause::SessionClosed
        | CloseCause::SessionDeleted => Some("session-closed"),
        CloseCause::Withdrawn => Some("agent-cancelled"),
        // The ends of an earlier process, of which the peer keeps nothing.
        CloseCause::OrphanRepair | CloseCause::ProcessRestarted => None,
    }
}

/// The same of an asking that is over while the question stays open.
fn unasked_type(cause: UnaskedCause) -> &'static str {
    match cause {
        UnaskedCause::TimedOut => "timeout",
        UnaskedCause::SessionClosed | UnaskedCause::Aborted => "session-closed",
        UnaskedCause::AgentGone => "agent-cancelled",
    }
}

/// One entry: the peer's kinds where it has one (WIRE c.5).
fn entry(event: &Event, about: Option<&Told>) -> Option<Value> {
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
        Event::Voted { ballot, by, .. } => json!({
            "kind": "permission.voted",
            "clientId": ballot.client,
            "by": by,
            "choice": ballot.choice,
        }),
        Event::Refused { by, reason, .. } => {
            json!({ "kind": "permission.forbidden", "by": by, "reason": reason.as_str() })
        }
        Event::Settled { settlement, .. } => {
            let mut entry = json!({ "kind": "permission.resolved", "by": settlement.by });
            let policy = settlement.policy.map(Strategy::as_str).or(about.map(|told| told.policy));
            if let Some(policy) = policy {
                entry["policy"] = json!(policy);
                entry["decisionType"] = json!(decision_type(&settlement.decision, policy));
            }
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
        // With the flag off a time-out is the end; with it on only the asking is over (S3, R10).
        Event::Closed { cause, .. } => {
            let mut entry = match cause {
                CloseCause::TimedOut => json!({ "kind": "permission.timeout", "closed": true }),
                _ => json!({ "kind": "question.closed", "cause": cause }),
            };
            if let Some(word) = end_type(*cause) {
                entry["decisionType"] = json!(word);
            }
            entry
        }
        Event::Unasked { cause, .. } => {
            let mut entry = match cause {
                UnaskedCause::TimedOut => json!({ "kind": "permission.timeout", "closed": false }),
                _ => json!({ "kind": "question.unasked", "cause": cause }),
            };
            entry["decisionType"] = json!(unasked_type(*cause));
            entry
        }
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
