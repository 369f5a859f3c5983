//! What the tests share: a host with one fake agent, and a session of it.

#![expect(clippy::unwrap_used, reason = "a test may panic wherever something is not as it should be")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holdpoint_acp_host::{AcpAgents, AgentCommand, HostConfig, Limits, Restore};
use holdpoint_engine::port::{
    Agent, AgentError, AgentPrompt, Agents, Exit, FromAgent, NewSession, PromptEnd, PromptKind, Respond,
    TakeUp,
};
use holdpoint_model::ids::{PromptId, SessionId};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Long enough for any machine: a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Host {
    pub(crate) agents: AcpAgents,
    pub(crate) dir: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new(flags: &[&str]) -> Self {
        Self::with(flags, |_| {})
    }

    pub(crate) fn with(flags: &[&str], change: impl FnOnce(&mut HostConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/processes/fake_agent.py");
        let mut args = vec![script.to_str().unwrap().to_owned()];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let env = BTreeMap::from([
            ("RECORD".to_owned(), dir.path().join("record").to_str().unwrap().to_owned()),
            ("MY_SECRET".to_owned(), "swordfish-12345".to_owned()),
        ]);
        let command = AgentCommand {
            program: "python3".into(),
            args,
            env,
            env_remove: Vec::new(),
            restore: Restore::Native,
        };
        let mut config = HostConfig {
            agents: BTreeMap::from([("fake".to_owned(), command)]),
            client_version: "1.2.3".into(),
            limits: Limits::default(),
        };
        change(&mut config);
        Self { agents: AcpAgents::new(config), dir }
    }

    pub(crate) fn cwd(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    pub(crate) async fn try_connect(&self) -> Result<Arc<dyn Agent>, AgentError> {
        within(self.agents.connect("fake", self.cwd())).await
    }

    pub(crate) async fn connect(&self) -> Arc<dyn Agent> {
        self.try_connect().await.unwrap()
    }

    pub(crate) async fn failure(&self) -> String {
        match self.try_connect().await {
            Ok(_) => panic!("it started"),
            Err(AgentError::Start(text) | AgentError::StartTimedOut { message: text, .. }) => text,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// What the agent received, and how it ended.
    pub(crate) fn record(&self) -> Vec<String> {
        let path: PathBuf = self.dir.path().join("record");
        std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The messages in the record.
    pub(crate) fn received(&self) -> Vec<Value> {
        self.record().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

pub(crate) fn session_id(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub(crate) fn take_up(host: &Host, id: &str) -> TakeUp {
    TakeUp {
        session: session_id(id),
        cwd: host.cwd().to_owned(),
        suppress: false,
        stored: Vec::new(),
        replay: false,
        approval_mode: None,
    }
}

pub(crate) fn new_session(host: &Host, id: &str) -> NewSession {
    NewSession { session: session_id(id), cwd: host.cwd().to_owned(), approval_mode: None }
}

/// A session and the messages of it.
pub(crate) struct Session {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) id: SessionId,
    pub(crate) inbox: mpsc::Receiver<FromAgent>,
}

impl Session {
    /// A new one, after the updates that the fake agent sends of every new session.
    pub(crate) async fn start(host: &Host, agent: &Arc<dyn Agent>, id: &str, room: usize) -> Self {
        let (sink, inbox) = mpsc::channel(room);
        let taken = within(agent.new_session(new_session(host, id), sink)).await.unwrap();
        let mut session = Self { agent: Arc::clone(agent), id: taken.session.unwrap(), inbox };
        assert_eq!(session.text().await, "early");
        assert_eq!(session.text().await, "after");
        session
    }

    pub(crate) fn prompt(&self, id: &str, script: &str) {
        self.send(id, PromptKind::Client { blocks: vec![json!({ "type": "text", "text": script })] });
    }

    pub(crate) fn send(&self, id: &str, kind: PromptKind) {
        self.agent.prompt(AgentPrompt {
            session: self.id.clone(),
            prompt: PromptId::new(id).unwrap(),
            client: Some("client-1".into()),
            kind,
        });
    }

    pub(crate) async fn next(&mut self) -> FromAgent {
        within(self.inbox.recv()).await.expect("the sink was dropped")
    }

    pub(crate) async fn text(&mut self) -> String {
        match self.next().await {
            FromAgent::Update(update) => update["content"]["text"].as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn ask(&mut self) -> (Value, Box<dyn Respond>) {
        match self.next().await {
            FromAgent::Ask { params, responder } => (params, responder),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn ended(&mut self) -> (String, Result<PromptEnd, AgentError>) {
        match self.next().await {
            FromAgent::PromptEnded { prompt, end } => (prompt.as_str().to_owned(), end),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn gone(&mut self) -> Exit {
        let exit = match self.next().await {
            FromAgent::Gone(exit) => exit,
            other => panic!("{other:?}"),
        };
        assert!(within(self.inbox.recv()).await.is_none(), "nothing follows the end of the process");
        exit
    }
}

/// Whether a process lives, not counting one that only waits to be reaped.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// Waits until a process that nobody here can wait for is dead: a signal takes its time.
pub(crate) async fn dies(pid: &str) {
    within(async {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
