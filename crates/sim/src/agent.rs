//! Simulated agent processes: started, asked over the engine's port, and dying on their own or with the daemon.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdpoint_engine::port::{
    Agent, AgentError, AgentInfo, AgentPrompt, Agents, Exit, FromAgent, NewSession, Reply, TakeUp, TakenUp,
};
use holdpoint_model::ids::SessionId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::crash::{Crash, Fuse};
use crate::rng::{Rng, mix};
use crate::store::{Record, Shared};

/// Where an agent says what it has to say of one session.
pub(crate) type Sink = mpsc::Sender<FromAgent>;

/// The agent processes of one life of the daemon.
pub(crate) struct SimAgents {
    /// From which everything follows that an agent does.
    pub(crate) seed: u64,
    /// Which life of the daemon.
    pub(crate) life: u64,
    /// Whether they have the flag.
    pub(crate) restore: bool,
    /// Whether they die, fail and dawdle.
    pub(crate) fail: bool,
    /// What survives.
    pub(crate) store: Shared,
    /// When the daemon dies.
    pub(crate) crash: Crash,
    process: Mutex<Option<Arc<SimAgent>>>,
    started: AtomicU64,
}

impl SimAgents {
    /// None yet.
    pub(crate) fn new(seed: u64, life: u64, restore: bool, fail: bool, store: Shared, crash: Crash) -> Self {
        Self {
            seed,
            life,
            restore,
            fail,
            store,
            crash,
            process: Mutex::default(),
            started: AtomicU64::new(0),
        }
    }

    /// Kills the process, if there is one.
    pub(crate) fn kill(&self) {
        if let Some(process) = lock(&self.process).take() {
            process.inner.die();
        }
    }

    fn start(&self) -> Result<Arc<SimAgent>, AgentError> {
        let nth = self.started.fetch_add(1, Ordering::SeqCst);
        let mut rng = Rng::new(mix(&[self.seed, self.life, nth, 0xA6E7]));
        if self.fail && rng.one_in(20) {
            return Err(AgentError::Start("no such program".to_owned()));
        }
        let fuse = if self.fail && rng.one_in(3) { 1 + rng.below(30) } else { 0 };
        Ok(Arc::new(SimAgent {
            info: AgentInfo {
                name: "sim".to_owned(),
                version: "1".to_owned(),
                ours: true,
                model: None,
                can_load: true,
                can_resume: true,
            },
            inner: Arc::new(Inner {
                seed: self.seed,
                restore: self.restore,
                fail: self.fail,
                store: self.store.clone(),
                crash: self.crash.clone(),
                fuse: Fuse::new(fuse, rng.one_in(2)),
                rng: Mutex::new(rng),
                alive: CancellationToken::new(),
                sessions: Mutex::default(),
            }),
        }))
    }
}

/// Takes a lock. Nothing in one thread can have panicked while it was held.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn never<T: Send + 'static>() -> Reply<T> {
    Box::pin(std::future::pending())
}

fn gone() -> AgentError {
    AgentError::Gone(Exit { signal: Some(9), ..Exit::default() })
}

impl Agents for SimAgents {
    fn connect(&self, _agent: &str, _cwd: &str) -> Reply<Result<Arc<dyn Agent>, AgentError>> {
        if self.crash.point().is_some() {
            return never();
        }
        let mut process = lock(&self.process);
        let agent = match process.as_ref().filter(|process| !process.inner.alive.is_cancelled()) {
            Some(agent) => Arc::clone(agent),
            None => match self.start() {
                Ok(agent) => Arc::clone(process.insert(agent)),
                Err(error) => return Box::pin(std::future::ready(Err(error))),
            },
        };
        Box::pin(std::future::ready(Ok(agent as Arc<dyn Agent>)))
    }

    fn stop(&self) -> Reply<()> {
        // Killed, with its pipes open: it learns of nothing (I12).
        if let Some(process) = lock(&self.process).take() {
            process.inner.alive.cancel();
        }
        Box::pin(std::future::ready(()))
    }

    fn alive(&self) -> usize {
        lock(&self.process).iter().filter(|process| !process.inner.alive.is_cancelled()).count()
    }
}

/// One agent process.
pub(crate) struct SimAgent {
    info: AgentInfo,
    inner: Arc<Inner>,
}

/// What a process holds.
pub(crate) struct Inner {
    pub(crate) seed: u64,
    pub(crate) restore: bool,
    pub(crate) fail: bool,
    pub(crate) store: Shared,
    pub(crate) crash: Crash,
    fuse: Fuse,
    rng: Mutex<Rng>,
    pub(crate) alive: CancellationToken,
    pub(crate) sessions: Mutex<BTreeMap<SessionId, Open>>,
}

/// A session that a process has open.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) sink: Sink,
    pub(crate) cancel: CancellationToken,
    pub(crate) close: CancellationToken,
    pub(crate) busy: bool,
}

impl Agent for SimAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn new_session(&self, new: NewSession, sink: Sink) -> Reply<Result<TakenUp, AgentError>> {
        if self.inner.crash.point().is_some() {
            return never();
        }
        if self.inner.alive.is_cancelled() {
            return Box::pin(std::future::ready(Err(gone())));
        }
        self.inner.open(&new.session, sink);
        let taken = TakenUp { session: Some(new.session), ..TakenUp::default() };
        Box::pin(std::future::ready(Ok(taken)))
    }

    fn take_up(&self, take: TakeUp, sink: Sink) -> Reply<Result<TakenUp, AgentError>> {
        if self.inner.crash.point().is_some() {
            return never();
        }
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            tokio::select! {
                biased;
                () = inner.alive.cancelled() => Err(gone()),
                taken = inner.take_up(&take, sink) => {
                    // The answer is a send too.
                    if inner.crash.point() == Some(false) {
                        std::future::pending::<()>().await;
                    }
                    taken
                }
            }
        })
    }

    fn prompt(&self, prompt: AgentPrompt) {
        if self.inner.crash.point() == Some(false) {
            return;
        }
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            let alive = inner.alive.clone();
            tokio::select! {
                biased;
                () = alive.cancelled() => {}
                () = inner.turn(prompt) => {}
            }
        });
    }

    fn cancel(&self, session: &SessionId) {
        if self.inner.crash.point() != Some(false)
            && let Some(open) = lock(&self.inner.sessions).get(session)
        {
            open.cancel.cancel();
        }
    }

    fn close(&self, session: &SessionId) -> Reply<()> {
        let inner = Arc::clone(&self.inner);
        let session = session.clone();
        Box::pin(async move {
            if inner.crash.point() == Some(false) {
                std::future::pending::<()>().await;
            }
            if let Some(open) = lock(&inner.sessions).remove(&session) {
                open.close.cancel();
            }
            tokio::task::yield_now().await;
        })
    }

    fn set_mode(&self, _session: &SessionId, _mode: &str) -> Reply<Result<(), AgentError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The turn cannot go on: the process dies, or the session is gone.
pub(crate) struct Gone;

impl Inner {
    /// The process ends: whoever has a session with it learns that, after everything that it sent.
    pub(crate) fn die(&self) {
        self.alive.cancel();
        for (_, open) in std::mem::take(&mut *lock(&self.sessions)) {
            let exit = Exit { signal: Some(9), ..Exit::default() };
            tokio::spawn(async move { drop(open.sink.send(FromAgent::Gone(exit)).await) });
        }
    }

    pub(crate) fn open(&self, session: &SessionId, sink: Sink) {
        let open =
            Open { sink, cancel: CancellationToken::new(), close: CancellationToken::new(), busy: false };
        lock(&self.sessions).insert(session.clone(), open);
    }

    /// Draws a number, in this process's own order.
    pub(crate) fn one_in(&self, n: u64) -> bool {
        self.fail && lock(&self.rng).one_in(n)
    }

    /// Thinks for a while, or only lets others go first.
    pub(crate) async fn dawdle(&self) {
        let millis = if self.one_in(3) { lock(&self.rng).below(4000) } else { 0 };
        if millis == 0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }

    fn push(&self, session: &SessionId, record: Record) {
        self.store.note(format!("  {session} writes {record:?}"));
        self.store.lock().histories.entry(session.clone()).or_default().0.push(record);
    }

    /// Writes a record: a point where this process or the daemon may die, before it or after it.
    pub(crate) async fn write(&self, session: &SessionId, record: Record) -> Result<(), Gone> {
        if let Some(done) = self.fuse.burn() {
            // Dead agents of a dead daemon write no more than what is left to them.
            if done && !matches!(self.crash.agent_write(), Some(false)) {
                self.push(session, record);
            }
            self.store.note("an agent dies");
            self.die();
            return Err(Gone);
        }
        match self.crash.agent_write() {
            None => self.push(session, record),
            Some(done) => {
                if done {
                    self.push(session, record);
                }
                std::future::pending::<()>().await;
            }
        }
        tokio::task::yield_now().await;
        if self.alive.is_cancelled() { Err(Gone) } else { Ok(()) }
    }

    /// Sends to the daemon: a point where the daemon may die, before it has it or after.
    pub(crate) async fn send(&self, sink: &Sink, said: FromAgent) -> Result<(), Gone> {
        if self.crash.point() == Some(false) {
            std::future::pending::<()>().await;
        }
        sink.send(said).await.map_err(|_| Gone)
    }
}
