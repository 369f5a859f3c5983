//! What the agent says: updates, questions, the end of a prompt, and its own end.

use holdpoint_model::ids::{CallId, PromptId};
use holdpoint_model::session::{Command, Origin, TurnEnd, UnaskedCause};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actor::{Actor, Link, back_off};
use super::take_up::OnBehalf;
use crate::error::EngineError;
use crate::frame::Event as Frame;
use crate::port::{AgentError, Exit, FromAgent, PromptEnd};

/// How often a dead agent is started again for a session before it is given up.
const MAX_RESTARTS: u32 = 5;

impl Actor {
    pub(super) async fn hear(&mut self, said: FromAgent) {
        self.last_activity = Instant::now();
        self.lost_calls.heard();
        match said {
            FromAgent::Update(update) => self.update(update),
            FromAgent::Ask { params, responder } => self.ask(params, responder).await,
            FromAgent::PromptEnded { prompt, end } => self.prompt_ended(prompt, end).await,
            FromAgent::Gone(exit) => self.agent_gone(exit).await,
        }
    }

    fn update(&mut self, update: Value) {
        let ours = matches!(&self.link, Link::Up { agent, .. } if agent.info().ours);
        self.lost_calls.take(&update, ours);
        if let Some((call, repaired)) = ended_call(&update)
            && self.state.questions.values().any(|question| question.call.call == call && !question.delivered)
        {
            let command = Command::CallEnded { life: self.state.life, call, repaired };
            if let Err(error) = self.execute_lazily(command) {
                tracing::warn!(session = %self.id, %error, "a delivery could not be noted");
            }
        }
        let running = self.state.running();
        let prompt = running.map(|turn| turn.origin.prompt().clone());
        let client = running.and_then(|turn| turn.origin.client()).cloned();
        let data = crate::wire::session::update(&self.id, update);
        self.publish(Frame::new("session_update", data).of_prompt(prompt.as_ref()).by(client.as_ref()));
    }

    async fn prompt_ended(&mut self, prompt: PromptId, end: Result<PromptEnd, AgentError>) {
        let outcome = match end {
            Ok(_) if self.overdue.as_ref() == Some(&prompt) => TurnEnd::Failed {
                message: "the turn took longer than its prompt allows, and was stopped".to_owned(),
                code: Some("prompt_deadline_exceeded".to_owned()),
            },
            Ok(end) => {
                self.restarts = 0;
                TurnEnd::Completed { stop_reason: end.stop_reason, parked: false }
            }
            // Its own message follows, and says what becomes of the turn.
            Err(AgentError::Gone(_)) => return,
            Err(error) => TurnEnd::Failed { message: error.to_string(), code: code_of(&error) },
        };
        let failed = matches!(outcome, TurnEnd::Failed { .. });
        self.end_turn(prompt, outcome).await;
        if failed && self.owes_the_agent() {
            // The agent could not write what somebody decided (a full disk, say): it is told again, a little later.
            self.try_again_later();
            return;
        }
        self.start_next().await;
    }

    pub(super) async fn end_turn(&mut self, prompt: PromptId, outcome: TurnEnd) {
        let command = Command::EndTurn { life: self.state.life, prompt, outcome };
        match self.execute(command).await {
            Ok(_) => {}
            Err(EngineError::Rejected(rejection)) => {
                tracing::warn!(session = %self.id, %rejection, "the end of a turn that does not run");
            }
            // The turn reads as interrupted after a restart, which is what it then is.
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the end of a turn could not be stored")
            }
        }
    }

    /// Starts the next prompt that waits. What people decided goes to the agent before it.
    pub(super) async fn start_next(&mut self) {
        if !matches!(self.link, Link::Up { .. }) {
            return;
        }
        if !self.state.queue.is_empty() && self.owes_the_agent() {
            self.begin_take_up(Vec::new(), None, OnBehalf::Somebody(self.anyone()));
            return;
        }
        self.start_waiting().await;
    }

    pub(super) async fn start_waiting(&mut self) {
        if let Err(error) = self.execute(Command::StartNext).await {
            tracing::error!(session = %self.id, %error, "the next prompt could not be started");
        }
    }

    /// The agent's process ended. What it asked is not decided by that (R10); it is started again while
    /// somebody is there (R14).
    async fn agent_gone(&mut self, exit: Exit) {
        if self.shared.world.told_to_stop() {
            // It ends with the daemon, which says so next: an orderly stop is no end of what is asked (I12).
            self.from_agent = None;
            return;
        }
        tracing::warn!(session = %self.id, exit = %exit.describe(), "the agent process ended");
        self.link = Link::Down;
        self.from_agent = None;
        self.stalled.clear();
        self.stalled_until = None;
        self.lost_calls.turn_over();
        let command = Command::EndAsking { generation: None, cause: UnaskedCause::AgentGone };
        if let Err(error) = self.execute_lazily(command) {
            tracing::error!(session = %self.id, %error, "the end of an asking could not be noted");
        }
        self.pending.clear();
        let somebody = !self.clients.nobody() || self.bus.readers() > 0;
        let something = self.state.turn.is_some() || !self.state.queue.is_empty();
        if (somebody || something) && self.restarts < MAX_RESTARTS {
            self.retry_at = Some(Instant::now() + back_off(self.restarts));
            self.restarts += 1;
        } else {
            self.give_up(&exit);
        }
    }

    /// The agent cannot be had: the session goes back to its rows, and says so.
    pub(super) fn give_up(&mut self, exit: &Exit) {
        let mut data = json!({ "sessionId": self.id, "reason": "channel_closed" });
        if let Some(code) = exit.code {
            data["exitCode"] = json!(code);
        }
        if let Some(signal) = exit.signal {
            data["signalCode"] = json!(signal);
        }
        data["detail"] = json!(exit.describe().trim());
        self.end_stream("session_died", data);
        self.link = Link::Down;
        self.retry_at = None;
        self.ended = true;
    }

    /// Whether another try to start the agent is left; sets its time.
    pub(super) fn try_again_later(&mut self) -> bool {
        if self.restarts >= MAX_RESTARTS {
            return false;
        }
        self.retry_at = Some(Instant::now() + back_off(self.restarts));
        self.restarts += 1;
        true
    }

    /// Whose turn it is, for a restart that nobody asked for.
    pub(super) fn anyone(&self) -> Option<holdpoint_model::ids::ClientId> {
        let author = self.state.turn.as_ref().and_then(|turn| match &turn.origin {
            Origin::Client { prompt } => prompt.client.clone(),
            Origin::Restore { client, .. } | Origin::Continue { client, .. } => client.clone(),
        });
        author.or_else(|| self.clients.any().cloned())
    }
}

/// The call whose result is in the history now, and whether orphan repair wrote it.
fn ended_call(update: &Value) -> Option<(CallId, bool)> {
    if update.get("sessionUpdate")?.as_str()? != "tool_call_update" {
        return None;
    }
    if !matches!(update.get("status")?.as_str()?, "completed" | "failed") {
        return None;
    }
    let call = CallId::new(update.get("toolCallId")?.as_str()?).ok()?;
    let cause = update.get("_meta").and_then(|meta| meta.get("holdpoint.cause")).and_then(Value::as_str);
    Some((call, cause == Some("orphan_repair")))
}

fn code_of(error: &AgentError) -> Option<String> {
    match error {
        AgentError::Refused { data, .. } => {
            let code = data.as_ref().and_then(|data| data.get("code")).and_then(Value::as_str);
            Some(code.unwrap_or("agent_error").to_owned())
        }
        AgentError::Start(_) | AgentError::StartTimedOut { .. } => Some("agent_start_failed".to_owned()),
        AgentError::Gone(_) => Some("agent_gone".to_owned()),
        AgentError::NoSession(_) => Some("session_not_found".to_owned()),
        AgentError::TimedOut(_) => Some("agent_timed_out".to_owned()),
    }
}
