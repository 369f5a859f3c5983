//! One life of the daemon: it begins, things happen, it dies or is stopped.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::{AnswerRequest, Engine, EngineConfig, LoadAction, LoadRequest, Presence};
use holdpoint_ledger::Ledger;
use holdpoint_model::ids::{QuestionId, SessionId};
use holdpoint_model::policy::{Strategy, Voter};
use holdpoint_model::session::{Answerer, Choice, Question};
use serde_json::json;
use tokio::time::Instant;

use crate::agent::SimAgents;
use crate::check::Checker;
use crate::crash::Crash;
use crate::ledger::{Disk, SimLedger};
use crate::people::People;
use crate::rng::Rng;
use crate::store::Shared;
use crate::transcripts::SimTranscripts;
use crate::world::SimWorld;

/// How long a commit that nobody waits for waits for another one.
const LAZY: Duration = Duration::from_millis(200);

/// What the seed decides for one life: how the daemon is started, and when it dies.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) restore: bool,
    pub(crate) strategy: Strategy,
    pub(crate) quorum: Option<usize>,
    pub(crate) ask_timeout: Option<Duration>,
    pub(crate) idle_timeout: Duration,
    pub(crate) ring_size: usize,
    pub(crate) max_sessions: Option<usize>,
    /// Whether agents die, fail and dawdle.
    pub(crate) agents_fail: bool,
    pub(crate) crash: Crash,
}

impl Settings {
    /// Draws the settings of a life.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let crash = if rng.one_in(4) {
            Crash::never()
        } else {
            let orphaned = if rng.one_in(2) { 0 } else { rng.below(4) };
            Crash::at(1 + rng.below(250), rng.one_in(2), orphaned)
        };
        let strategies = [Strategy::Designated, Strategy::Consensus, Strategy::LocalOnly];
        let strategy =
            if rng.one_in(2) { strategies[rng.below(3) as usize] } else { Strategy::FirstResponder };
        Self {
            restore: !rng.one_in(6),
            strategy,
            quorum: [None, None, Some(1), Some(2), Some(5)][rng.below(5) as usize],
            ask_timeout: rng.one_in(4).then(|| Duration::from_secs(30)),
            idle_timeout: Duration::from_secs(if rng.one_in(4) { 20 } else { 30 * 60 }),
            ring_size: if rng.one_in(4) { 4 } else { 8000 },
            max_sessions: rng.one_in(8).then_some(2),
            agents_fail: !rng.one_in(3),
            crash,
        }
    }

    /// Those of the last life, in which nothing goes wrong any more.
    pub(crate) fn last(rng: &mut Rng) -> Self {
        Self {
            restore: !rng.one_in(6),
            strategy: Strategy::FirstResponder,
            quorum: None,
            ask_timeout: None,
            idle_timeout: Duration::from_secs(30 * 60),
            ring_size: 8000,
            max_sessions: None,
            agents_fail: false,
            crash: Crash::never(),
        }
    }
}

/// One life of the daemon.
pub(crate) struct Life {
    people: People,
    /// Tasks that run when nothing is loaded.
    idle_tasks: usize,
    /// Since when no session is live while the engine still does something.
    asleep_since: Cell<Option<Instant>>,
}

/// Lets everything happen that can without time passing: the paused clock moves only when all else waits.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

impl Life {
    /// Starts the daemon. To be called inside the life's own runtime.
    pub(crate) fn begin(
        seed: u64,
        life: u64,
        settings: &Settings,
        durable: &Arc<dyn Ledger>,
        store: &Shared,
    ) -> Self {
        store.note(format!("life {life}: {settings:?}"));
        let crash = settings.crash.clone();
        let ledger = Arc::new(SimLedger::new(Arc::clone(durable), crash.clone(), store.clone()));
        let agents = Arc::new(SimAgents::new(
            seed,
            life,
            settings.restore,
            settings.agents_fail,
            store.clone(),
            crash.clone(),
        ));
        let config = EngineConfig {
            restore: settings.restore,
            strategy: settings.strategy,
            quorum: settings.quorum,
            ask_timeout: settings.ask_timeout,
            idle_timeout: Some(settings.idle_timeout),
            ring_size: settings.ring_size,
            max_sessions: settings.max_sessions,
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
            Arc::new(SimTranscripts { store: store.clone(), crash: crash.clone() }),
            Arc::new(SimWorld::new(seed, life)),
        );
        let strategy = settings.strategy;
        let people = People {
            engine,
            durable: Arc::clone(durable),
            ledger,
            agents,
            store: store.clone(),
            crash,
            strategy,
        };
        Self { people, idle_tasks: tasks(), asleep_since: Cell::new(None) }
    }

    /// Things happen until the daemon dies, is stopped, or nothing more is to happen.
    pub(crate) async fn live(&self, rng: &mut Rng, checker: &mut Checker) {
        let People { store, crash, ledger, .. } = &self.people;
        settle().await;
        self.costs_nothing("at the start");
        for _ in 0..(20 + rng.below(60)) {
            let session = self.people.act(rng);
            // Several things at once, now and then.
            if !rng.one_in(3) {
                settle().await;
                self.look(session).await;
            }
            if rng.one_in(12) {
                tokio::time::sleep(Duration::from_secs(rng.below(90))).await;
            }
            checker.check(ledger, store);
            if crash.has_crashed() {
                // Agents find out a little later.
                tokio::time::sleep(Duration::from_secs(5)).await;
                store.note("crash");
                return;
            }
        }
        if rng.one_in(2) {
            ledger.set_disk(Disk::Good);
            ledger.flush();
            settle().await;
            ledger.flush();
            if !crash.has_crashed() {
                self.stop().await;
            }
        }
    }

    /// Looks at the session that something was done to, once nothing more happens by itself (I5, I6, I7), and at what
    /// runs (I9).
    async fn look(&self, session: Option<SessionId>) {
        let People { engine, store, crash, .. } = &self.people;
        if let Some(session) = session {
            crate::look::look(self.people.clone(), session);
            settle().await;
        }
        if crash.has_crashed() || engine.live_sessions() > 0 || engine.tasks() == engine.owed() {
            self.asleep_since.set(None);
            return;
        }
        // An agent may still be on its way to a session that was given up; that ends with the time it has for it.
        let since = self.asleep_since.get().unwrap_or_else(Instant::now);
        self.asleep_since.set(Some(since));
        if since.elapsed() > 2 * engine.config().take_up_timeout {
            store.violation(format!("I9: no session is live, and {} tasks go on", engine.tasks()));
        }
    }

    /// I12: an orderly stop is a crash for what is open.
    async fn stop(&self) {
        let People { engine, ledger, store, crash, .. } = &self.people;
        let before = open_questions(ledger);
        let written = store.lock().histories.clone();
        engine.stop().await;
        settle().await;
        if crash.has_crashed() {
            return;
        }
        let after = open_questions(ledger);
        if before.iter().any(|question| !after.contains(question)) {
            store.violation("I12: an orderly stop ended a question");
        }
        let now = store.lock().histories.clone();
        for (session, history) in written {
            let open = history.tail().turn().map(|turn| turn.open()).unwrap_or_default();
            let questions = before.iter().filter(|(of, ..)| *of == session).map(|(.., call)| call);
            for call in questions.filter(|call| open.contains(call)) {
                if now.get(&session).is_some_and(|history| history.results(call).next().is_some()) {
                    store.violation(format!("I12: an orderly stop wrote a result of {call}"));
                }
            }
        }
        store.note("stop");
    }

    /// I9, R12: what waits costs no task, no process, and no session that is live.
    fn costs_nothing(&self, when: &str) {
        let People { engine, agents, store, .. } = &self.people;
        use holdpoint_engine::port::Agents as _;
        let (live, tasks, processes) = (engine.live_sessions(), tasks(), agents.alive());
        if live > 0 || tasks > self.idle_tasks || processes > 0 {
            store.violation(format!(
                "I9: {when}, with nothing loaded, there are {live} live sessions, {tasks} tasks instead of {} and \
                 {processes} agents",
                self.idle_tasks
            ));
        }
    }

    /// What the life leaves behind, checked anew.
    pub(crate) fn end(&self, checker: &mut Checker) {
        checker.check_all(&self.people.ledger, &self.people.store);
    }

    /// Everybody comes back and answers everything, until nothing waits any more.
    pub(crate) async fn come_to_rest(&self, checker: &mut Checker) {
        let People { engine, ledger, store, .. } = &self.people;
        for _ in 0..80 {
            let mut busy = false;
            for session in ledger.sessions() {
                let (client, id) = (session.clients.iter().next().cloned(), session.id);
                let request = LoadRequest {
                    action: LoadAction::Resume,
                    presence: Presence::default(),
                    client,
                    page_size: None,
                    approval_mode: None,
                };
                drop(engine.load(&id, request).await);
                self.step(Some(id), checker).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            ledger.flush();
            self.step(None, checker).await;
            for session in ledger.sessions() {
                busy |= session.turn.is_some() || !session.queue.is_empty();
                for question in session.open() {
                    // Without the flag a question that nobody asks waits for a start with it (S3).
                    busy |= engine.config().restore
                        || question.asking.as_ref().is_some_and(|a| a.life == session.life);
                    answer(engine, question).await;
                    self.step(Some(session.id.clone()), checker).await;
                }
            }
            settle().await;
            ledger.flush();
            self.step(None, checker).await;
            if !busy {
                self.go_to_sleep().await;
                return;
            }
        }
        store.violation("it does not come to rest: something waits for ever");
    }

    /// One step of the last life is over.
    async fn step(&self, session: Option<SessionId>, checker: &mut Checker) {
        self.look(session).await;
        checker.check(&self.people.ledger, &self.people.store);
    }

    /// Everybody leaves: nothing may go on for sessions that wait or are over (I9).
    async fn go_to_sleep(&self) {
        let People { engine, ledger, agents, .. } = &self.people;
        for session in ledger.sessions() {
            drop(engine.close(&session.id, None).await);
        }
        ledger.flush();
        settle().await;
        ledger.flush();
        settle().await;
        // The process serves its workspace, not a session.
        agents.kill();
        settle().await;
        self.costs_nothing("when all have left");
    }
}

async fn answer(engine: &Engine, question: &Question) {
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

type Open = (SessionId, QuestionId, holdpoint_model::ids::CallId);

fn open_questions(ledger: &SimLedger) -> Vec<Open> {
    let mut open = Vec::new();
    for session in ledger.sessions() {
        let questions = session.open().filter(|question| question.body.is_question());
        open.extend(questions.map(|q| (session.id.clone(), q.id.clone(), q.call.call.clone())));
    }
    open
}
