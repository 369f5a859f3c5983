//! A turn: from a prompt to the model's last word.

use std::sync::Arc;

use agent_client_protocol::Error;
use holdpoint_model::history::{Content, Part, Role};
use holdpoint_model::ids::{CallId, RecordId};
use holdpoint_model::question::{TOOL_NAME, parameters_schema};
use holdpoint_model::restore::{Interruption, Restore, assess, interruption};
use holdpoint_transcript::Durability;
use serde_json::{Value, json};

use super::batch::{Batch, BatchEnd};
use super::modes::Modes;
use super::scribe::{Scribe, TurnRecord};
use super::step::Step;
use super::stop::Stop;
use super::store::{Store, StoreError};
use crate::client::Client;
use crate::config::AgentConfig;
use crate::params::keys;
use crate::provider::{Provider, ProviderError, ToolSpec};
use crate::rpc::{Peer, internal};
use crate::tools::Tools;

/// What a prompt asks for.
#[derive(Debug)]
pub(crate) enum Prompt {
    /// To answer a person.
    User(Vec<Part>),
    /// To take up the trailing question (R7).
    Restore,
    /// To go on where the session was interrupted (R11).
    Continue,
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The model had the last word, or a limit did; ACP's stop reason.
    Stopped(&'static str),
    /// It was cancelled; everything that was called has a result.
    Cancelled,
    /// Questions stay open, and nothing was written for them (R10).
    Parked,
    /// There was nothing to do.
    Nothing,
}

/// One turn. It owns the session's transcript while it runs.
pub(crate) struct Turn {
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) peer: Peer,
    pub(crate) client: Client,
    pub(crate) tools: Tools,
    pub(crate) modes: Modes,
    pub(crate) scribe: Scribe,
    pub(crate) store: Store,
    pub(crate) stop: Stop,
    pub(crate) started: jiff::Timestamp,
    pub(crate) prompt_text: String,
    /// How often the model was called.
    pub(crate) steps: u32,
    /// The system prompt and the tools, made for the first call.
    pub(crate) brief: Option<Arc<Brief>>,
}

/// What every call of the model in a turn has in common.
#[derive(Debug)]
pub(crate) struct Brief {
    pub(crate) system: String,
    pub(crate) tools: Vec<ToolSpec>,
}

impl Turn {
    /// Runs the turn; gives back the answer to the prompt, and the transcript.
    pub(crate) async fn run(mut self, prompt: Prompt) -> (Result<Value, Error>, Store) {
        let result = self.drive(prompt).await;
        self.record_end(&result).await;
        let answer = match result {
            Ok(End::Stopped(reason)) => Ok(json!({ "stopReason": reason })),
            Ok(End::Nothing) => Ok(json!({ "stopReason": "end_turn" })),
            Ok(End::Cancelled) => Ok(json!({ "stopReason": "cancelled" })),
            Ok(End::Parked) => Ok(json!({ "stopReason": "cancelled", "_meta": { keys::PARKED: true } })),
            Err(Failure::Store(error)) => Err(error.into()),
            Err(Failure::Provider(error)) => Err(internal(error.to_string())),
        };
        (answer, self.store)
    }

    async fn drive(&mut self, prompt: Prompt) -> Result<End, Failure> {
        let restored = match prompt {
            Prompt::User(parts) => {
                self.begin(parts).await?;
                None
            }
            Prompt::Continue => {
                self.store.open().await?;
                let tail = self.store.tail().await?.tail;
                // Never closes a question that can be asked again (R11).
                let restorable = self.config.restore && matches!(assess(&tail), Ok(Restore::Ask { .. }));
                if restorable || interruption(&tail) == Interruption::None {
                    return Ok(End::Nothing);
                }
                self.repair_tail().await?;
                None
            }
            Prompt::Restore => match self.take_up().await? {
                Some(batch) => Some(batch),
                None => return Ok(End::Nothing),
            },
        };
        if let Some(mut batch) = restored
            && let Some(end) = self.settle_batch(&mut batch).await?
        {
            return Ok(end);
        }
        loop {
            if self.stop.is_set() {
                return Ok(End::Cancelled);
            }
            if self.steps >= self.config.max_steps {
                return Ok(self.out_of_steps().await);
            }
            self.steps += 1;
            match self.step().await? {
                Step::Said(reason) => return Ok(End::Stopped(reason)),
                Step::Cancelled => return Ok(End::Cancelled),
                Step::Called(mut batch) => {
                    if let Some(end) = self.settle_batch(&mut batch).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Takes up a person's prompt: what dangles is closed first, so that no call dangles in mid-file (R2).
    async fn begin(&mut self, parts: Vec<Part>) -> Result<(), Failure> {
        holdpoint_crashpoint::hit("agent.prompt_received");
        if self.store.open().await? {
            self.repair_tail().await?;
        }
        // Before the record is written, or it would be read too.
        self.store.said().await?;
        let record = self.scribe.user(parts.clone());
        self.store.append(record, Durability::Fsync).await?;
        self.store.said().await?.contents.push(Content { role: Role::User, parts });
        Ok(())
    }

    /// The second look at the end of the file (WIRE d.1, gate 11).
    async fn take_up(&mut self) -> Result<Option<Batch>, Failure> {
        if !self.config.restore || !self.store.open().await? {
            return Ok(None);
        }
        let mut tail = self.store.tail().await?.tail;
        let restore = assess(&tail);
        if matches!(&restore, Ok(Restore::GoOn { cut_off, .. }) if !cut_off.is_empty()) {
            self.repair_tail().await?;
            tail = self.store.tail().await?.tail;
        }
        match (restore, tail.turn()) {
            (Ok(_), Some(turn)) => Ok(Some(Batch::restored(turn))),
            (Err(reason), _) => {
                tracing::info!(session = %self.scribe.session, %reason, "nothing to restore");
                Ok(None)
            }
            (Ok(_), None) => Ok(None),
        }
    }

    /// Runs a batch and puts its results into the history. The end of the turn, if it ends here.
    async fn settle_batch(&mut self, batch: &mut Batch) -> Result<Option<End>, Failure> {
        let end = self.run_batch(batch).await?;
        match end {
            BatchEnd::Parked => {
                self.store.forget();
                return Ok(Some(End::Parked));
            }
            BatchEnd::CallModel | BatchEnd::AllDeclined => {
                let results = std::mem::take(&mut batch.results);
                if batch.restored {
                    self.store.complete_turn(&batch.turn, results).await?;
                } else {
                    self.store.said().await?.push_results(&batch.ids(), results);
                }
            }
        }
        if self.stop.is_set() {
            return Ok(Some(End::Cancelled));
        }
        if end == BatchEnd::AllDeclined {
            return Ok(Some(End::Stopped("end_turn")));
        }
        holdpoint_crashpoint::hit("agent.before_model");
        Ok(None)
    }

    async fn out_of_steps(&mut self) -> End {
        let text = format!(
            "Stopped: this turn has called the model {} times, which is its limit. Send another prompt to go on.",
            self.config.max_steps
        );
        let content = json!({ "type": "text", "text": text });
        let update =
            json!({ "sessionUpdate": "agent_message_chunk", "content": content, "_meta": self.base_meta() });
        self.update(update).await;
        End::Stopped("max_turn_requests")
    }

    /// Writes how the turn ended. A failure to do so changes nothing for the client, who is told the end
    /// anyway.
    async fn record_end(&mut self, result: &Result<End, Failure>) {
        let error = result.as_ref().err().map(ToString::to_string);
        let (state, stop_reason) = match result {
            Ok(End::Stopped(reason)) => ("completed", Some(*reason)),
            Ok(End::Cancelled) => ("cancelled", Some("cancelled")),
            Ok(End::Parked | End::Nothing) => return,
            Err(_) => ("error", None),
        };
        let record = self.scribe.turn_result(&TurnRecord {
            state,
            stop_reason,
            started: self.started,
            prompt_text: &self.prompt_text,
            error: error.as_deref(),
        });
        if let Err(error) = self.store.append(record, Durability::Buffered).await {
            tracing::warn!(session = %self.scribe.session, %error, "the end of a turn was not recorded");
        }
        if matches!(result, Err(Failure::Store(_))) {
            self.store.forget();
        }
    }

    /// An open question whose turn somebody stopped: its repair will say so (H9).
    pub(crate) fn halted(&mut self, call: &CallId) {
        self.store.halted.insert(call.clone());
    }

    /// An open question that this turn stops asking. A client other than our daemon does not say why; it has sent the
    /// cancel before.
    pub(crate) fn left_open(&mut self, call: &CallId) {
        if self.stop.is_set() {
            self.halted(call);
        }
    }

    /// Sends an update of the session.
    pub(crate) async fn update(&self, update: Value) {
        self.peer.update(self.scribe.session.as_str(), update).await;
    }

    fn base_meta(&self) -> Value {
        let mut meta = json!({});
        if let Some(prompt) = &self.scribe.prompt {
            meta["promptId"] = json!(prompt);
        }
        meta
    }

    /// The `_meta` of frames that belong to a record.
    pub(crate) fn meta(&self, record: &RecordId) -> Value {
        let mut meta = self.base_meta();
        meta["qwen.session.recordId"] = json!(record);
        meta
    }

    /// The system prompt and the tools.
    pub(crate) async fn brief(&mut self) -> Result<Arc<Brief>, StoreError> {
        if let Some(brief) = &self.brief {
            return Ok(Arc::clone(brief));
        }
        let workspace = self.tools.workspace().to_owned();
        let system = super::store::blocking(move || crate::prompt::system(&workspace)).await?;
        let mut tools = self.tools.specs();
        tools.push(question_spec(self.client));
        let brief = Arc::new(Brief { system, tools });
        self.brief = Some(Arc::clone(&brief));
        Ok(brief)
    }
}

/// The question tool as it is offered (Q3: every client that speaks ACP can answer a permission request, so
/// there is always a way back).
fn question_spec(client: Client) -> ToolSpec {
    let mut description =
        "Asks the person who runs this session and waits for the answer. Use it for a decision \
        that is theirs, with concrete options; not for what you can find out yourself. The person can always \
        answer in their own words."
            .to_owned();
    if client == Client::Plain {
        description.push_str(
            " This client shows one question at a time, with one choice of its options: send a single question.",
        );
    }
    ToolSpec { name: TOOL_NAME.to_owned(), description, parameters: parameters_schema() }
}
