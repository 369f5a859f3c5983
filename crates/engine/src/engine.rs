//! The engine: sessions by id, and the inbox over all of them.

mod lists;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_ledger::Ledger;
use holdpoint_model::ids::{ClientId, Generation, Micros, PromptId, QuestionId, RequestId, SessionId};
use holdpoint_model::session::{CloseCause, Info, Rejection, late_answer};
use holdpoint_transcript::ReadError as TranscriptError;
use holdpoint_transcript::replay::{Direction, Finalise, PageRequest};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::bus::{Cursor, Subscription};
use crate::config::EngineConfig;
use crate::error::EngineError;
use crate::health::{LedgerHealth, Noted, Watched};
use crate::history::Transcripts;
use crate::port::{Agents, NewSession};
use crate::session::{
    Accepted, AnswerRequest, Attached, FROM_AGENT, LoadAction, LoadRequest, Made, Msg, Presence,
    PromptRequest, Queued, Receipt, Start, VoteOutcome, VoteRequest,
};
use crate::shared::Shared;
use crate::wire::question as question_wire;
use crate::world::World;

pub use lists::{Activity, QuestionList, SessionList};

/// How long sessions have to end their streams when the daemon stops.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The engine. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    /// The shared default session of each workspace (scope `single`, WIRE a.2).
    defaults: Arc<Mutex<HashMap<String, SessionId>>>,
    /// How the ledger does.
    noted: Arc<Noted>,
}

/// A session is to be made.
#[derive(Clone, Debug, Default)]
pub struct CreateRequest {
    /// Its id, if one was asked for.
    pub session: Option<SessionId>,
    /// The workspace; the daemon's if none is named.
    pub cwd: Option<String>,
    /// Whether the workspace's shared session will do.
    pub shared_scope: bool,
    /// The approval mode.
    pub approval_mode: Option<String>,
    /// What kind of surface asks, and its name for the session.
    pub source: (Option<String>, Option<String>),
    /// The client id that the request named.
    pub client: Option<ClientId>,
    /// How the client shows itself.
    pub presence: Presence,
}

/// A copy of a session.
#[derive(Clone, Debug)]
pub struct Branched {
    /// The copy, loaded.
    pub attached: Attached,
    /// Its title.
    pub name: String,
    /// The original, and its title.
    pub from: (SessionId, Option<String>),
}

impl Engine {
    /// An engine over a ledger, agents and their transcripts.
    pub fn new(
        config: EngineConfig,
        ledger: Arc<dyn Ledger>,
        agents: Arc<dyn Agents>,
        transcripts: Arc<dyn Transcripts>,
        world: Arc<dyn World>,
    ) -> Self {
        let (ledger, noted) = Watched::new(ledger, Arc::clone(&world));
        let shared = Arc::new(Shared::new(config, Arc::new(ledger), agents, transcripts, world));
        Self { shared, defaults: Arc::default(), noted }
    }

    /// How the ledger is, by what became of the last things that were asked of it.
    pub fn ledger_health(&self) -> LedgerHealth {
        self.noted.health()
    }

    /// Its settings.
    pub fn config(&self) -> &EngineConfig {
        &self.shared.config
    }

    /// Now.
    pub fn now(&self) -> Micros {
        self.shared.world.now()
    }

    /// Makes a session, or attaches to the workspace's shared one.
    ///
    /// # Errors
    /// See [`EngineError`]; the session is not made then.
    pub async fn create(&self, request: CreateRequest) -> Result<Attached, EngineError> {
        let cwd = request.cwd.clone().unwrap_or_else(|| self.shared.config.workspace.clone());
        if request.shared_scope && request.session.is_none() {
            let known = self.defaults().get(&cwd).cloned();
            if let Some(handle) = known.and_then(|id| self.shared.find(&id)) {
                let (reply, answer) = oneshot::channel();
                if handle
                    .send(Msg::Attach(request.client.clone(), request.presence.clone(), reply))
                    .await
                    .is_ok()
                    && let Ok(Ok(attached)) = answer.await
                {
                    return Ok(attached);
                }
            }
        }
        let attached = self.make(request.clone(), cwd.clone()).await?;
        if request.shared_scope && request.session.is_none() {
            self.defaults().insert(cwd, attached.session.clone());
        }
        Ok(attached)
    }

    async fn make(&self, request: CreateRequest, cwd: String) -> Result<Attached, EngineError> {
        if self.shared.stop.is_cancelled() {
            return Err(EngineError::Stopping);
        }
        let wanted = request.session.clone();
        if let Some(id) = &wanted
            && (self.shared.find(id).is_some() || self.is_stored(id).await?)
        {
            return Err(EngineError::SessionExists(id.clone()));
        }
        let id = wanted.unwrap_or_else(|| self.shared.world.session_id());
        let _place = self.shared.place(&id)?;
        let agent = self.shared.agents.connect(&self.shared.config.agent, &cwd).await?;
        let (sink, from_agent) = mpsc::channel(FROM_AGENT);
        let new = NewSession {
            session: id.clone(),
            cwd: cwd.clone(),
            approval_mode: request.approval_mode.clone(),
        };
        let taken = agent.new_session(new, sink.clone()).await?;
        let id = taken.session.clone().unwrap_or(id);
        let (source_type, source_id) = request.source;
        let info = Info {
            workspace_cwd: cwd,
            agent: self.shared.config.agent.clone(),
            source_type,
            source_id,
            approval_mode: request.approval_mode,
        };
        let (reply, answer) = oneshot::channel();
        let CreateRequest { client, presence, .. } = request;
        let made = Made { info, agent, taken, sink, from_agent, client, presence, reply };
        if self.shared.start_new(&id, Start::New(Box::new(made))).is_none() {
            return Err(EngineError::SessionExists(id));
        }
        answer.await.unwrap_or(Err(EngineError::Stopping))
    }

    async fn is_stored(&self, id: &SessionId) -> Result<bool, EngineError> {
        if self.shared.ledger.session(id).await?.is_some() {
            return Ok(true);
        }
        match self.shared.transcripts.summary(id).await {
            // It cannot be read here, and is there all the same.
            Err(TranscriptError::Newer { .. }) => Ok(true),
            summary => Ok(summary?.is_some()),
        }
    }

    /// Loads or resumes a session.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub async fn load(&self, id: &SessionId, request: LoadRequest) -> Result<Attached, EngineError> {
        let _place = self.shared.place(id)?;
        self.wake(id, |reply| Msg::Load(request, reply)).await
    }

    /// A client goes away. Nothing happens where there is no such session or client.
    pub async fn detach(&self, id: &SessionId, client: ClientId) {
        if let Some(handle) = self.shared.find(id) {
            let (reply, answer) = oneshot::channel();
            if handle.send(Msg::Detach(client, reply)).await.is_ok() {
                let _ = answer.await;
            }
        }
    }

    /// Closes a live session.
    ///
    /// # Errors
    /// It is not live.
    pub async fn close(&self, id: &SessionId, client: Option<ClientId>) -> Result<(), EngineError> {
        self.live(id, |reply| Msg::Close(client, reply)).await
    }

    /// Deletes a stored session, and its questions with it (D6).
    ///
    /// # Errors
    /// There is none, or it cannot be deleted.
    pub async fn delete(&self, id: &SessionId) -> Result<(), EngineError> {
        self.wake(id, Msg::Delete).await
    }

    /// Accepts a prompt, once by its id.
    ///
    /// # Errors
    /// See [`EngineError`]; nothing was accepted.
    pub async fn prompt(&self, id: &SessionId, request: PromptRequest) -> Result<Accepted, EngineError> {
        self.live(id, |reply| Msg::Prompt(request, reply)).await
    }

    /// The prompts that wait or run.
    ///
    /// # Errors
    /// The session is not live.
    pub async fn prompts(
        &self,
        id: &SessionId,
        client: Option<ClientId>,
    ) -> Result<Vec<Queued>, EngineError> {
        self.live(id, |reply| Msg::Prompts(client, reply)).await
    }

    /// Takes a waiting prompt back; `false` where none with that id waits.
    ///
    /// # Errors
    /// The session is not live.
    pub async fn remove_prompt(
        &self,
        id: &SessionId,
        prompt: PromptId,
        client: Option<ClientId>,
    ) -> Result<bool, EngineError> {
        self.live(id, |reply| Msg::RemovePrompt(prompt, client, reply)).await
    }

    /// Stops the turn.
    ///
    /// # Errors
    /// The session is not live.
    pub async fn cancel(
        &self,
        id: &SessionId,
        unreachable: bool,
        client: Option<ClientId>,
    ) -> Result<(), EngineError> {
        self.live(id, |reply| Msg::Cancel { unreachable, client, reply }).await
    }

    /// Goes on with an interrupted turn; `None` where there is nothing to go on with.
    ///
    /// # Errors
    /// The session is not live.
    pub async fn go_on(
        &self,
        id: &SessionId,
        client: Option<ClientId>,
    ) -> Result<Option<(&'static str, Accepted)>, EngineError> {
        self.live(id, |reply| Msg::Continue(client, reply)).await
    }

    /// What a live session does and waits for.
    ///
    /// # Errors
    /// The session is not live.
    pub async fn status(&self, id: &SessionId, client: Option<ClientId>) -> Result<Value, EngineError> {
        self.live(id, |reply| Msg::Status(client, reply)).await
    }

    /// What `GET /context` shows.
    ///
    /// # Errors
    /// The session is not live.
    pub async fn context(&self, id: &SessionId, client: Option<ClientId>) -> Result<Value, EngineError> {
        self.live(id, |reply| Msg::Context(client, reply)).await
    }

    /// A sign of life; returns its time.
    ///
    /// # Errors
    /// The session is not live, or does not know the client.
    pub async fn heartbeat(&self, id: &SessionId, client: Option<ClientId>) -> Result<Micros, EngineError> {
        self.live(id, |reply| Msg::Heartbeat(client, reply)).await
    }

    /// Gives a session a title.
    ///
    /// # Errors
    /// The session is not live.
    pub async fn rename(
        &self,
        id: &SessionId,
        title: String,
        client: Option<ClientId>,
    ) -> Result<(), EngineError> {
        self.live(id, |reply| Msg::Rename(title, client, reply)).await
    }

    /// Reads a live session's stream. A client that is attached and reads counts as there (see `clients` in the status).
    ///
    /// # Errors
    /// The session is not live, or has too many readers.
    pub async fn subscribe(
        &self,
        id: &SessionId,
        cursor: Option<Cursor>,
        max_queued: usize,
        client: Option<ClientId>,
    ) -> Result<Subscription, EngineError> {
        self.live(id, |reply| Msg::Subscribe { cursor, max_queued, client, reply }).await
    }

    /// A vote on the peer's routes. With the flag on it wakes the session that its request belongs to (R17).
    ///
    /// # Errors
    /// See [`EngineError`]; the question is as it was.
    pub async fn vote(
        &self,
        session: Option<&SessionId>,
        request: RequestId,
        vote: VoteRequest,
    ) -> Result<VoteOutcome, EngineError> {
        if let Some(id) = session
            && self.shared.find(id).is_some()
        {
            return self.live(id, |reply| Msg::Vote(request, vote, reply)).await;
        }
        let row = self.shared.ledger.question_by_request(&request).await?;
        let row = row.filter(|row| session.is_none_or(|id| row.session.session == *id));
        let Some(row) = row else {
            return Err(match session {
                Some(id) => EngineError::NotLive(id.clone()),
                None => Rejection::UnknownQuestion.into(),
            });
        };
        let id = row.session.session;
        if self.shared.config.restore || self.shared.find(&id).is_some() {
            self.wake(&id, |reply| Msg::Vote(request, vote, reply)).await
        } else {
            Err(EngineError::NotLive(id))
        }
    }

    /// An answer by a question's durable identity (D2). It wakes the session if nobody asks (D3).
    ///
    /// # Errors
    /// See [`EngineError`]; the question is as it was.
    pub async fn answer(&self, id: &QuestionId, answer: AnswerRequest) -> Result<Receipt, EngineError> {
        // Who asks it now knows all of it.
        if let Some(session) = self.shared.asker(id) {
            return self.wake(&session, |reply| Msg::Answer(id.clone(), answer, reply)).await;
        }
        let Some(row) = self.shared.ledger.question(id).await? else {
            return Err(Rejection::UnknownQuestion.into());
        };
        let question = Arc::new(row.question);
        if row.session.deleted && question.is_open() {
            return Err(Rejection::Closed { cause: CloseCause::SessionDeleted, question }.into());
        }
        // An answer that the agent does not have yet wakes its session, as often as it is given (D3).
        let waits = !question.delivered && self.shared.config.restore && question.body.is_question();
        if !question.is_open() && (row.session.deleted || !waits) {
            // What has ended never changes: the row says it all, however old it is.
            let response = answer.response.as_ref();
            late_answer(&question, answer.generation, answer.choice, response)?;
            let delivery = if question.delivered { "delivered" } else { "stored" };
            let response = response.map(AsRef::as_ref);
            return Ok(Receipt::Settled(question_wire::receipt(&question, response, Some(delivery))));
        }
        self.wake(&row.session.session, |reply| Msg::Answer(id.clone(), answer, reply)).await
    }

    /// One page of a stored or live session's history (WIRE a.4).
    ///
    /// # Errors
    /// There is no such session, or the cursor is not one of its records.
    pub async fn transcript(
        &self,
        id: &SessionId,
        cursor: Option<holdpoint_model::ids::RecordId>,
        backward: bool,
        limit: usize,
    ) -> Result<holdpoint_transcript::replay::Page, TranscriptOrEngine> {
        let known = self.shared.ledger.session(id).await.map_err(EngineError::from)?;
        if known.as_ref().is_some_and(|row| row.deleted) {
            // Whatever a crash has left of its file (D6).
            return Err(EngineError::NoSession(id.clone()).into());
        }
        let mut spare = std::collections::BTreeSet::new();
        let running = self.is_at_work(id).await;
        if self.shared.config.restore && !running {
            // What a load would ask again is shown as waiting, not as failed: by the end of the file, since that is
            // what a load goes by (R4). Where it cannot be read, the page below says why.
            spare = self.shared.transcripts.dangling(id).await.unwrap_or_default();
        }
        let finalise = if running { Finalise::Leave } else { Finalise::Close { spare } };
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let request = PageRequest { direction, cursor, limit, max_bytes: 4 * 1024 * 1024 };
        match self.shared.transcripts.page(id, request, finalise).await {
            Ok(Some(page)) => Ok(page),
            Ok(None) if known.is_some() => Ok(holdpoint_transcript::replay::Page {
                at_end: true,
                ..holdpoint_transcript::replay::Page::default()
            }),
            Ok(None) => Err(EngineError::NoSession(id.clone()).into()),
            Err(error) => Err(TranscriptOrEngine::Transcript(error)),
        }
    }

    /// Copies a session that is loaded or stored, and loads the copy. The copy has no open question; the
    /// original keeps its own (E7, CR20).
    ///
    /// # Errors
    /// There is no such session, a turn runs in it, or it cannot be copied.
    pub async fn branch(
        &self,
        id: &SessionId,
        name: Option<String>,
        presence: Presence,
    ) -> Result<Branched, EngineError> {
        let row = self.shared.ledger.session(id).await?;
        let title = row.as_ref().and_then(|row| row.title.clone());
        self.wake(id, Msg::Branch).await?;
        let copy = self.shared.world.session_id();
        let _place = self.shared.place(&copy)?;
        self.shared.transcripts.branch(id, &copy).await.map_err(EngineError::Transcript)?;
        holdpoint_crashpoint::hit("daemon.branch_copied");
        let name = name.unwrap_or_else(|| match &title {
            Some(title) => format!("{title} (copy)"),
            None => "Copy".to_owned(),
        });
        let attached = if self.is_stored(&copy).await? {
            // A session of our agent is what its transcript is: the copy is taken in from there. Nobody is attached
            // to it yet, and nothing is asked in it (E7); who copies it gets a new id, as with any session that is new.
            let request = LoadRequest {
                action: LoadAction::Load,
                presence,
                client: None,
                page_size: None,
                approval_mode: None,
            };
            let attached = self.load(&copy, request).await?;
            holdpoint_crashpoint::hit("daemon.branch_taken_in");
            attached
        } else {
            // Nothing was said in the original yet, so its copy is a new session.
            let cwd = row.map(|row| row.workspace_cwd).unwrap_or_default();
            let request = CreateRequest { session: Some(copy.clone()), presence, ..CreateRequest::default() };
            self.make(request, cwd).await?
        };
        self.rename(&copy, name.clone(), None).await?;
        Ok(Branched { attached, name, from: (id.clone(), title) })
    }

    /// A surface has rendered a question (D4).
    ///
    /// # Errors
    /// See [`EngineError`].
    pub async fn shown(
        &self,
        id: &QuestionId,
        generation: Generation,
        surface: String,
    ) -> Result<(), EngineError> {
        let Some(row) = self.shared.ledger.question(id).await? else {
            return Err(Rejection::UnknownQuestion.into());
        };
        let question = id.clone();
        self.wake(&row.session.session, |reply| Msg::Shown { question, generation, surface, reply }).await
    }

    /// How many sessions are live, or on their way in or out.
    pub fn live_sessions(&self) -> usize {
        self.shared.live()
    }

    /// How many tasks run: one for each live session, and those for work that is under way (I9).
    pub fn tasks(&self) -> usize {
        self.shared.tasks.len()
    }

    /// How many of the [tasks](Self::tasks) wait for a ledger that failed, to give acknowledged answers to an agent.
    pub fn owed(&self) -> usize {
        crate::owed::count(&self.shared)
    }

    /// Stops: streams end, agents are stopped, and nothing is written for open questions (I12). What was
    /// accepted before is committed.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        // The sessions' last words come before the daemon's end; what waits for an agent is not waited for.
        drop(tokio::time::timeout(LAST_WORDS, self.shared.tasks.wait()).await);
        self.shared.agents.stop().await;
        self.shared.ledger.shut().await;
    }

    /// Ends when the engine has been told to stop.
    pub async fn stopping(&self) {
        self.shared.stop.cancelled().await;
    }

    fn defaults(&self) -> std::sync::MutexGuard<'_, HashMap<String, SessionId>> {
        self.defaults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a session's actor; there must be one.
    async fn live<T>(
        &self,
        id: &SessionId,
        msg: impl FnOnce(oneshot::Sender<Result<T, EngineError>>) -> Msg,
    ) -> Result<T, EngineError> {
        let not_live = || EngineError::NotLive(id.clone());
        let handle = self.shared.find(id).ok_or_else(not_live)?;
        let (reply, answer) = oneshot::channel();
        handle.send(msg(reply)).await.map_err(|_| not_live())?;
        answer.await.unwrap_or_else(|_| Err(not_live()))
    }

    /// Asks a session's actor; one is started if there is none.
    async fn wake<T>(
        &self,
        id: &SessionId,
        msg: impl FnOnce(oneshot::Sender<Result<T, EngineError>>) -> Msg,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        let mut msg = msg(reply);
        // An actor may end between the look and the message; the next one takes it.
        loop {
            if self.shared.stop.is_cancelled() {
                return Err(EngineError::Stopping);
            }
            match self.shared.find_or_start(id).send(msg).await {
                Ok(()) => break,
                Err(back) => msg = back,
            }
            tokio::task::yield_now().await;
        }
        answer.await.unwrap_or_else(|_| Err(EngineError::NotLive(id.clone())))
    }
}

/// Why a page of a history cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptOrEngine {
    /// The transcript.
    #[error(transparent)]
    Transcript(TranscriptError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
