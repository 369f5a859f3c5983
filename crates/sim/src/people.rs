//! People and programs: they prompt, vote, answer, load, leave, and write down what they were told.

use std::sync::Arc;

use holdpoint_engine::{
    AnswerRequest, CreateRequest, Engine, LoadAction, LoadRequest, Presence, PromptRequest, Receipt,
    VoteRequest,
};
use holdpoint_ledger::Ledger;
use holdpoint_model::answers::Answers;
use holdpoint_model::ids::{ClientId, Generation, PromptId, RequestId, ResponseId, SessionId};
use holdpoint_model::policy::{Strategy, Voter};
use holdpoint_model::session::{Answerer, Choice, Decision, Event, Question, Session, State};
use serde_json::{Value, json};

use crate::agent::SimAgents;
use crate::crash::Crash;
use crate::durable::now;
use crate::ledger::{Disk, SimLedger};
use crate::rng::Rng;
use crate::store::{Acknowledged, Shared};
use crate::stream::Reader;

/// Most sessions that are made by asking for one; copies come on top.
const SESSIONS: usize = 3;
/// Most sessions of which somebody makes a copy.
const COPIES: usize = 6;

/// Everybody, in one life of the daemon.
#[derive(Clone)]
pub(crate) struct People {
    /// The daemon.
    pub(crate) engine: Engine,
    /// What is durable.
    pub(crate) durable: Arc<dyn Ledger>,
    /// Its ledger.
    pub(crate) ledger: Arc<SimLedger>,
    /// Its agents.
    pub(crate) agents: Arc<SimAgents>,
    /// What survives.
    pub(crate) store: Shared,
    /// When it dies.
    pub(crate) crash: Crash,
    /// Its policy.
    pub(crate) strategy: Strategy,
}

fn by(client: Option<&ClientId>) -> Answerer {
    Answerer { client_id: client.cloned(), name: None, surface: "sim".to_owned() }
}

fn voter(client: Option<&ClientId>, rng: &mut Rng) -> Voter {
    Voter { client: client.cloned(), loopback: !rng.one_in(6), proxied: rng.one_in(8) }
}

impl People {
    /// Does one thing, and returns before it is done: the session that it is done to, where there is one already.
    pub(crate) fn act(&self, rng: &mut Rng) -> Option<SessionId> {
        let known = self.ledger.sessions();
        let draw = rng.below(125);
        let Some(session) = rng.pick(&known).cloned() else {
            self.create(rng);
            return None;
        };
        let id = session.id.clone();
        let to = id.clone();
        let clients: Vec<ClientId> = session.clients.iter().cloned().collect();
        let client = if rng.one_in(3) { None } else { rng.pick(&clients).cloned() };
        let questions: Vec<Question> = session.questions.values().map(|q| q.as_ref().clone()).collect();
        let question = some_question(rng, &questions);
        self.store.note(format!("act {draw} on {id}"));
        match (draw, question) {
            (0..=4, _) if known.len() < SESSIONS => self.create(rng),
            (0..=19, _) => self.prompt(id, client, rng),
            (20..=37, _) => self.load(id, client, rng),
            (38..=55, Some(question)) => self.vote(id, &question, client, rng),
            (56..=75, Some(question)) => self.answer(&question, client, rng),
            (76..=79, _) => self.cancel(id, rng.one_in(3)),
            (80..=82, _) => self.close(id),
            (83, _) => self.delete(id),
            (84..=87, _) => self.agents.kill(),
            (88..=89, _) => self.go_on(id),
            (90..=91, _) => self.ledger.flush(),
            (92..=93, _) => self.ledger.set_disk(if rng.one_in(4) { Disk::Bad } else { Disk::Full }),
            (94..=96, _) => self.ledger.set_disk(Disk::Good),
            (97..=98, _) => self.take_back(&session),
            (99..=102, _) => self.detach(id, client),
            (103..=104, _) if known.len() < COPIES => self.branch(id),
            (105..=106, _) => self.rename(id, rng),
            (107..=109, Some(question)) => self.shown(&question, rng),
            (110..=113, _) => self.watch(id, rng),
            _ => crate::look::look(self.clone(), id),
        }
        Some(to)
    }

    /// Somebody waits for what the daemon says: its answer is a send too. `None` never comes.
    fn hears<T>(&self, answer: T) -> Option<T> {
        (self.crash.point() != Some(false)).then_some(answer)
    }

    fn create(&self, rng: &mut Rng) {
        let this = self.clone();
        let request = CreateRequest { shared_scope: rng.one_in(4), ..CreateRequest::default() };
        tokio::spawn(async move {
            if let Ok(attached) = this.engine.create(request).await
                && let Some(attached) = this.hears(attached)
            {
                this.store.note(format!("created {}", attached.session));
                this.store.lock().clients.push((attached.session, attached.client));
            }
        });
    }

    fn prompt(&self, session: SessionId, client: Option<ClientId>, rng: &mut Rng) {
        let this = self.clone();
        let deadline_ms = rng.one_in(8).then(|| 1 + rng.below(20_000));
        // Some have an id of their own, and send it again whatever came of it.
        let id =
            rng.one_in(3).then(|| PromptId::new(format!("own-{}", rng.below(1 << 40))).expect("letters"));
        tokio::spawn(async move {
            let blocks = vec![json!({ "type": "text", "text": "go" })];
            let request = PromptRequest { id: id.clone(), blocks, deadline_ms, client };
            if id.is_some() {
                drop(this.engine.prompt(&session, request.clone()).await);
            }
            if let Ok(accepted) = this.engine.prompt(&session, request).await
                && let Some(accepted) = this.hears(accepted)
            {
                let prompt = accepted.prompt;
                let queued =
                    |event: &Event| matches!(event, Event::PromptQueued { prompt: p } if p.id == prompt);
                let events = now(this.durable.events(&session)).unwrap_or_default();
                if !events.iter().any(|stored| queued(&stored.event)) {
                    this.store.violation(format!("I1: {prompt} was accepted and is not durable"));
                }
                this.store.lock().accepted.push((session, prompt));
            }
        });
    }

    fn load(&self, session: SessionId, client: Option<ClientId>, rng: &mut Rng) {
        let action = if rng.one_in(2) { LoadAction::Load } else { LoadAction::Resume };
        let client = match client {
            None if rng.one_in(4) => Some(ClientId::new("client_nobody").expect("letters")),
            other => other,
        };
        let this = self.clone();
        let reader = self.reader(session.clone(), rng);
        tokio::spawn(async move {
            let request = LoadRequest {
                action,
                presence: Presence::default(),
                client: client.clone(),
                page_size: None,
                approval_mode: None,
            };
            this.store.note(format!("  {} by {client:?}", action.as_str()));
            if let Ok(attached) = this.engine.load(&session, request).await
                && let Some(attached) = this.hears(attached)
            {
                let active = attached.has_active_prompt;
                this.store.note(format!("  attached to {session}, active {active}: {:?}", attached.replay));
                crate::look::replay_agrees(&this.store, &attached, client.is_some(), this.agents.restore);
                this.store.lock().clients.push((session, attached.client));
                reader.read().await;
            }
        });
    }

    fn reader(&self, session: SessionId, rng: &mut Rng) -> Reader {
        Reader {
            engine: self.engine.clone(),
            session,
            durable: Arc::clone(&self.durable),
            store: self.store.clone(),
            crash: self.crash.clone(),
            breaks_off_after: if rng.one_in(3) { 1 + rng.below(12) } else { 0 },
        }
    }

    fn watch(&self, session: SessionId, rng: &mut Rng) {
        tokio::spawn(self.reader(session, rng).read());
    }

    fn vote(&self, session: SessionId, question: &Question, client: Option<ClientId>, rng: &mut Rng) {
        let request = match rng.pick(&question.requests) {
            Some(request) if !rng.one_in(12) => request.clone(),
            _ => RequestId::new("unknown").expect("letters"),
        };
        let (option, answers, decision) = match rng.below(8) {
            0 => (None, None, Some(Decision::Declined { option_id: None })),
            1 => {
                let declined = Decision::Declined { option_id: Some("cancel".to_owned()) };
                (Some("cancel"), None, Some(declined))
            }
            2 => (Some("nothing"), None, None),
            3 if question.body.is_question() => (Some("proceed_once"), Some(json!({ "0": 7 })), None),
            _ => yes(question, rng),
        };
        let voter = voter(client.as_ref(), rng);
        let vote = VoteRequest { voter, by: by(client.as_ref()), option: option.map(str::to_owned), answers };
        let this = self.clone();
        let session = (!rng.one_in(6)).then_some(session);
        let question = question.clone();
        tokio::spawn(async move {
            if let Ok(taken) = this.engine.vote(session.as_ref(), request, vote).await
                && this.hears(taken).is_some()
            {
                this.told(&question, client.as_ref(), decision);
            }
        });
    }

    fn answer(&self, question: &Question, client: Option<ClientId>, rng: &mut Rng) {
        let generation =
            if rng.one_in(10) { Generation(question.generation.0 + 1) } else { question.generation };
        let (choice, decision) = match (rng.below(6), question.body.is_question()) {
            (0, _) => (Choice::Decline, Some(Decision::Declined { option_id: None })),
            (1, true) => (Choice::Answers(json!({ "5": "A" })), None),
            (_, true) => {
                let (_, answers, decision) = yes(question, rng);
                (Choice::Answers(answers.unwrap_or_default()), decision)
            }
            (1, false) => (Choice::Option("nothing".to_owned()), None),
            (_, false) => {
                let selected = Decision::Selected { option_id: "proceed_once".to_owned() };
                (Choice::Option("proceed_once".to_owned()), Some(selected))
            }
        };
        // Few ids, so that retries and clashes happen.
        let response = ResponseId::new(format!("r{}", rng.below(3))).expect("letters and digits");
        let voter = voter(client.as_ref(), rng);
        let answer =
            AnswerRequest { generation, voter, by: by(client.as_ref()), choice, response: Some(response) };
        let this = self.clone();
        let question = question.clone();
        tokio::spawn(async move {
            let Ok(receipt) = this.engine.answer(&question.id, answer).await else { return };
            match this.hears(receipt) {
                Some(Receipt::Settled(_)) => match decision {
                    Some(decision) => {
                        this.store.lock().acknowledged.push(Acknowledged { question: question.id, decision });
                    }
                    None => {
                        this.store.violation(format!("Q6: an invalid answer to {} was taken", question.id));
                    }
                },
                Some(Receipt::Recorded(_)) => this.told(&question, client.as_ref(), decision),
                None => {}
            }
        });
    }

    /// Somebody was told that a vote was taken: it settled the question, or it counts (I1, I4).
    fn told(&self, question: &Question, client: Option<&ClientId>, decision: Option<Decision>) {
        let row = now(self.durable.question(&question.id)).ok().flatten().map(|row| row.question);
        let id = question.id.clone();
        let counts = self.strategy == Strategy::Consensus;
        match (decision, row.map(|row| (row.state, row.asking))) {
            (Some(decision), Some((State::Settled(settlement), _))) if settlement.decision == decision => {
                self.store.lock().acknowledged.push(Acknowledged { question: id, decision });
            }
            // Others decided since, or the asking that it counted for is over.
            (Some(_), Some((State::Settled(_) | State::Closed { .. }, _) | (State::Open, None)))
                if counts => {}
            (Some(_), Some((State::Open, Some(asking))))
                if counts && asking.ballots.iter().any(|ballot| Some(&ballot.client) == client) => {}
            (decision, now) => self
                .store
                .violation(format!("I1: a vote for {decision:?} on {id} was acknowledged, and is: {now:?}")),
        }
    }

    fn cancel(&self, session: SessionId, unreachable: bool) {
        let engine = self.engine.clone();
        tokio::spawn(async move { drop(engine.cancel(&session, unreachable, None).await) });
    }

    fn close(&self, session: SessionId) {
        let engine = self.engine.clone();
        tokio::spawn(async move { drop(engine.close(&session, None).await) });
    }

    fn detach(&self, session: SessionId, client: Option<ClientId>) {
        let (engine, Some(client)) = (self.engine.clone(), client) else { return };
        tokio::spawn(async move { engine.detach(&session, client).await });
    }

    fn delete(&self, session: SessionId) {
        let this = self.clone();
        tokio::spawn(async move {
            if this.engine.delete(&session).await.is_ok() && this.hears(()).is_some() {
                this.store.lock().deleted.push(session);
            }
        });
    }

    fn branch(&self, session: SessionId) {
        let this = self.clone();
        tokio::spawn(async move {
            let before = now(this.durable.session(&session)).ok().flatten().map(|row| row.title);
            if let Ok(copy) = this.engine.branch(&session, None, Presence::default()).await
                && let Some(copy) = this.hears(copy)
            {
                let id = copy.attached.session;
                this.store.note(format!("branched {id}, from {before:?}"));
                let open = this.ledger.sessions().into_iter().find(|session| session.id == id);
                if open
                    .is_some_and(|copy| copy.generation.0 > 0 && copy.queue.is_empty() && copy.turn.is_none())
                {
                    this.store.violation(format!("E7: the copy {id} has asked a question"));
                }
            }
        });
    }

    fn rename(&self, session: SessionId, rng: &mut Rng) {
        let engine = self.engine.clone();
        let title = format!("title {}", rng.below(9));
        tokio::spawn(async move { drop(engine.rename(&session, title, None).await) });
    }

    fn shown(&self, question: &Question, rng: &mut Rng) {
        let (engine, id, generation) = (self.engine.clone(), question.id.clone(), question.generation);
        let surface = ["web", "cli", "slack"][rng.below(3) as usize].to_owned();
        tokio::spawn(async move { drop(engine.shown(&id, generation, surface).await) });
    }

    fn go_on(&self, session: SessionId) {
        let engine = self.engine.clone();
        tokio::spawn(async move { drop(engine.go_on(&session, None).await) });
    }

    fn take_back(&self, session: &Session) {
        let Some(prompt) = session.queue.front().map(|prompt| prompt.id.clone()) else { return };
        let (engine, id) = (self.engine.clone(), session.id.clone());
        tokio::spawn(async move { drop(engine.remove_prompt(&id, prompt, None).await) });
    }
}

/// Mostly one that is open.
fn some_question(rng: &mut Rng, questions: &[Question]) -> Option<Question> {
    let open: Vec<_> = questions.iter().filter(|question| question.is_open()).cloned().collect();
    if open.is_empty() || rng.one_in(5) { rng.pick(questions).cloned() } else { rng.pick(&open).cloned() }
}

fn yes(question: &Question, rng: &mut Rng) -> (Option<&'static str>, Option<Value>, Option<Decision>) {
    if !question.body.is_question() {
        let selected = Decision::Selected { option_id: "proceed_once".to_owned() };
        return (Some("proceed_once"), None, Some(selected));
    }
    let text = ["A", "B", "something else"][rng.below(3) as usize];
    let answers = Answers::from_pairs([(0, text.to_owned())]).expect("one answer");
    (Some("proceed_once"), Some(json!({ "0": text })), Some(Decision::Answered { answers }))
}
