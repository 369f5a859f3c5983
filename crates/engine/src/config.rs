//! What the engine is set to.

use std::time::Duration;

use camino::Utf8PathBuf;
use holdpoint_model::policy::Strategy;

/// The engine's settings.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where transcripts are.
    pub data_dir: Utf8PathBuf,
    /// The workspace for requests that name none: an absolute path.
    pub workspace: String,
    /// The agent for sessions that name none.
    pub agent: String,
    /// `--restore-ask-user-question` (S1).
    pub restore: bool,
    /// Who may answer (V2).
    pub strategy: Strategy,
    /// The quorum of a consensus.
    pub quorum: Option<usize>,
    /// How long a question is asked; `None` is for ever.
    pub ask_timeout: Option<Duration>,
    /// How long a turn may take unless its prompt says otherwise, in milliseconds.
    pub prompt_deadline_ms: Option<u64>,
    /// After how long an open question that no surface has shown is warned of (D4); `None` is never.
    pub unseen_after: Option<Duration>,
    /// How long an agent may be silent over a question call that nobody can answer, before the call is closed (H14).
    pub lost_after: Duration,
    /// After how long an attached client that neither reads the stream nor does anything no longer counts as there.
    pub away_after: Duration,
    /// Frames that a session keeps for readers who come back.
    pub ring_size: usize,
    /// Prompts that a session may hold, the running one counted.
    pub max_prompts: Option<usize>,
    /// Sessions that may be live at a time; `None` is no limit. An answer to a stored session's question wakes
    /// it all the same: what a person decided is not refused for want of room.
    pub max_sessions: Option<usize>,
    /// How long taking up a stored session may last.
    pub take_up_timeout: Duration,
    /// After how long without anything a session that nobody reads is put away; `None` is never.
    pub idle_timeout: Option<Duration>,
}

impl EngineConfig {
    /// The settings that a daemon has unless told otherwise.
    pub fn new(data_dir: Utf8PathBuf, workspace: String) -> Self {
        Self {
            data_dir,
            workspace,
            agent: "holdpoint".to_owned(),
            restore: false,
            strategy: Strategy::FirstResponder,
            quorum: None,
            ask_timeout: None,
            prompt_deadline_ms: None,
            unseen_after: Some(Duration::from_secs(30)),
            lost_after: Duration::from_secs(10),
            away_after: Duration::from_secs(60),
            ring_size: 8000,
            max_prompts: Some(5),
            max_sessions: None,
            take_up_timeout: Duration::from_secs(60),
            idle_timeout: Some(Duration::from_secs(30 * 60)),
        }
    }
}
