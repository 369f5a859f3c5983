//! What the tasks of one agent process share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent_client_protocol::RawJsonRpcId;
use holdpoint_engine::port::{AgentError, Exit, FromAgent};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::config::{Limits, Restore};
use crate::routes::{Place, Routes};

/// One agent process and the connection to it.
pub(crate) struct Conn {
    /// The agent's name, for logs.
    pub(crate) name: String,
    /// The process, which leads a group of the same id.
    pub(crate) pid: u32,
    pub(crate) limits: Limits,
    pub(crate) restore: Restore,
    pub(crate) routes: Routes,
    /// It is being stopped: from here on nothing is answered and nothing is told (I12).
    pub(crate) stopping: CancellationToken,
    /// It has ended and was waited for.
    pub(crate) exited: CancellationToken,
    /// A message was handled: there may be room for the next one.
    pub(crate) handled: Notify,
    /// Why it is being ended, if we end it.
    broken: OnceLock<String>,
    breaking: CancellationToken,
    dead: AtomicBool,
    /// Whether it ends by itself on SIGTERM without writing anything: our own agent does (I12).
    gentle: AtomicBool,
    exit: watch::Sender<Option<Exit>>,
    /// Our requests that are on the wire.
    pending: Mutex<HashSet<RawJsonRpcId>>,
    /// Requests of the agent that somebody has answered and whose answer is not written yet.
    answered: Mutex<HashSet<RawJsonRpcId>>,
    open_requests: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Conn {
    pub(crate) fn new(name: &str, pid: u32, restore: Restore, limits: Limits) -> Self {
        Self {
            name: name.to_owned(),
            pid,
            routes: Routes::new(limits.max_replay),
            limits,
            restore,
            stopping: CancellationToken::new(),
            exited: CancellationToken::new(),
            handled: Notify::new(),
            broken: OnceLock::new(),
            breaking: CancellationToken::new(),
            dead: AtomicBool::new(false),
            gentle: AtomicBool::new(false),
            exit: watch::Sender::new(None),
            pending: Mutex::default(),
            answered: Mutex::default(),
            open_requests: AtomicUsize::new(0),
        }
    }

    /// Gives a message to its session, and waits for room there: that is what stops an agent that is too fast.
    /// The wait ends when the session is closed or the process is stopped.
    pub(crate) async fn deliver(&self, session: &str, mut message: FromAgent) {
        loop {
            if self.stopping.is_cancelled() {
                return;
            }
            let Place::Send { message: back, sink, moved, incarnation } = self.routes.place(session, message)
            else {
                return;
            };
            message = back;
            tokio::select! {
                biased;
                () = moved.cancelled() => {}
                () = self.stopping.cancelled() => {}
                room = sink.reserve() => {
                    match room {
                        Ok(room) => room.send(message),
                        Err(_) => self.routes.sink_gone(session, incarnation),
                    }
                    return;
                }
            }
        }
    }

    /// Ends the process, for a reason that is told to everybody.
    pub(crate) fn break_off(&self, why: String) {
        if self.broken.set(why).is_ok() {
            self.breaking.cancel();
        }
    }

    /// Waits until somebody ends the process.
    pub(crate) async fn broken_off(&self) {
        self.breaking.cancelled().await;
    }

    /// Why it was ended by us.
    pub(crate) fn why(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    pub(crate) fn set_dead(&self) {
        self.dead.store(true, Ordering::Release);
    }

    pub(crate) fn is_gentle(&self) -> bool {
        self.gentle.load(Ordering::Acquire)
    }

    pub(crate) fn set_gentle(&self) {
        self.gentle.store(true, Ordering::Release);
    }

    /// Tells how it ended.
    pub(crate) fn publish(&self, exit: Exit) {
        self.exit.send_replace(Some(exit));
    }

    /// How it ended, as soon as that is known; `None` if it is not after `wait`.
    pub(crate) async fn exit(&self, wait: Duration) -> Option<Exit> {
        let mut exit = self.exit.subscribe();
        let exit = tokio::time::timeout(wait, exit.wait_for(Option::is_some)).await.ok()?.ok()?;
        exit.clone()
    }

    /// The error for whoever waits for a process that is gone.
    pub(crate) async fn gone(&self) -> AgentError {
        // The connection ends a moment before the process has been waited for.
        AgentError::Gone(self.exit(Duration::from_secs(3)).await.unwrap_or_default())
    }

    /// A request of ours goes out.
    pub(crate) fn sent(&self, id: RawJsonRpcId) {
        lock(&self.pending).insert(id);
    }

    /// Whether an answer is one to a request of ours that has none yet.
    pub(crate) fn awaits(&self, id: &RawJsonRpcId) -> bool {
        lock(&self.pending).remove(id)
    }

    /// An answer is about to be given: let it pass. `false` if nothing is answered any more.
    pub(crate) fn allow(&self, id: &RawJsonRpcId) -> bool {
        if self.stopping.is_cancelled() {
            return false;
        }
        let mut answered = lock(&self.answered);
        answered.insert(id.clone());
        if answered.len() > self.limits.max_unsent_answers {
            drop(answered);
            self.break_off("it does not read its input: too many answers wait for it".into());
        }
        true
    }

    /// Whether an answer that the SDK wants to send is one that somebody gave.
    pub(crate) fn take_allowed(&self, id: &RawJsonRpcId) -> bool {
        lock(&self.answered).remove(id)
    }

    /// A request is given to its session. `false` if too many are open.
    pub(crate) fn open_request(&self) -> bool {
        let before = self.open_requests.fetch_add(1, Ordering::AcqRel);
        if before < self.limits.max_open_requests {
            return true;
        }
        self.close_request();
        false
    }

    /// A request that was given to its session is answered, or let go.
    pub(crate) fn close_request(&self) {
        self.open_requests.fetch_sub(1, Ordering::AcqRel);
    }
}
