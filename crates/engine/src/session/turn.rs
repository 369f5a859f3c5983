//! Prompts, cancel and continue.

use holdpoint_model::ids::{ClientId, PromptId};
use holdpoint_model::session::{Command, Event, Prompt, Rejection, UnaskedCause};
use serde_json::{Value, json};

use super::actor::{Actor, Done, Link};
use super::message::{Accepted, Answer, PromptRequest, Queued};
use super::take_up::OnBehalf;
use crate::error::EngineError;
use crate::frame::Event as Frame;

impl Actor {
    /// Accepts a prompt: it is durable when this returns (D5). One that was accepted before is, and nothing else happens.
    pub(super) async fn prompt(&mut self, request: PromptRequest) -> Result<Accepted, EngineError> {
        let PromptRequest { id, blocks, deadline_ms, client } = request;
        self.live(client.as_ref())?;
        let id = id.unwrap_or_else(|| self.shared.world.prompt_id());
        let accepted = self.accepted(id.clone());
        // While the session is being taken up the restore goes first (R6).
        let hold = !matches!(self.link, Link::Up { .. }) || self.owes_the_agent();
        let deadline_ms = deadline_ms.or(self.shared.config.prompt_deadline_ms);
        let prompt = Prompt { id, blocks, client, at: self.shared.world.now(), deadline_ms };
        if self.execute(Command::Prompt { prompt, hold }).await?.is_empty() {
            let repeated = Some(self.place_of(&accepted.prompt));
            return Ok(Accepted { repeated, ..accepted });
        }
        self.queue_is_fresh = true;
        if hold {
            self.start_next().await;
        }
        Ok(accepted)
    }

    fn accepted(&self, prompt: PromptId) -> Accepted {
        let (last_event_id, epoch) = (self.bus.last_id(), self.bus.epoch().to_string());
        Accepted { prompt, last_event_id, epoch, repeated: None }
    }

    /// Where a prompt is that was accepted.
    fn place_of(&self, prompt: &PromptId) -> &'static str {
        if self.state.queue.iter().any(|waiting| waiting.id == *prompt) {
            "queued"
        } else if self.state.knows_prompt(prompt) {
            "running"
        } else {
            "ended"
        }
    }

    pub(super) fn prompts(&self) -> Vec<Queued> {
        let queued = |prompt: &Prompt, running| Queued {
            prompt: prompt.id.clone(),
            blocks: prompt.blocks.clone(),
            at: prompt.at,
            running,
            client: prompt.client.clone(),
        };
        let running = self.state.running().and_then(|turn| match &turn.origin {
            holdpoint_model::session::Origin::Client { prompt } => Some(queued(prompt, true)),
            _ => None,
        });
        running.into_iter().chain(self.state.queue.iter().map(|prompt| queued(prompt, false))).collect()
    }

    pub(super) async fn remove_prompt(
        &mut self,
        id: PromptId,
        client: Option<ClientId>,
    ) -> Result<bool, EngineError> {
        self.live(client.as_ref())?;
        match self.execute(Command::RemovePrompt { id }).await {
            Ok(_) => Ok(true),
            Err(EngineError::Rejected(Rejection::UnknownPrompt(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stops the turn. What the stream says comes in the peer's order (WIRE a.3): the cancel, the questions'
    /// ends, the calls' ends, the turn's end.
    pub(super) async fn cancel(
        &mut self,
        unreachable: bool,
        client: Option<ClientId>,
    ) -> Result<(), EngineError> {
        self.live(client.as_ref())?;
        let Some(turn) = self.state.running() else { return Ok(()) };
        let prompt = turn.origin.prompt().clone();
        self.cancelled_at = Some(self.shared.world.now());
        let mut data = json!({ "sessionId": self.id });
        if unreachable {
            data["reason"] = json!("unreachable_question");
        }
        let event = Frame::new("prompt_cancelled", data).of_prompt(Some(&prompt));
        self.publish(event.by(client.as_ref()));
        let events = self.commit(Command::Cancel { unreachable }).await?;
        holdpoint_crashpoint::hit("daemon.cancel_committed");
        self.act(&events);
        if let Link::Up { agent, .. } = &self.link {
            agent.cancel(&self.id);
        }
        Ok(())
    }

    /// The turn took longer than its prompt allows. Nobody decided anything: its questions stay open (R10).
    pub(super) async fn deadline_passed(&mut self) {
        self.deadline = None;
        let Some(turn) = self.state.running() else { return };
        let prompt = turn.origin.prompt().clone();
        tracing::info!(session = %self.id, %prompt, "the turn took longer than its prompt allows");
        self.overdue = Some(prompt);
        let command = Command::EndAsking { generation: None, cause: UnaskedCause::TimedOut };
        if let Err(error) = self.execute(command).await {
            tracing::error!(session = %self.id, %error, "the end of an asking could not be stored");
        }
        if let Link::Up { agent, .. } = &self.link {
            agent.cancel(&self.id);
        }
    }

    /// Goes on with an interrupted turn. A question that can be asked again is none of its business (R11).
    pub(super) async fn go_on(
        &mut self,
        client: Option<ClientId>,
        reply: Answer<Option<(&'static str, Accepted)>>,
    ) {
        if let Err(error) = self.live(client.as_ref()) {
            let _ = reply.send(Err(error));
            return;
        }
        if matches!(self.link, Link::Up { .. }) && self.owes_the_agent() {
            // What somebody decided is told to the agent, and the turn goes on by itself (R20).
            let client = client.clone().or_else(|| self.anyone());
            self.begin_take_up(Vec::new(), None, OnBehalf::Somebody(client));
        }
        let waits = self.restorable_questions();
        let Link::Up { .. } = &self.link else {
            let _ = reply.send(Ok(None));
            return;
        };
        if waits || self.state.running().is_some() || !self.state.queue.is_empty() {
            let _ = reply.send(Ok(None));
            return;
        }
        let reading = self.shared.transcripts.interruption(&self.id);
        let done = self.done.clone();
        self.shared.tasks.spawn(async move {
            let interruption = reading.await;
            let _ = done.send(Done::Interruption { client, interruption, reply }).await;
        });
    }

    pub(super) async fn went_on(
        &mut self,
        client: Option<ClientId>,
        interruption: Result<&'static str, String>,
        reply: Answer<Option<(&'static str, Accepted)>>,
    ) {
        let outcome = match interruption {
            Err(problem) => Err(EngineError::Transcript(problem)),
            Ok("none") => Ok(None),
            Ok(kind) => {
                let fresh = self.shared.world.prompt_id();
                let accepted = self.accepted(fresh.clone());
                match self.execute(Command::AdmitContinue { fresh, client }).await {
                    Ok(events) => {
                        debug_assert!(events.iter().any(|event| matches!(event, Event::TurnStarted { .. })));
                        Ok(Some((kind, accepted)))
                    }
                    Err(EngineError::Rejected(Rejection::Busy)) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let _ = reply.send(outcome);
    }

    /// `GET /context`.
    pub(super) fn context(&mut self, client: Option<ClientId>, reply: Answer<Value>) {
        if let Err(error) = self.live(client.as_ref()) {
            let _ = reply.send(Err(error));
            return;
        }
        let state = match &self.link {
            Link::Up { state, .. } => state.clone(),
            Link::Down | Link::TakingUp(_) => json!({}),
        };
        let busy = self.state.running().is_some();
        let view = json!({
            "v": 1,
            "sessionId": self.id,
            "workspaceCwd": self.state.info.as_ref().map(|info| &info.workspace_cwd),
        });
        let reading = self.shared.transcripts.interruption(&self.id);
        self.shared.tasks.spawn(async move {
            // A turn that runs is not interrupted; a file that cannot be read is a degraded history.
            let kind = if busy {
                "clean"
            } else {
                match reading.await {
                    Ok("none") => "clean",
                    Ok(kind) => kind,
                    Err(_) => "degraded_history",
                }
            };
            let can_continue = matches!(kind, "interrupted_prompt" | "interrupted_turn");
            let mut view = view;
            view["recovery"] = json!({ "kind": kind, "canContinue": can_continue });
            view["state"] = context_state(&state);
            let _ = reply.send(Ok(view));
        });
    }
}

fn context_state(state: &Value) -> Value {
    let of = |key: &str, current: &str, available: &str| {
        let part = state.get(key);
        json!({
            current: part.and_then(|part| part.get(current)).cloned().unwrap_or(Value::Null),
            available: part.and_then(|part| part.get(available)).cloned().unwrap_or_else(|| json!([])),
        })
    };
    json!({
        "models": of("models", "currentModelId", "availableModels"),
        "modes": of("modes", "currentModeId", "availableModes"),
        "configOptions": state.get("configOptions").cloned().unwrap_or_else(|| json!([])),
    })
}
