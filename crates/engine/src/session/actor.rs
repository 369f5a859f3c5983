//! The actor: what it holds, and the loop that takes one thing at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use holdpoint_ledger::AppendError;
use holdpoint_model::ids::{ClientId, Generation, Micros, PromptId, RequestId, SessionId};
use holdpoint_model::session::{Command, Info};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::attach::ReadDone;
use super::book::Book;
use super::clients::Clients;
use super::lost::Lost;
use super::message::{Accepted, Answer, AskedView, Attached, Msg, Presence};
use super::take_up::{TakeUpDone, TakingUp};
use crate::bus::Bus;
use crate::error::EngineError;
use crate::frame::Event as Frame;
use crate::port::{Agent, FromAgent, Reply, Respond, TakenUp};
use crate::shared::Shared;

/// Messages that may wait for one actor. Each is one request of a person or program, and a request waits for
/// its reply, so more than this many means more than this many concurrent callers of one session.
const MAILBOX: usize = 1024;
/// How long to wait before a commit that failed is tried again.
pub(super) const STALLED_RETRY: Duration = Duration::from_secs(1);
/// What an agent may have said that the actor has not taken yet; the agent's pipe waits beyond it.
pub(crate) const FROM_AGENT: usize = 1024;

/// The way to a session's actor.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    mailbox: mpsc::Sender<Msg>,
    /// Tells this actor from a later one of the same session.
    pub(crate) serial: u64,
}

impl Handle {
    /// Sends a message. `Err` gives it back: the actor has ended, and a new one may be started.
    pub(crate) async fn send(&self, msg: Msg) -> Result<(), Msg> {
        self.mailbox.send(msg).await.map_err(|error| error.0)
    }

    /// The session's row in lists; `None` where it is not live.
    pub(crate) async fn row(&self) -> Option<Value> {
        let (reply, answer) = oneshot::channel();
        self.send(Msg::Row(reply)).await.ok()?;
        answer.await.ok().flatten()
    }
}

/// How an actor begins.
pub(crate) enum Start {
    /// From what the ledger holds.
    Stored,
    /// With a session that an agent has just made.
    New(Box<Made>),
}

/// A session that an agent has just made.
pub(crate) struct Made {
    /// What it is.
    pub(crate) info: Info,
    /// The agent.
    pub(crate) agent: Arc<dyn Agent>,
    /// What it told.
    pub(crate) taken: TakenUp,
    /// Where it says what follows.
    pub(crate) sink: mpsc::Sender<FromAgent>,
    /// The other end.
    pub(crate) from_agent: mpsc::Receiver<FromAgent>,
    /// The client id that the request named.
    pub(crate) client: Option<ClientId>,
    /// How the client shows itself.
    pub(crate) presence: Presence,
    /// The way back.
    pub(crate) reply: Answer<Attached>,
}

/// The agent's side of the session.
pub(super) enum Link {
    /// No agent has the session.
    Down,
    /// An agent is taking it up.
    TakingUp(Box<TakingUp>),
    /// An agent has it.
    Up {
        /// The agent.
        agent: Arc<dyn Agent>,
        /// `modes`, `models` and options, as it told them.
        state: Value,
    },
}

/// A live asking: how to answer the agent.
#[derive(Default)]
pub(super) struct Pending {
    /// The requests that wait, each with its way back.
    pub(super) responders: Vec<(RequestId, Box<dyn Respond>)>,
    /// When it times out.
    pub(super) deadline: Option<Instant>,
    /// When it is said that no surface has shown it (D4).
    pub(super) unseen_at: Option<Instant>,
}

/// Where the turn that runs began: in the stream, and in the transcript.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) event: u64,
    pub(super) offset: u64,
}

/// One session's actor.
pub(crate) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) id: SessionId,
    pub(super) serial: u64,
    pub(super) state: Book,
    pub(super) bus: Bus,
    mailbox: mpsc::Receiver<Msg>,
    pub(super) link: Link,
    pub(super) from_agent: Option<mpsc::Receiver<FromAgent>>,
    pub(super) done: mpsc::Sender<Done>,
    done_receiver: mpsc::Receiver<Done>,
    pub(super) pending: BTreeMap<Generation, Pending>,
    /// Open questions that a load does not ask again: their batch is mixed, or cannot be read (E3, E4).
    pub(super) unrestorable: BTreeSet<Generation>,
    /// The agent could restore what its history ends in, and the load that took it up kept it from that: the next load by
    /// a client has it restored, and the queue waits for that (R2, R6, R19).
    pub(super) passed_over: bool,
    /// Who is attached.
    pub(super) clients: Clients,
    /// Commits that nobody waits for.
    pub(super) lazy: FuturesUnordered<Reply<Result<(), AppendError>>>,
    /// Prompts whose waiting was told.
    pub(super) announced: BTreeSet<PromptId>,
    pub(super) mark: Option<Mark>,
    pub(super) cancelled_at: Option<Micros>,
    /// When the running turn must have ended, and the turn that has not.
    pub(super) deadline: Option<Instant>,
    pub(super) overdue: Option<PromptId>,
    pub(super) turn_error: Option<Value>,
    /// The turn that a crash ended, as a load tells of it (WIRE f.3): its end was told to nobody who had left.
    pub(super) lost: Option<Value>,
    /// How often the agent was started again since it last worked.
    pub(super) restarts: u32,
    /// When to start it again.
    pub(super) retry_at: Option<Instant>,
    pub(super) last_activity: Instant,
    /// Set when the actor shall end.
    pub(super) ended: bool,
    /// It ends because the session is put away, and stays stored: who comes meanwhile is told so.
    pub(super) closing: bool,
    /// The agent's request that is being decided.
    pub(super) incoming: Option<(RequestId, Box<dyn Respond>)>,
    /// Requests that could not be stored, and when to try again.
    pub(super) stalled: Vec<(Value, Box<dyn Respond>)>,
    pub(super) stalled_until: Option<Instant>,
    /// Where the agent says what it has to say.
    pub(super) sink: Option<mpsc::Sender<FromAgent>>,
    /// A prompt was accepted in this life: the queue may go on over a question that nobody asks.
    pub(super) queue_is_fresh: bool,
    /// Calls of the question tool that run, and may have no question.
    pub(super) lost_calls: Lost,
}

/// Work that was done beside the actor.
pub(super) enum Done {
    /// An agent took the session up, or not.
    TakenUp(Box<TakeUpDone>),
    /// A history was read for somebody who attached.
    Read(Box<ReadDone>),
    /// It was found how a history ends, for a continue.
    Interruption {
        /// Who wants to continue.
        client: Option<ClientId>,
        /// How it ends.
        interruption: Result<&'static str, String>,
        /// The way back.
        reply: Answer<Option<(&'static str, Accepted)>>,
    },
}

impl Actor {
    /// Starts an actor.
    pub(crate) fn spawn(shared: Arc<Shared>, id: SessionId, serial: u64, start: Start) -> Handle {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        // One take-up at a time, and one read for each load that waits: the mailbox bounds them.
        let (done, done_receiver) = mpsc::channel(MAILBOX);
        let tracker = shared.tasks.clone();
        let actor = Self {
            bus: Bus::new(shared.world.uuid(), shared.config.ring_size),
            state: Book::empty(id.clone()),
            clients: Clients::new(shared.config.away_after),
            shared,
            id,
            serial,
            mailbox,
            link: Link::Down,
            from_agent: None,
            done,
            done_receiver,
            pending: BTreeMap::new(),
            unrestorable: BTreeSet::new(),
            passed_over: false,
            lazy: FuturesUnordered::new(),
            announced: BTreeSet::new(),
            mark: None,
            cancelled_at: None,
            deadline: None,
            overdue: None,
            turn_error: None,
            lost: None,
            restarts: 0,
            retry_at: None,
            last_activity: Instant::now(),
            ended: false,
            closing: false,
            incoming: None,
            stalled: Vec::new(),
            stalled_until: None,
            sink: None,
            queue_is_fresh: false,
            lost_calls: Lost::default(),
        };
        tracker.spawn(actor.run(start));
        Handle { mailbox: sender, serial }
    }

    async fn run(mut self, start: Start) {
        match self.begin(start).await {
            Ok(()) => self.work().await,
            Err(error) => self.refuse_all(&error).await,
        }
        // Until its last commit is done nobody else may write for this session: two writers could each find the
        // other's version where they expect their own.
        let stop = self.shared.stop.clone();
        while !self.lazy.is_empty() {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = self.lazy.next() => {}
            }
        }
        for question in self.state.questions.values() {
            self.shared.asks_no_more(&question.id);
        }
        self.shared.forget(&self.id, self.serial);
        self.mailbox.close();
        self.hand_over().await;
    }

    /// What came in after the last look: an actor that wakes on it takes it, the rest learns that there is
    /// none. No caller waits for ever.
    async fn hand_over(&mut self) {
        while let Some(msg) = self.mailbox.recv().await {
            if self.shared.stop.is_cancelled() {
                msg.refuse(&EngineError::Stopping);
            } else if msg.wakes() {
                let shared = Arc::clone(&self.shared);
                let id = self.id.clone();
                self.shared.tasks.spawn(async move {
                    if let Err(msg) = shared.find_or_start(&id).send(msg).await {
                        msg.refuse(&EngineError::NotLive(id));
                    }
                });
            } else if self.closing {
                msg.refuse(&EngineError::Closing(self.id.clone()));
            } else {
                msg.refuse(&EngineError::NotLive(self.id.clone()));
            }
        }
    }

    async fn begin(&mut self, start: Start) -> Result<(), EngineError> {
        match start {
            Start::Stored => {
                self.fold().await?;
                if self.state.info.is_none() && !self.adopt().await? {
                    return Err(EngineError::NoSession(self.id.clone()));
                }
                if self.state.deleted {
                    // A crash between the commit and the removal leaves the file: who comes next ends it (D6).
                    if let Err(problem) = self.shared.transcripts.remove(&self.id) {
                        tracing::warn!(session = %self.id, problem, "what is left of a deleted session stays");
                    }
                    return Err(EngineError::NoSession(self.id.clone()));
                }
                self.recover().await
            }
            Start::New(made) => {
                self.create(*made).await;
                Ok(())
            }
        }
    }

    async fn refuse_all(&mut self, error: &EngineError) {
        self.mailbox.close();
        while let Some(msg) = self.mailbox.recv().await {
            msg.refuse(error);
        }
    }

    async fn work(&mut self) {
        let stop = self.shared.stop.clone();
        let reader_left = self.bus.reader_left();
        while !self.ended {
            self.look_for_lost_calls();
            let wake = self.next_wake();
            tokio::select! {
                // In this order, so that a run can be repeated. People come before agents; what an agent sends is
                // bounded by its pipe, and each queue yields to the next after a number of messages.
                biased;
                () = stop.cancelled() => {
                    // An orderly stop is a crash for open questions (I12): nothing is decided or written.
                    let data = json!({ "sessionId": self.id, "reason": "daemon_shutdown" });
                    self.end_stream("session_died", data);
                    return;
                }
                msg = self.mailbox.recv() => match msg {
                    Some(msg) => self.take(msg).await,
                    None => return,
                },
                said = recv(&mut self.from_agent) => match said {
                    Some(said) => self.hear(said).await,
                    None => self.from_agent = None,
                },
                Some(done) = self.done_receiver.recv() => match done {
                    Done::TakenUp(done) => self.taken_up(*done).await,
                    Done::Read(done) => self.read(*done),
                    Done::Interruption { client, interruption, reply } => {
                        self.went_on(client, interruption, reply).await;
                    }
                },
                () = reader_left.notified() => self.reader_left(),
                Some(result) = self.lazy.next(), if !self.lazy.is_empty() => {
                    if let Err(error) = result {
                        self.start_over(&error).await;
                    }
                }
                () = sleep_until(wake.at), if wake.set => self.alarm().await,
            }
        }
    }

    /// The next time at which something is due by itself.
    fn next_wake(&self) -> Wake {
        let asks = self.pending.values().flat_map(|pending| [pending.deadline, pending.unseen_at]).flatten();
        let idle = self.idle_until();
        let alarms = [
            self.retry_at,
            self.stalled_until,
            self.deadline,
            self.lost_calls.due(),
            self.clients.due(),
            idle,
        ];
        let at = asks.chain(alarms.into_iter().flatten()).min();
        Wake { set: at.is_some(), at: at.unwrap_or_else(Instant::now) }
    }

    async fn alarm(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.deadline.is_some_and(|at| at <= now))
            .map(|(generation, _)| *generation)
            .collect();
        for generation in due {
            self.time_out(generation).await;
        }
        self.warn_of_unseen(now);
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline_passed().await;
        }
        if self.stalled_until.is_some_and(|at| at <= now) {
            self.ask_stalled().await;
        }
        if self.lost_calls.due().is_some_and(|at| at <= now) {
            self.close_lost_calls();
        }
        if self.clients.miss(now) {
            self.tell_clients();
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.start_again();
        }
        if self.idle_until().is_some_and(|at| at <= now) {
            self.put_away("idle_timeout", None).await;
        }
    }

    /// D4: a question that no surface has shown is not seen by anybody, whatever the stream told.
    fn warn_of_unseen(&mut self, now: Instant) {
        for (generation, pending) in &mut self.pending {
            if pending.unseen_at.is_none_or(|at| at > now) {
                continue;
            }
            pending.unseen_at = None;
            let Some(question) = self.state.questions.get(generation) else { continue };
            if question.is_open() && question.shown.is_empty() {
                metrics::counter!("holdpoint_questions_unseen_total").increment(1);
                tracing::warn!(session = %self.id, question = %question.id, "a question waits, and no surface has shown it");
            }
        }
    }

    /// How many questions are asked that no surface has shown in time (D4).
    fn unseen(&self) -> usize {
        let (now, after) = (self.shared.world.now(), self.shared.config.unseen_after);
        let unseen = |question: &holdpoint_model::session::Question| {
            crate::wire::question::is_unseen(question, now, after)
        };
        self.state.asked_now().filter(|(question, _)| unseen(question)).count()
    }

    /// When the session is put away, if nothing happens till then.
    fn idle_until(&self) -> Option<Instant> {
        let limit = self.shared.config.idle_timeout.filter(|_| self.may_be_put_away())?;
        Some(self.last_activity + limit)
    }

    /// Nothing runs, waits or is asked, and nobody reads: the session can go back to its rows (I9).
    fn may_be_put_away(&self) -> bool {
        self.is_idle() && self.lazy.is_empty() && self.bus.readers() == 0
    }

    /// Whether nothing runs, waits in the queue, or is being taken up.
    pub(super) fn is_idle(&self) -> bool {
        self.state.running().is_none()
            && (self.state.queue.is_empty() || matches!(self.link, Link::Down))
            && !matches!(self.link, Link::TakingUp(_))
            && self.retry_at.is_none()
    }

    async fn take(&mut self, msg: Msg) {
        if !msg.only_looks() {
            self.last_activity = Instant::now();
        }
        let voice = msg.voice().cloned();
        match msg {
            Msg::Load(request, reply) => self.load(request, reply).await,
            Msg::Attach(client, presence, reply) => self.attach_live(client, presence, reply).await,
            Msg::Detach(client, reply) => {
                self.detach(&client).await;
                let _ = reply.send(());
            }
            Msg::Close(client, reply) => self.close(client, reply).await,
            Msg::Delete(reply) => self.delete(reply).await,
            Msg::Prompt(request, reply) => {
                let outcome = self.prompt(request).await;
                let _ = reply.send(outcome);
            }
            Msg::Prompts(client, reply) => {
                let _ = reply.send(self.live(client.as_ref()).map(|()| self.prompts()));
            }
            Msg::RemovePrompt(prompt, client, reply) => {
                let outcome = self.remove_prompt(prompt, client).await;
                let _ = reply.send(outcome);
            }
            Msg::Cancel { unreachable, client, reply } => {
                let outcome = self.cancel(unreachable, client).await;
                let _ = reply.send(outcome);
            }
            Msg::Continue(client, reply) => self.go_on(client, reply).await,
            Msg::Vote(request, vote, reply) => self.vote(request, vote, reply).await,
            Msg::Answer(question, answer, reply) => self.answer(question, answer, reply).await,
            Msg::Deliver(reply) => {
                self.wake_if_decided();
                let _ = reply.send(Ok(()));
            }
            Msg::Status(client, reply) => {
                let _ = reply.send(self.live(client.as_ref()).map(|()| self.status()));
            }
            Msg::Context(client, reply) => self.context(client, reply),
            Msg::Heartbeat(client, reply) => {
                let now = self.shared.world.now();
                let _ = reply.send(self.live(client.as_ref()).map(|()| now));
            }
            Msg::Shown { question, generation, surface, reply } => {
                self.shown(Command::NoteShown { question, generation, surface }, reply);
            }
            Msg::Branch(reply) => self.branch(reply),
            Msg::Rename(title, client, reply) => {
                let outcome = self.rename(title, client).await;
                let _ = reply.send(outcome);
            }
            Msg::Subscribe { cursor, max_queued, client, reply } => {
                let outcome = self.subscribe(cursor.as_ref(), max_queued, client);
                let _ = reply.send(outcome);
            }
            Msg::Row(reply) => {
                let _ = reply.send(self.is_live().then(|| self.status()));
            }
            Msg::AskedNow(reply) => {
                let _ = reply.send(self.asked_view());
            }
        }
        if let Some(client) = voice {
            self.see(client);
        }
        // An actor that was started only to look something up has nothing to stay for.
        if matches!(self.link, Link::Down)
            && self.is_idle()
            && self.lazy.is_empty()
            && self.mailbox.is_empty()
        {
            self.ended = true;
        }
    }

    /// Whether an agent has the session, or is about to.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self.link, Link::Down) || self.retry_at.is_some()
    }

    /// The checks of every session route: the session is live, and the client id, where one is named, is
    /// known to it.
    pub(super) fn live(&self, client: Option<&ClientId>) -> Result<(), EngineError> {
        if !self.is_live() {
            return Err(EngineError::NotLive(self.id.clone()));
        }
        self.known(client)
    }

    pub(super) fn known(&self, client: Option<&ClientId>) -> Result<(), EngineError> {
        match client {
            Some(client) if !self.state.clients.contains(client) => {
                Err(EngineError::UnknownClient { session: self.id.clone(), client: client.clone() })
            }
            _ => Ok(()),
        }
    }

    /// A surface has rendered a question (D4). It is told when that is durable, which is soon enough for it: the
    /// commit rides with others.
    fn shown(&mut self, command: Command, reply: Answer<()>) {
        let mut reply = Some(reply);
        let outcome = self.defer(command, |committing| {
            let reply = reply.take();
            Box::pin(async move {
                let committed = committing.await;
                if let Some(reply) = reply {
                    let _ = reply.send(committed.clone().map_err(EngineError::from));
                }
                committed
            })
        });
        if let Some(reply) = reply {
            let _ = reply.send(outcome.map(|_| ()));
        }
    }

    /// A client that is known from before a restart (R16) is heard of in this life, whether it has loaded the
    /// session or not: the next question that is asked counts it in (V2).
    fn see(&mut self, client: ClientId) {
        if self.clients.hear(&client, self.bus.is_read_by(&client), Instant::now()) {
            self.tell_clients();
        }
        if self.is_live() && self.state.clients.contains(&client) && !self.state.present.contains(&client) {
            let minted = self.shared.world.client_id();
            self.note(Command::Attach { presented: Some(client), minted });
        }
    }

    fn asked_view(&self) -> AskedView {
        let asked = self.state.asked_now().map(|(question, asking)| (question.id.clone(), asking.clone()));
        let unrestorable =
            self.unrestorable.iter().filter_map(|generation| self.state.questions.get(generation));
        AskedView {
            asked: asked.collect(),
            unrestorable: unrestorable.map(|question| question.id.clone()).collect(),
        }
    }

    /// Publishes an event of the turn that runs.
    pub(super) fn publish(&mut self, event: Frame) -> u64 {
        let now = self.shared.world.now();
        self.bus.publish(&event, now).id.unwrap_or_default()
    }

    pub(super) fn end_stream(&mut self, kind: &'static str, data: Value) {
        let now = self.shared.world.now();
        self.bus.end(&Frame::new(kind, data), now);
    }

    /// How long the transcript is now, in bytes.
    pub(super) fn transcript_len(&self) -> u64 {
        self.shared.transcripts.len(&self.id)
    }

    fn status(&self) -> Value {
        let mut view =
            crate::wire::session::status(&self.state, self.clients.here(), self.turn_error.as_ref());
        // Between two lives of the agent the turn has not ended (I6).
        let between = matches!(self.link, Link::TakingUp(_)) || self.retry_at.is_some();
        if between && self.state.turn.is_some() && self.state.running().is_none() {
            view["hasActivePrompt"] = json!(true);
            view["activeWorkState"] = json!("active");
            view["turnState"] = json!(if self.state.open().next().is_some() { "waiting" } else { "running" });
        }
        let unseen = self.unseen();
        if unseen > 0 {
            view["unseenCount"] = json!(unseen);
        }
        if self.lost_calls.closed() > 0 {
            view["lostQuestionCount"] = json!(self.lost_calls.closed());
        }
        view
    }
}

struct Wake {
    set: bool,
    at: Instant,
}

async fn recv(from_agent: &mut Option<mpsc::Receiver<FromAgent>>) -> Option<FromAgent> {
    match from_agent {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

/// How long to wait before the agent is started for the `n`th time again: 0.1 s, doubled each time.
pub(super) fn back_off(restarts: u32) -> Duration {
    Duration::from_millis(100 << restarts.min(6))
}

impl Msg {
    /// Whether it starts an actor where there is none.
    fn wakes(&self) -> bool {
        matches!(
            self,
            Self::Load(..)
                | Self::Vote(..)
                | Self::Answer(..)
                | Self::Deliver(_)
                | Self::Delete(_)
                | Self::Shown { .. }
                | Self::Branch(_)
        )
    }

    /// Whether it changes nothing, and shows nobody's presence: who only looks keeps no session awake (I7, I9).
    fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Status(..) | Self::Context(..) | Self::Prompts(..) | Self::Row(_) | Self::AskedNow(_)
        )
    }

    /// The client that changes something by it, or shows that it is there.
    fn voice(&self) -> Option<&ClientId> {
        match self {
            Self::Prompt(request, _) => request.client.as_ref(),
            Self::Cancel { client, .. }
            | Self::RemovePrompt(_, client, _)
            | Self::Continue(client, _)
            | Self::Heartbeat(client, _)
            | Self::Rename(_, client, _) => client.as_ref(),
            Self::Vote(_, vote, _) => vote.voter.client.as_ref(),
            Self::Answer(_, answer, _) => answer.voter.client.as_ref(),
            // Those that attach register by themselves; the rest only reads, or leaves.
            Self::Load(..)
            | Self::Attach(..)
            | Self::Detach(..)
            | Self::Close(..)
            | Self::Delete(_)
            | Self::Deliver(_)
            | Self::Prompts(..)
            | Self::Status(..)
            | Self::Context(..)
            | Self::Shown { .. }
            | Self::Branch(_)
            | Self::Subscribe { .. }
            | Self::Row(_)
            | Self::AskedNow(_) => None,
        }
    }

    /// Answers a message that nobody will take.
    fn refuse(self, error: &EngineError) {
        let error = error.clone();
        match self {
            Self::Load(_, reply) | Self::Attach(_, _, reply) => drop(reply.send(Err(error))),
            Self::Detach(_, reply) => drop(reply.send(())),
            Self::Close(_, reply) | Self::Delete(reply) | Self::Rename(_, _, reply) => {
                drop(reply.send(Err(error)));
            }
            Self::Cancel { reply, .. }
            | Self::Shown { reply, .. }
            | Self::Branch(reply)
            | Self::Deliver(reply) => {
                drop(reply.send(Err(error)));
            }
            Self::Prompt(_, reply) => drop(reply.send(Err(error))),
            Self::Prompts(_, reply) => drop(reply.send(Err(error))),
            Self::RemovePrompt(_, _, reply) => drop(reply.send(Err(error))),
            Self::Continue(_, reply) => drop(reply.send(Err(error))),
            Self::Vote(_, _, reply) => drop(reply.send(Err(error))),
            Self::Answer(_, _, reply) => drop(reply.send(Err(error))),
            Self::Status(_, reply) | Self::Context(_, reply) => drop(reply.send(Err(error))),
            Self::Heartbeat(_, reply) => drop(reply.send(Err(error))),
            Self::Subscribe { reply, .. } => drop(reply.send(Err(error))),
            Self::Row(reply) => drop(reply.send(None)),
            Self::AskedNow(reply) => drop(reply.send(AskedView::default())),
        }
    }
}
