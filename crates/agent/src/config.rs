//! What an agent process is started with.

use camino::Utf8PathBuf;

use crate::provider::ModelConfig;
use crate::tools::{ApprovalMode, Limits};

/// The settings of one agent process.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Where transcripts are kept (in `sessions/`).
    pub data_dir: Utf8PathBuf,
    /// The flag `--restore-ask-user-question` (E1, S1).
    pub restore: bool,
    /// The model.
    pub model: ModelConfig,
    /// The approval mode of a session that names none.
    pub approval_mode: ApprovalMode,
    /// How often one turn may call the model.
    pub max_steps: u32,
    /// What tools may take.
    pub limits: Limits,
    /// The version of the program, for `initialize` and transcripts.
    pub version: String,
}

impl AgentConfig {
    /// How often a turn calls the model unless told otherwise: more than honest work takes, and an end to a
    /// model that runs in circles.
    pub const MAX_STEPS: u32 = 100;
}
