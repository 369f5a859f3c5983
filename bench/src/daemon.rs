//! One life of the daemon.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::http::{Connection, Response};
use crate::sse::Events;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon that runs. Dropped, it and its agents are killed.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
    /// When the program was started.
    pub(crate) since: Instant,
}

/// A session that the bench opened.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: String,
}

/// A question that can be answered now.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) request: String,
}

impl Asked {
    /// Reads it out of an event's data, or out of a pending interaction.
    pub(crate) fn read(view: &Value) -> anyhow::Result<Self> {
        let text = |key: &str| {
            Ok::<_, anyhow::Error>(view[key].as_str().with_context(|| format!("{key} in {view}"))?.to_owned())
        };
        Ok(Self {
            id: text("questionId")?,
            generation: view["generation"].as_u64().with_context(|| format!("generation in {view}"))?,
            request: text("requestId")?,
        })
    }
}

impl Daemon {
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let stderr = OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let since = Instant::now();
        let mut child = command.spawn().context("cannot start the daemon")?;
        let stdout = child.stdout.take().context("the daemon has a stdout")?;
        let mut line = String::new();
        // It prints the line when it takes connections, so nothing has to poll beside it.
        BufReader::new(stdout).read_line(&mut line)?;
        let address =
            line.split_once("http://").and_then(|(_, rest)| rest.split([' ', '/']).next()?.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            let log = std::fs::read_to_string(log).unwrap_or_default();
            bail!("the daemon did not start: {line}{log}");
        };
        Ok(Self { child, address, since })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The processes that it started: its agents.
    pub(crate) fn agents(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
            .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
            .collect()
    }

    /// `kill -9` to the daemon and its agents, and waits until they are gone.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.end(true)
    }

    /// `kill -9` to the daemon only: its agents find out by themselves.
    pub(crate) fn kill_alone(mut self) -> anyhow::Result<Vec<u32>> {
        let agents = self.agents();
        self.child.kill()?;
        self.child.wait()?;
        Ok(agents)
    }

    fn end(&mut self, agents_too: bool) -> anyhow::Result<()> {
        let agents = self.agents();
        self.child.kill()?;
        self.child.wait()?;
        for agent in agents {
            if agents_too {
                signal(agent, Signal::KILL);
            }
            gone(agent)?;
        }
        Ok(())
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address)
    }

    /// Opens a session of its own.
    pub(crate) fn create(&self, http: &mut Connection) -> anyhow::Result<Session> {
        let body = json!({ "sessionScope": "thread", "approvalMode": "yolo" });
        let view = http.post("/session", None, &body)?.expect(200)?;
        let text = |key: &str| view[key].as_str().unwrap_or_default().to_owned();
        Ok(Session { id: text("sessionId"), client: text("clientId") })
    }

    /// Sends a prompt.
    pub(crate) fn prompt(&self, http: &mut Connection, session: &Session, text: &str) -> anyhow::Result<()> {
        let body = json!({ "prompt": [{ "type": "text", "text": text }] });
        http.post(&format!("/session/{}/prompt", session.id), Some(&session.client), &body)?.expect(202)?;
        Ok(())
    }

    /// Loads or resumes a session.
    pub(crate) fn wake(
        &self,
        http: &mut Connection,
        session: &Session,
        how: &str,
    ) -> anyhow::Result<Response> {
        http.post(&format!("/session/{}/{how}", session.id), Some(&session.client), &json!({}))
    }

    /// A session's stream from its beginning on.
    pub(crate) fn events(&self, session: &Session) -> anyhow::Result<Events> {
        Events::open(self.address, &session.id)
    }

    /// The questions of a session that can be answered now.
    pub(crate) fn asked(&self, http: &mut Connection, session: &Session) -> anyhow::Result<Vec<Asked>> {
        let status = http.get(&format!("/session/{}/status", session.id))?.expect(200)?;
        status["pendingInteractions"].as_array().into_iter().flatten().map(Asked::read).collect()
    }

    /// Waits until so many can be.
    pub(crate) fn wait_asked(
        &self,
        http: &mut Connection,
        session: &Session,
        count: usize,
    ) -> anyhow::Result<Vec<Asked>> {
        let since = Instant::now();
        loop {
            let asked = self.asked(http, session)?;
            if asked.len() == count {
                return Ok(asked);
            }
            if since.elapsed() > PATIENCE {
                let status = http.get(&format!("/session/{}/status", session.id))?;
                bail!(
                    "{} questions of {} are asked, not {count}: {}",
                    asked.len(),
                    session.id,
                    String::from_utf8_lossy(&status.body)
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After a `kill` this finds nothing, and that is well.
        let _ = self.end(true);
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// A process that is stopped until this is dropped.
pub(crate) struct Paused(u32);

impl Paused {
    pub(crate) fn new(pid: u32) -> Self {
        signal(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        signal(self.0, Signal::CONT);
    }
}

/// Waits until a process that is not our child has gone.
pub(crate) fn gone(pid: u32) -> anyhow::Result<()> {
    let since = Instant::now();
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    while test_kill_process(raw).is_ok() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if status.contains("State:\tZ") {
            break;
        }
        if since.elapsed() > PATIENCE {
            bail!("the process {pid} does not end");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
