//! What the world is told after a commit: the stream, and the agent that asked.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_model::asked::Asked;
use holdpoint_model::ids::Generation;
use holdpoint_model::policy::{Forbidden, tally};
use holdpoint_model::session::{
    Asking, CloseCause, Decision, Event, Origin, Prompt, Question, State, TurnEnd, UnaskedCause,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actor::{Actor, Link, Mark};
use crate::frame::Event as Frame;
use crate::port::{AgentPrompt, PromptKind};
use crate::wire::{iso, question as wire};

impl Actor {
    /// Acts on one committed event. `batch` are all that were committed with it.
    pub(super) fn react(&mut self, event: &Event, batch: &[Event]) {
        match event {
            Event::Opened { .. }
            | Event::LifeStarted { .. }
            | Event::ClientRegistered { .. }
            | Event::TurnRequeued { .. }
            | Event::Shown { .. }
            | Event::Delivered { .. }
            | Event::Deleted => {}
            Event::Titled { title } => {
                let data = json!({ "sessionId": self.id, "displayName": title });
                self.publish(Frame::new("session_metadata_updated", data));
            }
            Event::PromptQueued { prompt } => {
                let starts = |event: &Event| matches!(event, Event::TurnStarted { origin } if *origin.prompt() == prompt.id);
                if !batch.iter().any(starts) {
                    self.announce(prompt);
                }
            }
            Event::PromptRemoved { prompt } => {
                self.announced.remove(prompt);
                let data = json!({ "sessionId": self.id, "promptId": prompt, "state": "removed" });
                self.publish(Frame::new("pending_prompt_completed", data).of_prompt(Some(prompt)));
            }
            Event::TurnStarted { origin } => self.turn_started(origin),
            Event::TurnEnded { prompt, outcome } => self.turn_ended(prompt, outcome),
            Event::Asked { generation, asking, .. } => self.put_to_people(*generation, asking),
            Event::Reasked { generation, asking } => self.put_to_people(*generation, asking),
            Event::Reissued { generation, .. } => {
                if let Some(question) = self.kept(*generation) {
                    tracing::info!(session = %self.id, question = %question.id, "answered from the ledger; nobody is asked again");
                    self.bind_incoming(*generation);
                    self.answer_agent(&question, None);
                }
            }
            Event::Unasked { generation, cause } => {
                if let Some(question) = self.kept(*generation) {
                    self.resolve(&question, Some(*cause));
                }
            }
            Event::Voted { generation, .. } => self.partial_vote(*generation),
            Event::Refused { generation, by, reason } => {
                let client = by.client_id.as_ref().map(AsRef::as_ref);
                self.forbidden(*generation, client, *reason);
            }
            Event::Settled { generation, settlement } => {
                tracing::info!(session = %self.id, %generation, surface = settlement.by.surface, "a question is answered");
                metrics::counter!("holdpoint_questions_settled_total").increment(1);
                if let Some(question) = self.kept(*generation) {
                    self.resolve(&question, None);
                }
            }
            Event::Closed { generation, cause } => {
                tracing::info!(session = %self.id, %generation, cause = cause.as_str(), "a question is closed");
                metrics::counter!("holdpoint_questions_closed_total", "cause" => cause.as_str()).increment(1);
                if let Some(question) = self.kept(*generation) {
                    self.resolve(&question, None);
                }
            }
        }
    }

    fn kept(&self, generation: Generation) -> Option<Arc<Question>> {
        self.state.questions.get(&generation).cloned()
    }

    fn announce(&mut self, prompt: &Prompt) {
        self.announced.insert(prompt.id.clone());
        let data = json!({
            "sessionId": self.id,
            "promptId": prompt.id,
            "text": prompt_text(&prompt.blocks),
            "queuedAt": prompt.at.0 / 1000,
        });
        let event = Frame::new("pending_prompt_added", data).of_prompt(Some(&prompt.id));
        self.publish(event.by(prompt.client.as_ref()));
    }

    fn turn_started(&mut self, origin: &Origin) {
        self.turn_error = None;
        self.lost = None;
        self.cancelled_at = None;
        self.overdue = None;
        self.lost_calls.turn_over();
        self.passed_over = false;
        self.deadline = match origin {
            Origin::Client { prompt } => {
                prompt.deadline_ms.map(|ms| Instant::now() + Duration::from_millis(ms))
            }
            Origin::Restore { .. } | Origin::Continue { .. } => None,
        };
        self.mark = Some(Mark { event: self.bus.last_id(), offset: self.transcript_len() });
        let prompt = origin.prompt().clone();
        if let Origin::Client { prompt: said } = origin {
            if self.announced.contains(&prompt) {
                let data = json!({
                    "sessionId": self.id,
                    "promptId": prompt,
                    "text": prompt_text(&said.blocks),
                });
                let event = Frame::new("pending_prompt_started", data).of_prompt(Some(&prompt));
                self.publish(event.by(origin.client()));
            }
            self.echo(said);
        }
        let Link::Up { agent, .. } = &self.link else {
            // A turn starts only while an agent has the session; one that has just gone says so by itself.
            tracing::warn!(session = %self.id, %prompt, "a turn started with no agent");
            return;
        };
        agent.prompt(AgentPrompt {
            session: self.id.clone(),
            prompt,
            client: origin.client().map(ToString::to_string),
            kind: match origin {
                Origin::Client { prompt } => PromptKind::Client { blocks: prompt.blocks.clone() },
                Origin::Restore { .. } => PromptKind::Restore,
                Origin::Continue { .. } => PromptKind::Continue,
            },
        });
    }

    fn echo(&mut self, prompt: &Prompt) {
        let now = self.shared.world.now().0 / 1000;
        for block in &prompt.blocks {
            let update = json!({
                "sessionUpdate": "user_message_chunk",
                "content": block,
                "_meta": { "serverTimestamp": now, "source": "bridge-echo" },
            });
            let data = json!({ "sessionId": self.id, "update": update });
            let event = Frame::new("session_update", data).of_prompt(Some(&prompt.id));
            self.publish(event.by(prompt.client.as_ref()));
        }
    }

    fn turn_ended(&mut self, prompt: &holdpoint_model::ids::PromptId, outcome: &TurnEnd) {
        let event = match outcome {
            TurnEnd::Completed { stop_reason, parked } => {
                let mut data = json!({
                    "sessionId": self.id,
                    "stopReason": stop_reason,
                    "promptId": prompt,
                });
                if *parked {
                    data["parked"] = json!(true);
                }
                if let Some(at) = self.cancelled_at {
                    let elapsed = (self.shared.world.now().0 - at.0).max(0) / 1000;
                    data["promptCancelled"] = json!({ "cancelledAt": iso(at), "elapsedMs": elapsed });
                }
                Frame::new("turn_complete", data)
            }
            TurnEnd::Failed { message, code } => {
                let mut data = json!({ "sessionId": self.id, "message": message, "promptId": prompt });
                if let Some(code) = code {
                    data["code"] = json!(code);
                }
                self.turn_error = Some(data.clone());
                Frame::new("turn_error", data)
            }
            TurnEnd::Interrupted => {
                let asks = self.state.open().any(|question| question.body.is_question());
                let message = match (asks, self.shared.config.restore) {
                    (true, false) => {
                        "The daemon or its agent ended in the middle of this turn. Its question is kept: start the \
                         daemon with --restore-ask-user-question, and it is asked again."
                    }
                    (true, true) => {
                        "The daemon or its agent ended in the middle of this turn, while a tool ran beside its question. \
                         The question is not asked again, but it can still be answered by its id, and then the turn \
                         goes on; or send another prompt."
                    }
                    (false, _) => {
                        "The daemon or its agent ended in the middle of this turn. What it had done is stored: have it go \
                         on (POST /session/:id/continue), or send another prompt."
                    }
                };
                let data = json!({
                    "sessionId": self.id,
                    "message": message,
                    "promptId": prompt,
                    "code": "daemon_lost",
                });
                self.lost = Some(json!({
                    "v": 1,
                    "promptId": prompt,
                    "terminal": "interrupted",
                    "code": "daemon_lost",
                    "at": iso(self.shared.world.now()),
                }));
                self.turn_error = Some(data.clone());
                Frame::new("turn_error", data)
            }
        };
        tracing::info!(session = %self.id, %prompt, outcome = ?outcome, "a turn ended");
        self.publish(event.of_prompt(Some(prompt)));
        if self.announced.remove(prompt) {
            let data = json!({ "sessionId": self.id, "promptId": prompt, "state": "completed" });
            self.publish(Frame::new("pending_prompt_completed", data).of_prompt(Some(prompt)));
        }
        self.mark = None;
        self.cancelled_at = None;
        self.deadline = None;
        self.overdue = None;
        self.lost_calls.turn_over();
    }

    fn put_to_people(&mut self, generation: Generation, asking: &Asking) {
        holdpoint_crashpoint::hit("daemon.ask_committed");
        let Some(question) = self.kept(generation) else { return };
        let now = Instant::now();
        let deadline = self.shared.config.ask_timeout.map(|limit| now + limit);
        let unseen_after = self.shared.config.unseen_after.filter(|_| question.shown.is_empty());
        let unseen_at = unseen_after.map(|after| now + after);
        if let Some(pending) = self.bind_incoming(generation) {
            pending.deadline = deadline;
            pending.unseen_at = unseen_at;
        }
        metrics::counter!("holdpoint_questions_asked_total").increment(1);
        tracing::info!(
            session = %self.id, question = %question.id, %generation, request = %asking.request,
            restored = question.is_restored(), "a question waits"
        );
        self.shared.asks(&question.id, &self.id);
        self.publish(wire::request_event(&self.id, &question, asking));
        holdpoint_crashpoint::hit("daemon.ask_published");
    }

    /// An asking is over: the agent is answered, and the stream told.
    fn resolve(&mut self, question: &Question, unasked: Option<UnaskedCause>) {
        self.shared.asks_no_more(&question.id);
        let requests = self.answer_agent(question, unasked);
        let told: Vec<String> = if requests.is_empty() {
            question.requests.last().map(ToString::to_string).into_iter().collect()
        } else {
            requests
        };
        for request in told {
            let mut event = wire::resolved_event(question, &request);
            if let Some(cause) = unasked {
                // Nobody decided anything: it is only not asked any more, and stays open.
                event.data["cause"] = json!(cause);
                event.data["open"] = json!(true);
            }
            self.publish(event);
        }
    }

    /// Answers every request of a question that an agent waits on.
    fn answer_agent(&mut self, question: &Question, unasked: Option<UnaskedCause>) -> Vec<String> {
        let Some(pending) = self.pending.remove(&question.generation) else { return Vec::new() };
        if holdpoint_crashpoint::withheld("daemon.answer_acknowledged") {
            std::mem::forget(pending.responders);
            return Vec::new();
        }
        let response = match unasked {
            Some(UnaskedCause::Aborted) => Asked::Halted.to_response(),
            _ => response_to_agent(question),
        };
        let mut told = Vec::new();
        for (request, responder) in pending.responders {
            responder.respond(response.clone());
            told.push(request.to_string());
        }
        told
    }

    fn partial_vote(&mut self, generation: Generation) {
        let Some(question) = self.kept(generation) else { return };
        let Some(asking) = &question.asking else { return };
        let Some(tally) = tally(&asking.capture, &asking.ballots) else { return };
        let mut options = serde_json::Map::new();
        for ballot in &asking.ballots {
            let option = ballot_option(&ballot.choice);
            let count = options.get(option).and_then(Value::as_u64).unwrap_or(0) + 1;
            options.insert(option.to_owned(), json!(count));
        }
        let data = json!({
            "requestId": asking.request,
            "sessionId": self.id,
            "votesReceived": tally.received,
            "votesNeeded": tally.needed,
            "quorum": tally.quorum,
            "optionTallies": options,
            "questionId": question.id,
            "generation": question.generation,
        });
        self.publish(Frame::new("permission_partial_vote", data).of_prompt(question.prompt.as_ref()));
    }

    fn forbidden(&mut self, generation: Generation, client: Option<&str>, reason: Forbidden) {
        let Some(question) = self.kept(generation) else { return };
        let mut data = json!({
            "requestId": question.request(),
            "sessionId": self.id,
            "reason": reason.as_str(),
            "questionId": question.id,
            "generation": question.generation,
        });
        if let Some(client) = client {
            data["clientId"] = json!(client);
        }
        self.publish(Frame::new("permission_forbidden", data).of_prompt(question.prompt.as_ref()));
    }
}

/// What the agent is told of a question's end: the answer to its request.
pub(super) fn response_to_agent(question: &Question) -> Value {
    match &question.state {
        State::Open => Asked::Unattended.to_response(),
        State::Settled(settlement) => match &settlement.decision {
            Decision::Answered { answers } => Asked::Answered(answers.clone()).to_response(),
            Decision::Selected { option_id } => {
                json!({ "outcome": { "outcome": "selected", "optionId": option_id } })
            }
            Decision::Declined { .. } if question.body.is_question() => Asked::Declined.to_response(),
            Decision::Declined { option_id: Some(option_id) } => {
                json!({ "outcome": { "outcome": "selected", "optionId": option_id } })
            }
            Decision::Declined { option_id: None } => json!({ "outcome": { "outcome": "cancelled" } }),
        },
        State::Closed { cause, .. } => match cause {
            CloseCause::TimedOut => Asked::TimedOut.to_response(),
            CloseCause::CancelledBeforeAnswer
            | CloseCause::UnreachableQuestion
            | CloseCause::SessionClosed => Asked::CancelledBeforeAnswer.to_response(),
            CloseCause::OrphanRepair
            | CloseCause::SessionDeleted
            | CloseCause::ProcessRestarted
            | CloseCause::Withdrawn => Asked::Unattended.to_response(),
        },
    }
}

/// The option that a ballot is for, as the peer counts it.
fn ballot_option(choice: &str) -> &str {
    match choice.strip_prefix("option ") {
        Some(option) => option,
        None if choice == "decline" => holdpoint_model::question::OPTION_CANCEL,
        None => holdpoint_model::question::OPTION_SUBMIT,
    }
}

/// The text of a prompt, for lists.
pub(super) fn prompt_text(blocks: &[Value]) -> String {
    let texts: Vec<_> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    texts.join("\n")
}
