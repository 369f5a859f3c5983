//! People and programs: they prompt, vote, answer, load, leave, and write down what they were told.

use std::sync::Arc;

use holdpoint_engine::{AnswerRequest, CreateRequest, Engine, LoadAction, LoadRequest, Receipt, VoteRequest};
use holdpoint_ledger::{Ledger, MemoryLedger, QuestionFilter, StateFilter};
use holdpoint_model::answers::Answers;
use holdpoint_model::ids::{ClientId, Generation, QuestionId, RequestId, ResponseId, SessionId};
use holdpoint_model::policy::{Strategy, Voter};
use holdpoint_model::session::{Answerer, Choice, Decision, Event, Question, State};
use serde_json::{Value, json};

use crate::agent::SimAgents;
use crate::check::sessions;
use crate::ledger::{SimLedger, now};
use crate::rng::Rng;
use crate::store::{Acknowledged, Shared};

/// Everybody, in one life of the daemon.
pub(crate) struct People {
    /// The daemon.
    pub(crate) engine: Engine,
    /// What is durable.
    pub(crate) durable: Arc<MemoryLedger>,
    /// Its ledger.
    pub(crate) ledger: Arc<SimLedger>,
    /// Its agents.
    pub(crate) agents: Arc<SimAgents>,
    /// What survives.
    pub(crate) store: Shared,
    /// Its policy.
    pub(crate) strategy: Strategy,
}

fn by(client: Option<&ClientId>) -> Answerer {
    Answerer { client_id: client.cloned(), name: None, surface: "sim".to_owned() }
}

impl People {
    /// Does one thing, and returns before it is done.
    pub(crate) fn act(&self, rng: &mut Rng) {
        let known = sessions(&self.durable);
        let ids: Vec<SessionId> = known.iter().map(|session| session.id.clone()).collect();
        let draw = rng.below(100);
        let Some(session) = rng.pick(&known).cloned() else { return self.create() };
        let id = session.id.clone();
        let clients: Vec<ClientId> = session.clients.iter().cloned().collect();
        let client = if rng.one_in(3) { None } else { rng.pick(&clients).cloned() };
        let questions: Vec<Question> = session.questions.values().map(|q| q.as_ref().clone()).collect();
        let question = self.some_question(rng, &questions);
        self.store.note(format!("act {draw} on {id}"));
        match draw {
            0..=4 if ids.len() < 3 => self.create(),
            0..=19 => self.prompt(id, client),
            20..=37 => self.load(id, client, rng),
            38..=55 => {
                if let Some(question) = question {
                    self.vote(id, &question, client, rng);
                }
            }
            56..=75 => {
                if let Some(question) = question {
                    self.answer(&question, client, rng);
                }
            }
            76..=79 => self.cancel(id, rng.one_in(3)),
            80..=82 => self.close(id),
            83 => self.delete(id),
            84..=87 => self.agents.kill(),
            88..=89 => self.go_on(id),
            90..=91 => self.ledger.flush(),
            92..=93 => self.durable.refuse(Some("the disk is full")),
            94..=95 => self.durable.refuse(None),
            96 => self.take_back(&session),
            _ => self.look(id),
        }
    }

    /// Mostly one that is open.
    fn some_question(&self, rng: &mut Rng, questions: &[Question]) -> Option<Question> {
        let open: Vec<_> = questions.iter().filter(|question| question.is_open()).cloned().collect();
        if open.is_empty() || rng.one_in(5) { rng.pick(questions).cloned() } else { rng.pick(&open).cloned() }
    }

    fn create(&self) {
        let (engine, store) = (self.engine.clone(), self.store.clone());
        tokio::spawn(async move {
            if let Ok(attached) = engine.create(CreateRequest::default()).await {
                store.note(format!("created {}", attached.session));
            }
        });
    }

    fn prompt(&self, session: SessionId, client: Option<ClientId>) {
        let (engine, store) = (self.engine.clone(), self.store.clone());
        tokio::spawn(async move {
            let blocks = vec![json!({ "type": "text", "text": "go" })];
            if let Ok(accepted) = engine.prompt(&session, blocks, None, client).await {
                store.lock().accepted.push((session, accepted.prompt));
            }
        });
    }

    fn load(&self, session: SessionId, client: Option<ClientId>, rng: &mut Rng) {
        let action = if rng.one_in(2) { LoadAction::Load } else { LoadAction::Resume };
        let engine = self.engine.clone();
        let (durable, store) = (Arc::clone(&self.durable), self.store.clone());
        tokio::spawn(async move {
            let request = LoadRequest { action, client, page_size: None, approval_mode: None };
            if engine.load(&session, request).await.is_ok() {
                watch(engine, session, durable, store).await;
            }
        });
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
            _ => self.yes(question, rng),
        };
        let voter = Voter { client: client.clone(), loopback: true, proxied: false };
        let vote = VoteRequest { voter, by: by(client.as_ref()), option: option.map(str::to_owned), answers };
        let (engine, store, durable) = (self.engine.clone(), self.store.clone(), Arc::clone(&self.durable));
        let (id, strategy) = (question.id.clone(), self.strategy);
        tokio::spawn(async move {
            if engine.vote(Some(&session), request, vote).await.is_err() {
                return;
            }
            let settled =
                now(durable.question(&id)).ok().flatten().is_some_and(|row| !row.question.is_open());
            match decision {
                Some(decision) if settled && strategy != Strategy::Consensus => {
                    store.lock().acknowledged.push(Acknowledged { question: id, decision });
                }
                Some(_) if strategy == Strategy::Consensus => {}
                other => store
                    .violation(format!("I1: a vote {other:?} on {id} was acknowledged, settled: {settled}")),
            }
        });
    }

    fn yes(
        &self,
        question: &Question,
        rng: &mut Rng,
    ) -> (Option<&'static str>, Option<Value>, Option<Decision>) {
        if !question.body.is_question() {
            let selected = Decision::Selected { option_id: "proceed_once".to_owned() };
            return (Some("proceed_once"), None, Some(selected));
        }
        let text = ["A", "B", "something else"][rng.below(3) as usize];
        let answers = Answers::from_pairs([(0, text.to_owned())]).expect("one answer");
        (Some("proceed_once"), Some(json!({ "0": text })), Some(Decision::Answered { answers }))
    }

    fn answer(&self, question: &Question, client: Option<ClientId>, rng: &mut Rng) {
        let generation =
            if rng.one_in(10) { Generation(question.generation.0 + 1) } else { question.generation };
        let (choice, decision) = match (rng.below(6), question.body.is_question()) {
            (0, _) => (Choice::Decline, Some(Decision::Declined { option_id: None })),
            (1, true) => (Choice::Answers(json!({ "5": "A" })), None),
            (_, true) => {
                let (_, answers, decision) = self.yes(question, rng);
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
        self.send_answer(question.id.clone(), generation, client, choice, decision, response);
    }

    fn send_answer(
        &self,
        id: QuestionId,
        generation: Generation,
        client: Option<ClientId>,
        choice: Choice,
        decision: Option<Decision>,
        response: ResponseId,
    ) {
        let voter = Voter { client: client.clone(), loopback: true, proxied: false };
        let answer =
            AnswerRequest { generation, voter, by: by(client.as_ref()), choice, response: Some(response) };
        let (engine, store) = (self.engine.clone(), self.store.clone());
        tokio::spawn(async move {
            if let Ok(Receipt::Settled(_)) = engine.answer(&id, answer).await {
                match decision {
                    Some(decision) => store.lock().acknowledged.push(Acknowledged { question: id, decision }),
                    None => store.violation(format!("Q6: an invalid answer to {id} was taken")),
                }
            }
        });
    }

    fn cancel(&self, session: SessionId, unreachable: bool) {
        let engine = self.engine.clone();
        tokio::spawn(async move { drop(engine.cancel(&session, unreachable, None).await) });
    }

    fn close(&self, session: SessionId) {
        let engine = self.engine.clone();
        tokio::spawn(async move { drop(engine.close(&session, None).await) });
    }

    fn delete(&self, session: SessionId) {
        let (engine, store) = (self.engine.clone(), self.store.clone());
        tokio::spawn(async move {
            if engine.delete(&session).await.is_ok() {
                store.lock().deleted.push(session);
            }
        });
    }

    fn go_on(&self, session: SessionId) {
        let engine = self.engine.clone();
        tokio::spawn(async move { drop(engine.go_on(&session, None).await) });
    }

    fn take_back(&self, session: &holdpoint_model::session::Session) {
        let Some(prompt) = session.queue.front().map(|prompt| prompt.id.clone()) else { return };
        let (engine, id) = (self.engine.clone(), session.id.clone());
        tokio::spawn(async move { drop(engine.remove_prompt(&id, prompt, None).await) });
    }

    /// I7: reads change nothing.
    fn look(&self, session: SessionId) {
        let (engine, store, durable) = (self.engine.clone(), self.store.clone(), Arc::clone(&self.durable));
        tokio::spawn(async move {
            let before = engine.status(&session, None).await;
            let versions_before = versions(&durable);
            let filter = QuestionFilter { state: StateFilter::Open, limit: 100, ..QuestionFilter::default() };
            let list = engine.questions(filter).await;
            if versions_before != versions(&durable) {
                // Others write too; only where nobody did does this say something. Nothing here awaits anything
                // but reads, so a write of ours would show.
                return;
            }
            let after = engine.status(&session, None).await;
            if let (Ok(list), Ok(before), Ok(after)) = (list, before, after)
                && before == after
            {
                let waits = after["isWaitingForUserQuestion"] == json!(true);
                let live = list.rows.iter().any(|row| {
                    row["sessionId"] == json!(session)
                        && row["live"] == json!(true)
                        && row["kind"] == "user_question"
                });
                if waits != live {
                    store.violation(format!("I6: {session} waits: {waits}, and the inbox says {live}"));
                }
            }
        });
    }
}

fn versions(ledger: &MemoryLedger) -> Vec<u64> {
    sessions(ledger).iter().map(|session| session.version).collect()
}

/// I1: what a stream tells is durable when it is told.
async fn watch(engine: Engine, session: SessionId, durable: Arc<MemoryLedger>, store: Shared) {
    let Ok(mut stream) = engine.subscribe(&session, None, 256).await else { return };
    while let Some(frame) = stream.next().await {
        let value: Value = serde_json::from_slice(&frame.json).expect("a frame is JSON");
        let data = &value["data"];
        let question = data["questionId"].as_str().and_then(|id| QuestionId::new(id).ok());
        let row = question.as_ref().and_then(|id| now(durable.question(id)).ok().flatten());
        match frame.kind {
            "permission_request" => {
                let request = data["requestId"].as_str().unwrap_or_default().to_owned();
                let known =
                    row.is_some_and(|row| row.question.requests.iter().any(|r| r.as_str() == request));
                if !known {
                    store.violation(format!("I1: {request} was told and is not durable"));
                }
            }
            "permission_resolved" if data.get("answeredBy").is_some() => {
                let settled = row.is_some_and(|row| matches!(row.question.state, State::Settled(_)));
                if !settled {
                    store.violation(format!("I1: {question:?} was told as answered and is not"));
                }
            }
            "turn_complete" => {
                let events = now(durable.events(&session)).unwrap_or_default();
                let ended = events.iter().any(|stored| {
                    matches!(&stored.event, Event::TurnEnded { prompt, .. } if json!(prompt) == data["promptId"])
                });
                if !ended {
                    store.violation(format!(
                        "I1: the end of {} was told and is not durable",
                        data["promptId"]
                    ));
                }
            }
            _ => {}
        }
    }
}
