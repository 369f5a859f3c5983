//! A seeded simulation: the real engine and the real core over a ledger, agents and people that a seed decides,
//! in one thread, on a paused clock, with crashes after any write and any send.
//!
//! `run` with the same seed does the same, step for step; a violation is thus found again with its seed.

mod agent;
mod check;
mod crash;
mod ledger;
mod people;
mod rng;
mod store;
mod world;

use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::{AnswerRequest, Engine, EngineConfig, LoadAction, LoadRequest};
use holdpoint_ledger::{Ledger as _, MemoryLedger};
use holdpoint_model::ids::{PromptId, SessionId};
use holdpoint_model::policy::{Strategy, Voter};
use holdpoint_model::session::{Answerer, Choice, Event, Question, State, TurnEnd};
use serde_json::json;

use crate::agent::SimAgents;
use crate::check::{Checker, sessions};
use crate::crash::Crash;
use crate::ledger::SimLedger;
use crate::people::People;
use crate::rng::Rng;
use crate::store::{Record, Shared};
use crate::world::{SimTranscripts, SimWorld};

/// How long a commit that nobody waits for waits for another one.
const LAZY: Duration = Duration::from_millis(200);

/// What a run found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What must not be, and was.
    pub violations: Vec<String>,
    /// What happened, in order.
    pub trace: Vec<String>,
    /// Questions asked, answers acknowledged, lives lived.
    pub counts: (usize, usize, u64),
}

/// What a seed decides once.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    restore: bool,
    ask_timeout: Option<Duration>,
}

/// One life of the daemon.
struct Life {
    people: People,
    crash: Crash,
}

/// Runs one seed.
pub fn run(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let plan =
        Plan { seed, restore: !rng.one_in(6), ask_timeout: rng.one_in(4).then(|| Duration::from_secs(30)) };
    let durable = MemoryLedger::new();
    let store = Shared::default();
    let mut checker = Checker::default();
    let lives = 2 + rng.below(5);
    for life in 0..lives {
        let crash = if rng.one_in(4) { Crash::never() } else { Crash::at(1 + rng.below(80), rng.one_in(2)) };
        let strategy =
            [Strategy::FirstResponder, Strategy::Designated, Strategy::Consensus, Strategy::LocalOnly]
                [rng.below(8).min(3) as usize % 4];
        let strategy = if rng.one_in(2) { Strategy::FirstResponder } else { strategy };
        in_runtime(async {
            let this = Life::new(&plan, life, &durable, &store, crash, strategy);
            this.live(&mut rng, &mut checker).await;
        });
        durable.refuse(None);
        checker.check(&durable, &store);
    }
    in_runtime(async {
        let last = Life::new(&plan, lives, &durable, &store, Crash::never(), Strategy::FirstResponder);
        last.come_to_rest().await;
    });
    checker.check(&durable, &store);
    at_rest(&durable, &store, plan.restore);
    tell_all(&durable, &store);
    let asked = sessions(&durable).iter().map(|session| session.generation.0 as usize).sum();
    let mut end = store.lock();
    Outcome {
        violations: std::mem::take(&mut end.violations),
        trace: std::mem::take(&mut end.trace),
        counts: (asked, end.acknowledged.len(), lives),
    }
}

/// Everything that runs in a life dies with its runtime.
fn in_runtime(life: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(life);
}

/// Lets everything happen that can without time passing: the paused clock moves only when all else waits.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

impl Life {
    fn new(
        plan: &Plan,
        life: u64,
        durable: &MemoryLedger,
        store: &Shared,
        crash: Crash,
        strategy: Strategy,
    ) -> Self {
        store.note(format!("life {life}, {}", strategy.as_str()));
        let durable = Arc::new(durable.reopen());
        let ledger = Arc::new(SimLedger::new(durable.reopen(), crash.clone()));
        let agents = Arc::new(SimAgents::new(plan.seed, plan.restore, store.clone(), crash.clone()));
        let config = EngineConfig {
            restore: plan.restore,
            strategy,
            ask_timeout: plan.ask_timeout,
            ..EngineConfig::new("/nowhere".into(), "/workspace".to_owned())
        };
        let flushing = Arc::clone(&ledger);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LAZY).await;
                flushing.flush();
            }
        });
        let engine = Engine::new(
            config,
            Arc::clone(&ledger) as _,
            Arc::clone(&agents) as _,
            Arc::new(SimTranscripts(store.clone())),
            Arc::new(SimWorld::new(plan.seed, life)),
        );
        let people = People { engine, durable, ledger, agents, store: store.clone(), strategy };
        Self { people, crash }
    }

    /// Things happen until the daemon dies, is stopped, or nothing more is to happen.
    async fn live(&self, rng: &mut Rng, checker: &mut Checker) {
        for _ in 0..(20 + rng.below(60)) {
            self.people.act(rng);
            // Several things at once, now and then.
            if !rng.one_in(3) {
                settle().await;
            }
            if rng.one_in(12) {
                tokio::time::sleep(Duration::from_secs(rng.below(90))).await;
            }
            checker.check(&self.people.durable, &self.people.store);
            if self.crash.has_crashed() {
                self.people.store.note("crash");
                return;
            }
        }
        if rng.one_in(2) {
            self.people.ledger.flush();
            settle().await;
            self.people.ledger.flush();
            let open = open_questions(&self.people.durable);
            self.people.engine.stop().await;
            settle().await;
            if open != open_questions(&self.people.durable) {
                self.people.store.violation("I12: an orderly stop ended a question");
            }
            self.people.store.note("stop");
        }
    }

    /// Everybody comes back and answers everything, until nothing waits any more.
    async fn come_to_rest(&self) {
        let engine = &self.people.engine;
        for _ in 0..60 {
            let mut busy = false;
            for session in sessions(&self.people.durable) {
                let client = session.clients.iter().next().cloned();
                let request =
                    LoadRequest { action: LoadAction::Resume, client, page_size: None, approval_mode: None };
                drop(engine.load(&session.id, request).await);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.people.ledger.flush();
            for session in sessions(&self.people.durable) {
                busy |= session.turn.is_some() || !session.queue.is_empty();
                for question in session.open() {
                    // Without the flag a question that nobody asks waits for a start with it (S3).
                    busy |= engine.config().restore
                        || question.asking.as_ref().is_some_and(|a| a.life == session.life);
                    answer(engine, question).await;
                }
            }
            settle().await;
            self.people.ledger.flush();
            if !busy {
                return;
            }
        }
        self.people.store.violation("it does not come to rest: something waits for ever");
    }
}

async fn answer(engine: &Engine, question: &holdpoint_model::session::Question) {
    let choice = if question.body.is_question() {
        Choice::Answers(json!({ "0": "A" }))
    } else {
        Choice::Option("proceed_once".to_owned())
    };
    let request = AnswerRequest {
        generation: question.generation,
        voter: Voter { client: None, loopback: true, proxied: false },
        by: Answerer { client_id: None, name: None, surface: "sim".to_owned() },
        choice,
        response: None,
    };
    drop(engine.answer(&question.id, request).await);
}

fn open_questions(ledger: &MemoryLedger) -> Vec<holdpoint_model::ids::QuestionId> {
    sessions(ledger)
        .iter()
        .flat_map(|session| {
            session.open().filter(|q| q.body.is_question()).map(|q| q.id.clone()).collect::<Vec<_>>()
        })
        .collect()
}

/// What must hold when everything has come to rest: nothing dangles, every accepted prompt was begun exactly
/// once, and every acknowledged answer was read by the model.
fn at_rest(durable: &MemoryLedger, store: &Shared, restore: bool) {
    let known = sessions(durable);
    let mut problems = Vec::new();
    {
        let store = store.lock();
        for session in &known {
            let Some(history) = store.histories.get(&session.id) else { continue };
            if restore && session.open().next().is_some() {
                problems.push(format!("{} still waits", session.id));
            }
            for question in session.undelivered().filter(|question| is_owed(question)) {
                problems.push(format!(
                    "I4: the end of {} was never delivered: {:?}",
                    question.id, question.state
                ));
            }
            let begun = |prompt| {
                history
                    .0
                    .iter()
                    .any(|record| matches!(record, Record::User { prompt: Some(id) } if id == prompt))
            };
            let stopped = stopped(durable, &session.id);
            for (_, prompt) in store.accepted.iter().filter(|(of, _)| *of == session.id) {
                if !begun(prompt) && !stopped.contains(prompt) {
                    problems.push(format!("D5: {prompt} was accepted and never begun"));
                }
            }
        }
    }
    for problem in problems {
        store.violation(problem);
    }
}

/// Whether the model must read this end. What was closed for a repair need not be: the call may be asked anew.
fn is_owed(question: &Question) -> bool {
    question.body.is_question()
        && match &question.state {
            State::Open => false,
            State::Settled(_) => true,
            State::Closed { cause, .. } => cause.is_a_result(),
        }
}

/// The prompts that somebody stopped or took back: they need not have been begun.
fn stopped(durable: &MemoryLedger, session: &SessionId) -> Vec<PromptId> {
    let events = crate::ledger::now(durable.events(session)).unwrap_or_default();
    let ended = events.into_iter().filter_map(|stored| match stored.event {
        Event::TurnEnded { prompt, outcome: TurnEnd::Completed { stop_reason, .. } }
            if stop_reason == "cancelled" =>
        {
            Some(prompt)
        }
        Event::PromptRemoved { prompt } => Some(prompt),
        _ => None,
    });
    ended.collect()
}

/// Everything that is durable in the end, for whoever reads a trace.
fn tell_all(durable: &MemoryLedger, store: &Shared) {
    for session in sessions(durable) {
        store.note(format!("session {}", session.id));
        for stored in crate::ledger::now(durable.events(&session.id)).unwrap_or_default() {
            store.note(format!("  {} {} {:?}", stored.version, stored.at.0, stored.event));
        }
        let history = store.lock().histories.get(&session.id).cloned().unwrap_or_default();
        for record in history.0 {
            store.note(format!("  history {record:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_run() {
        for seed in 0..20 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
    }

    #[test]
    fn i1_to_i12_hold_over_crashes() {
        let mut counts = (0, 0);
        for seed in 0..300 {
            let outcome = run(seed);
            assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
            counts = (counts.0 + outcome.counts.0, counts.1 + outcome.counts.1);
        }
        // A simulation in which nothing happens finds nothing.
        assert!(counts.0 > 500 && counts.1 > 200, "too little happened: {counts:?}");
    }
}
