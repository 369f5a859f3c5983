//! Finds, starts and stops agent processes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, join_all};
use holdpoint_engine::port::{Agent, AgentError, Agents, Reply};
use rustix::process::Signal;

use crate::agent::AcpAgent;
use crate::config::{AgentCommand, HostConfig};
use crate::conn::Conn;
use crate::process::{Child, signal};
use crate::stderr::Redactor;

/// The agent processes of this daemon, one for each (agent, workspace). They die with it.
pub struct AcpAgents {
    inner: Arc<Inner>,
}

struct Inner {
    config: HostConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: HashMap<Key, Slot>,
    /// Every process that was started and may still live, also those that have not said hello.
    processes: Vec<Arc<Conn>>,
    stopped: bool,
}

type Key = (String, String);
type Started = Result<Arc<AcpAgent>, AgentError>;

enum Slot {
    /// Everybody who wants it meanwhile waits for the same start.
    Starting(Shared<BoxFuture<'static, Started>>),
    Started(Arc<AcpAgent>),
}

impl AcpAgents {
    /// With no process yet.
    pub fn new(config: HostConfig) -> Self {
        Self { inner: Arc::new(Inner { config, state: Mutex::default() }) }
    }
}

impl Agents for AcpAgents {
    fn connect(&self, agent: &str, cwd: &str) -> Reply<Result<Arc<dyn Agent>, AgentError>> {
        let started = self.inner.connect((agent.to_owned(), cwd.to_owned()));
        Box::pin(async move {
            let agent: Arc<dyn Agent> = started.await?;
            Ok(agent)
        })
    }

    fn stop(&self) -> Reply<()> {
        let processes = self.inner.stop();
        let limit = self.inner.config.limits.stop;
        Box::pin(async move {
            let ends = processes.iter().map(|conn| conn.exit(limit));
            for (conn, exit) in processes.iter().zip(join_all(ends).await) {
                if exit.is_none() {
                    tracing::warn!(
                        agent = conn.name,
                        pid = conn.pid,
                        "the agent process did not end in time"
                    );
                    signal(conn.pid, Signal::KILL);
                }
            }
        })
    }

    fn alive(&self) -> usize {
        self.inner.lock().processes.iter().filter(|conn| !conn.is_dead()).count()
    }
}

impl Drop for AcpAgents {
    fn drop(&mut self) {
        for conn in self.inner.stop() {
            // Without a runtime nobody else may get to do it.
            if !conn.exited.is_cancelled() {
                signal(conn.pid, Signal::KILL);
            }
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can panic halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, key: Key) -> Reply<Started> {
        let mut state = self.lock();
        if state.stopped {
            return Box::pin(async { Err(stopping()) });
        }
        match state.slots.get(&key) {
            Some(Slot::Starting(start)) => return Box::pin(start.clone()),
            Some(Slot::Started(agent)) if !agent.is_dead() => {
                let agent = Arc::clone(agent);
                return Box::pin(async move { Ok(agent) });
            }
            Some(Slot::Started(_)) | None => {}
        }
        // A task of its own: the start goes on if the one who wanted it first goes away.
        let task = tokio::spawn(Arc::clone(self).start(key.clone()));
        let start = async move {
            task.await.unwrap_or_else(|_| Err(AgentError::Start("the start was given up".to_owned())))
        };
        let start = start.boxed().shared();
        state.slots.insert(key, Slot::Starting(start.clone()));
        Box::pin(start)
    }

    async fn start(self: Arc<Self>, key: Key) -> Started {
        let started = self.try_start(&key).await;
        let mut state = self.lock();
        match &started {
            Ok(agent) => state.slots.insert(key, Slot::Started(Arc::clone(agent))),
            Err(_) => state.slots.remove(&key),
        };
        started
    }

    async fn try_start(&self, (name, cwd): &Key) -> Started {
        let Some(command) = self.config.agents.get(name) else {
            let known: Vec<_> = self.config.agents.keys().map(String::as_str).collect();
            return Err(AgentError::Start(format!(
                "there is no agent {name}; there are: {}",
                known.join(", ")
            )));
        };
        let started = tokio::time::Instant::now();
        let child = Child::start(command, cwd).map_err(AgentError::Start)?;
        let conn = Arc::new(Conn::new(name, child.pid(), command.restore, self.config.limits.clone()));
        tracing::info!(agent = name, pid = conn.pid, cwd, "agent process started");
        self.register(&conn);
        let connection = child.watch(&conn, Redactor::new(&command.env));
        let hello = async {
            let connection = connection.await.map_err(|_| "the connection to it ended at once".to_owned())?;
            AcpAgent::hello(Arc::clone(&conn), connection, &self.config.client_version).await
        };
        let limit = self.config.limits.initialize;
        match tokio::time::timeout_at(started + limit, hello).await {
            Ok(Ok(agent)) => Ok(Arc::new(agent)),
            Ok(Err(why)) => Err(self.failed(&conn, command, why).await),
            Err(_) => {
                let why = format!("it did not answer initialize within {} s", limit.as_secs_f32());
                Err(match self.failed(&conn, command, why).await {
                    AgentError::Start(message) if !conn.stopping.is_cancelled() => {
                        AgentError::StartTimedOut { message, seconds: limit.as_secs() }
                    }
                    other => other,
                })
            }
        }
    }

    /// What is told of a start that failed; the process is ended.
    async fn failed(&self, conn: &Conn, command: &AgentCommand, why: String) -> AgentError {
        if conn.stopping.is_cancelled() {
            return stopping();
        }
        conn.break_off(why);
        let exit = conn.exit(self.config.limits.stop).await.unwrap_or_default();
        // The reason is in the exit's words already, and there it is the first one: that it printed garbage says
        // more than that it ended.
        let why = conn.why().unwrap_or_default();
        let mut text = format!("{}: {why}", command.program);
        let tail = exit.stderr_tail.as_str();
        let last = tail.rsplit_once("(ended by the daemon: ").map_or(tail, |(said, _)| said).trim();
        match (exit.code, exit.signal) {
            (Some(code), _) => text.push_str(&format!(" (exit code {code})")),
            // Our own SIGKILL says nothing.
            (None, Some(9)) | (None, None) => {}
            (None, Some(signal)) => text.push_str(&format!(" (signal {signal})")),
        }
        if !last.is_empty() {
            text.push_str("; its last words: ");
            text.push_str(last);
        }
        AgentError::Start(text)
    }

    fn register(&self, conn: &Arc<Conn>) {
        let mut state = self.lock();
        state.processes.retain(|conn| !conn.exited.is_cancelled());
        state.processes.push(Arc::clone(conn));
        if state.stopped {
            conn.stopping.cancel();
        }
    }

    /// Tells every process to end. Returns them.
    fn stop(&self) -> Vec<Arc<Conn>> {
        let mut state = self.lock();
        state.stopped = true;
        for conn in &state.processes {
            conn.stopping.cancel();
        }
        state.processes.clone()
    }
}

fn stopping() -> AgentError {
    AgentError::Start("the daemon is stopping".to_owned())
}
