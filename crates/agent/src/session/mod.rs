//! One session: one task, one mailbox, at most one running turn.

mod ask;
mod batch;
mod modes;
mod open;
mod scribe;
mod step;
mod stop;
mod store;
mod turn;

use std::sync::Arc;

use agent_client_protocol::{Error, RequestCancellation, Responder};
use camino::Utf8PathBuf;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use holdpoint_model::ids::{PromptId, SessionId};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::modes::Modes;
use self::scribe::Scribe;
use self::stop::{Stop, Why};
use self::store::Store;
use self::turn::{Prompt, Turn};
use crate::client::Client;
use crate::config::AgentConfig;
use crate::params::{self, Open, ReplayMode, keys};
use crate::prompt;
use crate::provider::Provider;
use crate::rpc::{Peer, invalid_params, invalid_request};
use crate::tools::{ApprovalMode, Tools};

/// How many requests may wait for a session: far more than a client has open at once. What does not fit is
/// refused, since the dispatcher must not wait (trap 10).
pub(crate) const MAILBOX: usize = 64;

/// What a session is asked to do.
pub(crate) enum Command {
    /// `session/new`.
    New { cwd: Utf8PathBuf, mode: Option<ApprovalMode>, reply: Responder },
    /// `session/load` or `session/resume`.
    Open { open: Box<Open>, reply: Responder },
    /// `session/prompt`.
    Prompt { params: Value, reply: Responder },
    /// `session/set_mode`.
    SetMode { mode: ApprovalMode, reply: Responder },
    /// `session/cancel`.
    Cancel,
    /// `session/close`.
    Close { reply: Responder },
}

impl Command {
    /// Answers the command with an error; a cancel has no answer.
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::New { reply, .. }
            | Self::Open { reply, .. }
            | Self::Prompt { reply, .. }
            | Self::SetMode { reply, .. }
            | Self::Close { reply } => answer(reply, Err(error)),
            Self::Cancel => {}
        }
    }
}

/// Answers a request. A client that is gone does not need it.
pub(crate) fn answer(reply: Responder, result: Result<Value, Error>) {
    if let Err(error) = reply.respond_with_result(result) {
        tracing::debug!(code = i32::from(error.code), "an answer could not be sent");
    }
}

/// What all sessions of a process share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) peer: Peer,
    pub(crate) client: Client,
}

/// A session of this process.
pub(crate) struct Session {
    shared: Shared,
    id: SessionId,
    modes: Modes,
    /// `None` until the session was made or loaded.
    tools: Option<Tools>,
    /// `None` while a turn has it.
    store: Option<Store>,
}

/// The switches of a running turn.
struct Control {
    stop: Stop,
    /// Tells when the client withdraws the prompt.
    withdrawn: Option<RequestCancellation>,
}

impl Session {
    pub(crate) fn new(shared: Shared, id: SessionId) -> Self {
        let path = holdpoint_transcript::path(&shared.config.data_dir, &id);
        let modes = Modes::new(shared.config.approval_mode);
        Self { shared, id, modes, tools: None, store: Some(Store::new(path)) }
    }

    /// Serves the mailbox until the session is closed, its opening fails, or the process ends.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut turn: Option<BoxFuture<'static, Store>> = None;
        let mut control: Option<Control> = None;
        let mut closing: Vec<Responder> = Vec::new();
        loop {
            tokio::select! {
                store = poll_turn(&mut turn), if turn.is_some() => {
                    turn = None;
                    control = None;
                    self.store = Some(store);
                    if !closing.is_empty() {
                        break;
                    }
                }
                () = withdrawn(&control), if control.as_ref().is_some_and(|c| c.withdrawn.is_some()) => {
                    if let Some(control) = &mut control {
                        control.withdrawn = None;
                        // Whoever waited is gone; that is nobody's decision about a question.
                        control.stop.stop(Why::Close);
                    }
                }
                command = commands.recv() => match command {
                    None => break,
                    Some(Command::Prompt { reply, .. }) if turn.is_some() || !closing.is_empty() => {
                        let text = "the session has a prompt in progress; cancel it or wait for its end";
                        answer(reply, Err(invalid_request(text)));
                    }
                    Some(Command::Prompt { params, reply }) => {
                        if let Some((running, switches)) = self.start(&params, reply) {
                            turn = Some(running);
                            control = Some(switches);
                        }
                    }
                    Some(Command::Cancel) => {
                        if let Some(control) = &control {
                            control.stop.stop(Why::Cancel);
                        }
                    }
                    Some(Command::Close { reply }) => {
                        closing.push(reply);
                        match &control {
                            Some(control) => control.stop.stop(Why::Close),
                            None => break,
                        }
                    }
                    Some(Command::SetMode { mode, reply }) => {
                        self.modes.set(mode);
                        let update =
                            json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode.id() });
                        self.shared.peer.update(self.id.as_str(), update).await;
                        answer(reply, Ok(json!({})));
                    }
                    Some(Command::New { reply, .. }) if self.tools.is_some() => {
                        answer(reply, Err(exists(&self.id)));
                    }
                    Some(Command::New { cwd, mode, reply }) => {
                        let result = self.make(cwd, mode).await;
                        let failed = result.is_err();
                        answer(reply, result);
                        if failed {
                            break;
                        }
                    }
                    Some(Command::Open { open, reply }) => {
                        let result = self.open(*open).await;
                        let failed = result.is_err() && self.tools.is_none();
                        answer(reply, result);
                        if failed {
                            break;
                        }
                    }
                },
            }
        }
        // The lock on the transcript goes before the answer, so that another process can take it at once.
        drop(self);
        for reply in closing {
            answer(reply, Ok(json!({})));
        }
        commands.close();
        while let Some(command) = commands.recv().await {
            command.refuse(invalid_request("the session was closed"));
        }
    }

    async fn make(&mut self, cwd: Utf8PathBuf, mode: Option<ApprovalMode>) -> Result<Value, Error> {
        let path = self.store.as_ref().map(|store| store.path().clone());
        let exists = store::blocking(move || path.is_some_and(|path| path.exists())).await?;
        if exists {
            return Err(self::exists(&self.id));
        }
        self.place(cwd, mode);
        Ok(json!({ "sessionId": self.id, "modes": self.modes.to_value() }))
    }

    /// Sets the workspace and, if one is named, the mode.
    fn place(&mut self, cwd: Utf8PathBuf, mode: Option<ApprovalMode>) {
        self.tools = Some(Tools::new(cwd, self.shared.config.limits.clone()));
        if let Some(mode) = mode {
            self.modes.set(mode);
        }
    }

    /// Starts a turn; its prompt is answered when it ends. `None`: the prompt was refused.
    fn start(&mut self, params: &Value, reply: Responder) -> Option<(BoxFuture<'static, Store>, Control)> {
        let (prompt, prompt_text, prompt_id) = match read_prompt(params) {
            Ok(read) => read,
            Err(error) => {
                answer(reply, Err(error));
                return None;
            }
        };
        let (Some(tools), Some(store)) = (self.tools.clone(), self.store.take()) else {
            answer(reply, Err(invalid_request("the session is not loaded; send session/load first")));
            return None;
        };
        let stop = Stop::default();
        let withdrawn = Some(reply.cancellation());
        let turn = Turn {
            config: Arc::clone(&self.shared.config),
            provider: Arc::clone(&self.shared.provider),
            peer: self.shared.peer.clone(),
            client: self.shared.client,
            scribe: self.scribe(&tools, prompt_id),
            tools,
            modes: self.modes.clone(),
            store,
            stop: stop.clone(),
            started: jiff::Timestamp::now(),
            prompt_text,
            steps: 0,
            brief: None,
        };
        let running = async move {
            let (result, store) = turn.run(prompt).await;
            answer(reply, result);
            store
        };
        Some((running.boxed(), Control { stop, withdrawn }))
    }

    fn scribe(&self, tools: &Tools, prompt: Option<PromptId>) -> Scribe {
        Scribe {
            session: self.id.clone(),
            cwd: tools.workspace().to_string(),
            version: self.shared.config.version.clone(),
            model: self.shared.provider.model().to_owned(),
            prompt,
        }
    }
}

fn exists(id: &SessionId) -> Error {
    invalid_params(format!("{}: the session {id} exists; load it", keys::SESSION))
}

fn read_prompt(params: &Value) -> Result<(Prompt, String, Option<PromptId>), Error> {
    let prompt_id = params::prompt_id(params);
    if params::flag(params, keys::RESTORE) {
        return Ok((Prompt::Restore, String::new(), prompt_id));
    }
    if params::flag(params, keys::CONTINUE) {
        return Ok((Prompt::Continue, String::new(), prompt_id));
    }
    let parts = prompt::parts(params)?;
    if parts.is_empty() {
        return Err(invalid_params("prompt: is empty; send at least one content block"));
    }
    let text = prompt::plain_text(&parts);
    Ok((Prompt::User(parts), text, prompt_id))
}

async fn poll_turn(turn: &mut Option<BoxFuture<'static, Store>>) -> Store {
    match turn {
        Some(turn) => turn.await,
        None => std::future::pending().await,
    }
}

async fn withdrawn(control: &Option<Control>) {
    match control.as_ref().and_then(|control| control.withdrawn.as_ref()) {
        Some(withdrawn) => withdrawn.cancelled().await,
        None => std::future::pending().await,
    }
}
