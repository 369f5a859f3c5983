//! Taking a stored session up: start its agent, tell it what was decided meanwhile, and go on with the
//! question that it ends in (RULES part R).

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_model::ids::{CallId, ClientId, Generation};
use holdpoint_model::session::{Command, Question, Rejection, State, Tail};
use holdpoint_transcript::replay::Finalise;
use tokio::sync::mpsc;

use super::actor::{Actor, Done, FROM_AGENT, Link};
use super::attach::{FirstRead, Spare, Waiter};
use super::effects::response_to_agent;
use super::message::LoadAction;
use crate::error::EngineError;
use crate::history::{self, Wanted};
use crate::port::{Agent, AgentError, AgentTail, Exit, NewSession, StoredEnd, TakeUp, TakenUp};

/// A take-up that is under way.
pub(super) struct TakingUp {
    /// Those who wait for it.
    pub(super) waiters: Vec<Waiter>,
    /// The action of the one who began it; `None` where nobody asked (an answer woke it, an agent died).
    pub(super) action: Option<LoadAction>,
    /// Whether the agent may not hint at a restore (R2).
    suppress: bool,
    /// The client for whose sake the question is asked again (E6).
    on_behalf: OnBehalf,
    /// The agent, if it had the session already.
    before: Option<(Arc<dyn Agent>, serde_json::Value)>,
    /// The ends of questions that the agent was told of.
    told: BTreeSet<Generation>,
    /// When it began, for the log.
    since: tokio::time::Instant,
}

/// For whose sake a session is taken up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OnBehalf {
    /// Nobody who is attached: nothing is asked again (E6).
    Nobody,
    /// An attached client, or one that answered. It may be unnamed.
    Somebody(Option<ClientId>),
}

/// How a take-up ended.
pub(super) struct TakeUpDone {
    result: Result<(Arc<dyn Agent>, TakenUp), AgentError>,
    /// The history, where a load waits: with calls at its end spared if `spared`.
    read: Option<Result<history::Read, String>>,
    spared: bool,
}

impl Actor {
    /// Starts a take-up. The caller has put the waiters in order.
    pub(super) fn begin_take_up(
        &mut self,
        waiters: Vec<Waiter>,
        action: Option<LoadAction>,
        on_behalf: OnBehalf,
    ) {
        let suppress = on_behalf == OnBehalf::Nobody;
        let before = match std::mem::replace(&mut self.link, Link::Down) {
            Link::Up { agent, state } => Some((agent, state)),
            Link::Down | Link::TakingUp(_) => None,
        };
        if before.is_none() {
            // A new agent process: what the last one said is void.
            let (sink, receiver) = mpsc::channel(FROM_AGENT);
            self.sink = Some(sink);
            self.from_agent = Some(receiver);
            if let Err(error) = self.execute_lazily(Command::StartLife) {
                tracing::error!(session = %self.id, %error, "a new life could not be begun");
            }
        }
        let loads = loads_of(&waiters);
        let page_size = waiters.iter().filter_map(|waiter| waiter.request.page_size).max();
        let opened_with = self.state.info.as_ref().and_then(|info| info.approval_mode.clone());
        let approval_mode =
            waiters.iter().find_map(|waiter| waiter.request.approval_mode.clone()).or(opened_with);
        self.spawn_take_up(
            before.as_ref().map(|(agent, _)| Arc::clone(agent)),
            suppress,
            loads,
            page_size,
            approval_mode,
        );
        self.link = Link::TakingUp(Box::new(TakingUp {
            waiters,
            action,
            suppress,
            on_behalf,
            before,
            told: self.ends_to_tell().map(|question| question.generation).collect(),
            since: tokio::time::Instant::now(),
        }));
    }

    fn spawn_take_up(
        &mut self,
        agent: Option<Arc<dyn Agent>>,
        suppress: bool,
        loads: bool,
        page_size: Option<usize>,
        approval_mode: Option<String>,
    ) {
        let shared = Arc::clone(&self.shared);
        let done = self.done.clone();
        let Some(sink) = self.sink.clone() else { return };
        let info = self.state.info.clone();
        let stored = self.stored_ends();
        let session = self.id.clone();
        let restore = shared.config.restore;
        let spoken = self.state.generation.0 > 0;
        self.shared.tasks.clone().spawn(async move {
            let (name, cwd) = info.map(|info| (info.agent, info.workspace_cwd)).unwrap_or_default();
            let spare_all = restore && !suppress;
            let take = async {
                let agent = match agent {
                    Some(agent) => agent,
                    None => shared.agents.connect(&name, &cwd).await?,
                };
                let take = TakeUp {
                    session: session.clone(),
                    cwd: cwd.clone(),
                    suppress,
                    stored: stored.clone(),
                    replay: !agent.info().ours,
                    approval_mode: approval_mode.clone(),
                };
                let taken = match agent.take_up(take, sink.clone()).await {
                    // A transcript that is gone must never be taken for one that was not begun: its questions would
                    // be closed, and its prompt sent once more.
                    Err(AgentError::NoSession(_)) if agent.info().ours && spoken => {
                        return Err(AgentError::Refused {
                            code: 0,
                            message: format!(
                                "the transcript of session {session} is missing: put sessions/{session}.jsonl back \
                                 into the data directory, or delete the session"
                            ),
                            data: None,
                        });
                    }
                    // Opened and never spoken in: our agent has no file of it yet.
                    Err(AgentError::NoSession(_)) if agent.info().ours => {
                        let new = NewSession { session: session.clone(), cwd, approval_mode };
                        let made = agent.new_session(new, sink).await?;
                        // Its history is known to be empty: a prompt that was on its way was never begun.
                        TakenUp { tail: Some(AgentTail::default()), ..made }
                    }
                    other => other?,
                };
                Ok((agent, taken))
            };
            let limit = shared.config.take_up_timeout;
            let take = async {
                match tokio::time::timeout(limit, take).await {
                    Ok(result) => result,
                    Err(_) => Err(AgentError::TimedOut(limit.as_secs())),
                }
            };
            let mut spared = false;
            let read = async {
                if !loads {
                    return None;
                }
                let transcripts = &shared.transcripts;
                let spare =
                    if spare_all { transcripts.dangling(&session).await } else { Ok(BTreeSet::new()) };
                Some(match spare {
                    Ok(spare) => {
                        spared = !spare.is_empty();
                        let finalise = Finalise::Close { spare };
                        let wanted = Wanted { end: None, records: page_size, finalise };
                        transcripts.window(&session, wanted).await
                    }
                    Err(problem) => Err(problem),
                })
            };
            // What the agent writes before it answers changes the history, so then one waits for the other.
            let (result, read) = if stored.is_empty() {
                tokio::join!(take, read)
            } else {
                let result = take.await;
                (result, read.await)
            };
            let _ = done.send(Done::TakenUp(Box::new(TakeUpDone { result, read, spared }))).await;
        });
    }

    /// Ends of questions that the agent may not have written (R21).
    fn stored_ends(&self) -> Vec<StoredEnd> {
        self.ends_to_tell().map(|question| stored_end(question)).collect()
    }

    fn ends_to_tell(&self) -> impl Iterator<Item = &Arc<Question>> {
        self.state.undelivered().filter(|question| is_to_tell(question))
    }

    /// Whether people decided what the agent may not have in its history. Nothing may be sent to the model before
    /// it has: its repair would overrule them (R21, I4).
    pub(super) fn owes_the_agent(&self) -> bool {
        self.state.running().is_none() && self.ends_to_tell().any(|question| question.call.turn.is_some())
    }

    pub(super) async fn taken_up(&mut self, done: TakeUpDone) {
        let taking = match std::mem::replace(&mut self.link, Link::Down) {
            Link::TakingUp(taking) => *taking,
            other => {
                self.link = other;
                return;
            }
        };
        match done.result {
            Ok((agent, taken)) => self.settle_in(taking, agent, taken, done.read, done.spared).await,
            Err(error) => self.not_taken_up(taking, error),
        }
    }

    async fn settle_in(
        &mut self,
        taking: TakingUp,
        agent: Arc<dyn Agent>,
        taken: TakenUp,
        read: Option<Result<history::Read, String>>,
        spared: bool,
    ) {
        // A stream that has told something already keeps its ids: a reader would miss those that are left out.
        let fresh = taking.before.is_none() && self.bus.last_id() == 0;
        let ours = agent.info().ours;
        let state = match taking.before {
            Some((_, state)) if taken.state.is_null() => state,
            _ => taken.state,
        };
        self.link = Link::Up { agent, state };
        let read = if ours {
            read
        } else {
            loads_of(&taking.waiters).then(|| Ok(history::Read::foreign(taken.replay)))
        };
        let mut read = read.map(|read| {
            if let (true, Ok(read)) = (fresh, &read) {
                // The history has the first ids of a new stream, and is told in the response only (WIRE a.2).
                self.bus.skip(read.updates.len() as u64);
            }
            FirstRead { read, cursor: self.bus.last_id(), numbered: fresh }
        });
        let mut restoring =
            taken.hint && self.shared.config.restore && !taking.suppress && self.state.running().is_none();
        self.unrestorable.clear();
        self.passed_over = taking.suppress
            && self.shared.config.restore
            && taken.tail.as_ref().is_some_and(|tail| tail.restorable)
            && self.state.running().is_none();
        let given_up = ours
            && self.shared.config.restore
            && !taking.suppress
            && !taken.hint
            && self.state.running().is_none();
        if given_up {
            // The agent was free to hint and did not: what is open stays so only until it is repaired (E3).
            let open = self.state.open().filter(|question| question.body.is_question());
            self.unrestorable = open.map(|question| question.generation).collect();
        }
        // What a crash kept from the ledger is asked as well as what it knows (R4).
        let mut to_be_asked = open_calls(&self.state);
        if let Some(tail) = taken.tail {
            to_be_asked.extend(tail.open.iter().cloned());
            let AgentTail { turn, open, last_prompt, .. } = tail;
            let tail = Tail { turn, open, last_prompt, restoring, given_up };
            self.note(Command::Reconcile { tail });
        }
        if restoring && let OnBehalf::Somebody(client) = &taking.on_behalf {
            let fresh = self.shared.world.prompt_id();
            // Durable before the agent is told, as every start of a turn: it writes under this prompt's id, and after a
            // crash its last records must be known for what they are (D5).
            let admitted = self.execute(Command::AdmitRestore { fresh, client: client.clone() }).await;
            if let Err(error) = admitted {
                tracing::warn!(session = %self.id, %error, "the restore was not admitted");
                restoring = false;
            }
        }
        tracing::info!(
            session = %self.id, restoring, suppressed = taking.suppress, waiters = taking.waiters.len(),
            elapsed_ms = taking.since.elapsed().as_millis() as u64, "the session was taken up"
        );
        let (served, unserved): (Vec<_>, Vec<_>) = taking
            .waiters
            .into_iter()
            .partition(|waiter| !taking.suppress || waiter.request.client.is_none());
        for waiter in served {
            let spare = match waiter.request.client {
                Some(_) if restoring => Spare::These(to_be_asked.clone()),
                _ => Spare::Nothing,
            };
            // The first that it fits gets the history that was read; there is seldom a second, who reads for himself.
            let spares = matches!(&spare, Spare::These(calls) if !calls.is_empty());
            let fits = spared == spares && waiter.request.action == LoadAction::Load;
            let read = if fits { read.take() } else { None };
            self.serve(waiter, read, spare);
        }
        if !unserved.is_empty() {
            // One that carries a client id never suffers the suppression of one that does not (R19).
            let client = unserved.iter().map(|waiter| waiter.client.clone()).next();
            let action = unserved.first().map(|waiter| waiter.request.action);
            self.begin_take_up(unserved, action, OnBehalf::Somebody(client));
            return;
        }
        if self.owes_the_agent()
            && self.ends_to_tell().any(|question| !taking.told.contains(&question.generation))
        {
            // Somebody decided while the agent was being told what others had decided.
            self.begin_take_up(Vec::new(), None, OnBehalf::Somebody(self.anyone()));
            return;
        }
        self.resume_queue().await;
    }

    /// The queue goes on, but not over the head of a question that a later load can still ask again.
    async fn resume_queue(&mut self) {
        if (!self.waits_to_be_restored() || self.queue_is_fresh) && matches!(self.link, Link::Up { .. }) {
            self.start_waiting().await;
        }
    }

    fn not_taken_up(&mut self, taking: TakingUp, error: AgentError) {
        tracing::warn!(session = %self.id, %error, "the session could not be taken up");
        let nobody_waits = taking.waiters.is_empty();
        for waiter in taking.waiters {
            let error = match &error {
                AgentError::TimedOut(seconds) => EngineError::RestoreTimedOut {
                    session: self.id.clone(),
                    action: waiter.request.action.as_str(),
                    seconds: *seconds,
                },
                AgentError::NoSession(_) => EngineError::NoSession(self.id.clone()),
                other => EngineError::Agent(other.clone()),
            };
            if waiter.is_new {
                self.release(&waiter.client);
            }
            let _ = waiter.reply.send(Err(error));
        }
        if let Some((agent, state)) = taking.before {
            self.link = Link::Up { agent, state };
            return;
        }
        self.link = Link::Down;
        self.from_agent = None;
        self.sink = None;
        let may_help = !matches!(error, AgentError::NoSession(_));
        let wanted = nobody_waits || !self.clients.nobody();
        if !(wanted && may_help && self.try_again_later()) {
            let exit = match error {
                AgentError::Gone(exit) => exit,
                other => Exit { stderr_tail: other.to_string(), ..Exit::default() },
            };
            self.give_up(&exit);
        }
    }

    /// Starts the agent again after it died (R14).
    pub(super) fn start_again(&mut self) {
        let told_again = matches!(self.link, Link::Up { .. }) && self.owes_the_agent();
        if matches!(self.link, Link::Down) || told_again {
            let client = self.anyone();
            self.begin_take_up(Vec::new(), None, OnBehalf::Somebody(client));
        }
    }

    /// A vote that only counts needs a question that is being asked: the session is woken, and the voter told to
    /// vote again (V2).
    pub(super) fn wake_if_not_asked(&mut self, error: &EngineError, client: Option<ClientId>) {
        let not_asked = matches!(error, EngineError::Rejected(Rejection::NotAsked));
        if not_asked && !matches!(self.link, Link::TakingUp(_)) && self.can_ask_again() {
            self.begin_take_up(Vec::new(), None, OnBehalf::Somebody(client));
        }
    }

    /// An answer to a question that nobody asks wakes its session (D3, R17).
    pub(super) fn wake_if_decided(&mut self) {
        let can = match &self.link {
            Link::Down => self.retry_at.is_none(),
            Link::Up { .. } => self.state.running().is_none(),
            Link::TakingUp(_) => false,
        };
        if can && self.shared.config.restore && self.owes_the_agent() {
            let by = self.ends_to_tell().find_map(|question| match &question.state {
                State::Settled(settlement) => Some(settlement.by.client_id.clone()),
                State::Open | State::Closed { .. } => None,
            });
            if let Some(client) = by {
                self.begin_take_up(Vec::new(), None, OnBehalf::Somebody(client));
            }
        }
    }

    /// Executes a command that follows from what is stored elsewhere, so that a crash loses nothing.
    pub(super) fn note(&mut self, command: Command) {
        if let Err(error) = self.execute_lazily(command) {
            tracing::warn!(session = %self.id, %error, "not noted");
        }
    }

    /// Whether a question is open that a load would have asked again.
    pub(super) fn restorable_questions(&self) -> bool {
        self.shared.config.restore
            && self.state.open().any(|question| {
                question.body.is_question() && !self.unrestorable.contains(&question.generation)
            })
    }

    /// Whether a load by a client should have the trailing question asked again (R14).
    pub(super) fn can_ask_again(&self) -> bool {
        self.state.running().is_none() && self.waits_to_be_restored()
    }

    /// Whether something may wait for a load by a client: an open question, or what the last load passed over.
    fn waits_to_be_restored(&self) -> bool {
        self.shared.config.restore
            && (self.passed_over || self.state.open().any(|question| question.body.is_question()))
    }
}

/// Whether the agent writes this end as the result of the call.
fn is_to_tell(question: &Question) -> bool {
    match &question.state {
        State::Open => false,
        State::Settled(_) => question.body.is_question(),
        State::Closed { cause, .. } => cause.is_a_result() && question.body.is_question(),
    }
}

fn stored_end(question: &Question) -> StoredEnd {
    StoredEnd {
        turn: question.call.turn.clone(),
        call: question.call.call.clone(),
        response: response_to_agent(question),
    }
}

fn loads_of(waiters: &[Waiter]) -> bool {
    waiters.iter().any(|waiter| waiter.request.action == LoadAction::Load)
}

/// The calls of open questions: those that are asked, and those that a restore is about to ask.
fn open_calls(state: &holdpoint_model::session::Session) -> BTreeSet<CallId> {
    state
        .open()
        .filter(|question| question.body.is_question())
        .map(|question| question.call.call.clone())
        .collect()
}

/// The calls of questions that people can answer now.
pub(super) fn asked_calls(state: &holdpoint_model::session::Session) -> BTreeSet<CallId> {
    state.asked_now().map(|(question, _)| question.call.call.clone()).collect()
}
