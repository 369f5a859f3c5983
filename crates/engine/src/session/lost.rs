//! H14: a call of the question tool that runs with no question in the ledger that people could answer. Nobody sees it,
//! and its turn would wait for ever; so it is told of, and closed with its cause.

use std::collections::BTreeMap;

use holdpoint_model::ids::CallId;
use holdpoint_model::question::TOOL_NAME;
use holdpoint_model::session::CloseCause;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actor::{Actor, Link};
use crate::frame::Event as Frame;

/// Most calls of a turn that are looked after; a turn has far fewer.
const MOST: usize = 256;

/// What people read in the call's place.
const TEXT: &str = "Closed by the daemon: the agent waits for an answer to this question, and the question never reached \
     anybody. Nothing was chosen. The turn was stopped.";

/// Calls of the running turn, and how long the agent has been silent over one that is lost.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Calls without a result, and whether each is a question.
    running: BTreeMap<CallId, bool>,
    /// When those that are lost are closed.
    due: Option<Instant>,
    /// How many were closed while the session was live.
    closed: u64,
}

impl Lost {
    /// When lost calls are closed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// How many were closed.
    pub(super) fn closed(&self) -> u64 {
        self.closed
    }

    /// The agent said something: it is not silent.
    pub(super) fn heard(&mut self) {
        self.due = None;
    }

    /// Takes in what an agent says of a call. `ours` announces a call when its arguments are whole; another agent may do so
    /// while the model still writes them, and asks nobody yet.
    pub(super) fn take(&mut self, update: &Value, ours: bool) {
        // Most updates are pieces of a text, and cost nothing here.
        if !matches!(update["sessionUpdate"].as_str(), Some("tool_call" | "tool_call_update")) {
            return;
        }
        let Some(call) = update["toolCallId"].as_str().and_then(|id| CallId::new(id).ok()) else { return };
        let meta = &update["_meta"];
        match update["status"].as_str() {
            Some("completed" | "failed") => {
                self.running.remove(&call);
            }
            Some(_) if !ours && meta["phase"] == "preparing" => {}
            Some(_) if self.running.len() < MOST => {
                let asks = meta["toolName"] == TOOL_NAME;
                let known = self.running.entry(call).or_default();
                *known |= asks;
            }
            _ => {}
        }
    }

    /// The turn is over, and with it its calls.
    pub(super) fn turn_over(&mut self) {
        self.running.clear();
        self.due = None;
    }
}

impl Actor {
    /// Sets or takes back the time at which lost calls are closed: the agent has nothing else to do, says nothing, and
    /// nobody is asked anything.
    pub(super) fn look_for_lost_calls(&mut self) {
        if self.lost_calls.running.is_empty() || !self.waits_for_nobody() || self.lost().next().is_none() {
            self.lost_calls.due = None;
            return;
        }
        let limit = self.shared.config.lost_after;
        self.lost_calls.due.get_or_insert_with(|| Instant::now() + limit);
    }

    fn waits_for_nobody(&self) -> bool {
        matches!(self.link, Link::Up { .. })
            && self.state.running().is_some()
            && self.state.asked_now().next().is_none()
            && self.stalled.is_empty()
            && self.pending.is_empty()
            && self.lost_calls.running.values().all(|asks| *asks)
    }

    /// The question calls that run with no open question, and with none whose end is on its way to the agent.
    fn lost(&self) -> impl Iterator<Item = &CallId> {
        self.lost_calls.running.keys().filter(|call| {
            let mut questions = self.state.questions.values();
            !questions
                .any(|question| question.call.call == **call && (question.is_open() || !question.delivered))
        })
    }

    pub(super) fn close_lost_calls(&mut self) {
        self.lost_calls.due = None;
        let lost: Vec<_> = self.lost().cloned().collect();
        let Some(turn) = self.state.running() else { return };
        let (prompt, client) = (turn.origin.prompt().clone(), turn.origin.client().cloned());
        for call in lost {
            tracing::warn!(
                session = %self.id, %prompt, %call,
                "a question call runs with no question that people could answer; it is closed, and its turn stopped"
            );
            metrics::counter!("holdpoint_questions_lost_total").increment(1);
            self.lost_calls.closed += 1;
            self.lost_calls.running.remove(&call);
            let update = json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": call,
                "status": "failed",
                "content": [{ "type": "content", "content": { "type": "text", "text": TEXT } }],
                "_meta": { "toolName": TOOL_NAME, "holdpoint.cause": CloseCause::UnreachableQuestion },
            });
            let data = crate::wire::session::update(&self.id, update);
            self.publish(Frame::new("session_update", data).of_prompt(Some(&prompt)).by(client.as_ref()));
        }
        self.cancelled_at = Some(self.shared.world.now());
        if let Link::Up { agent, .. } = &self.link {
            // By ACP the agent ends the turn; what it waited for stays in its history as what it is, without a result.
            agent.cancel(&self.id);
        }
    }
}
