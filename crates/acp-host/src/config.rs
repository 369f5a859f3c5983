//! What the host is told by the binary.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How agents are started and how far they are trusted.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The agents by name.
    pub agents: BTreeMap<String, AgentCommand>,
    /// Our version, as told to agents.
    pub client_version: String,
    /// Bounds.
    pub limits: Limits,
}

/// How one agent is started. Its `Debug` form leaves out the values of the environment, which may be keys.
#[derive(Clone, Default)]
pub struct AgentCommand {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: String,
    /// Its arguments, the ones that switch restore on among them.
    pub args: Vec<String>,
    /// What is set in its environment on top of our own.
    pub env: BTreeMap<String, String>,
    /// What is taken out of the environment that it inherits, such as our own token.
    pub env_remove: Vec<String>,
    /// Whether it can ask stored questions again.
    pub restore: Restore,
}

impl fmt::Debug for AgentCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.keys())
            .field("env_remove", &self.env_remove)
            .field("restore", &self.restore)
            .finish()
    }
}

/// Whether an agent asks the stored questions of a session again (R5, R6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restore {
    /// It does, and hints at it when a session is taken up.
    Native,
    /// It does not, or shall not: every take-up is suppressed, and a hint is not believed.
    #[default]
    Off,
}

/// Bounds of what one agent process may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest line of ACP, in bytes. A longer one ends the process: what it was cannot be known, and a
    /// request or an answer may have been in it.
    pub max_frame: usize,
    /// How many lines that are no JSON-RPC an agent may print in a row. Libraries that print to stdout are
    /// common, so a few are skipped; more mean that it does not speak ACP.
    pub max_garbage: u32,
    /// How many requests of an agent may wait for people at once. A session has a handful.
    pub max_open_requests: usize,
    /// How many answers may wait for an agent that does not read them.
    pub max_unsent_answers: usize,
    /// How much of a replay is kept, in bytes of text (about). Older updates are dropped first.
    pub max_replay: usize,
    /// For `initialize`, from the start of the process.
    pub initialize: Duration,
    /// For every other request but prompts, which people may make wait for days.
    pub request: Duration,
    /// How long our own agent has to end on SIGTERM before it is killed.
    pub term_grace: Duration,
    /// How long `stop` waits for all processes together.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 64 * 1024 * 1024,
            max_garbage: 100,
            // A session asks 64 things at most, so this is a thousand sessions that all do.
            max_open_requests: 65_536,
            max_unsent_answers: 65_536,
            max_replay: 128 * 1024 * 1024,
            initialize: Duration::from_secs(30),
            request: Duration::from_secs(60),
            term_grace: Duration::from_millis(500),
            stop: Duration::from_secs(2),
        }
    }
}
