//! The tools that work on the workspace: what is offered to the model, what a call would do, and doing it.
//!
//! A call is planned first: its arguments are read, its paths resolved, its effects named. Only then is it
//! decided whether it may run ([`approval::decide`]), and a plan runs once. `ask_user_question` is not here: it
//! belongs to the turn.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::provider::ToolSpec;

pub mod approval;
mod error;

pub use approval::{ApprovalMode, Effects, Verdict};
pub use error::ToolError;

/// How much a tool may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest file that is read or edited, in bytes.
    pub file_bytes: u64,
    /// Most bytes of text that one result gives the model.
    pub output_bytes: usize,
    /// How long a command may run when it does not say.
    pub command_time: std::time::Duration,
    /// How long a command may ask for.
    pub command_time_max: std::time::Duration,
    /// How long a command has between SIGTERM and SIGKILL.
    pub command_grace: std::time::Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 10 * 1024 * 1024,
            output_bytes: 64 * 1024,
            command_time: std::time::Duration::from_secs(120),
            command_time_max: std::time::Duration::from_secs(600),
            command_grace: std::time::Duration::from_millis(500),
        }
    }
}

/// The tools of one workspace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tools {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    workspace: Utf8PathBuf,
    limits: Limits,
}

/// A place that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The absolute path.
    pub path: Utf8PathBuf,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// A call that could run: everything that a person must see to allow it.
#[derive(Clone, Debug)]
pub struct PlannedCall {
    /// The tool's name.
    pub tool: &'static str,
    /// What it would do, in a line.
    pub title: String,
    /// The kind as ACP names it: `read`, `edit`, `search`, `execute`.
    pub kind: &'static str,
    /// The places that it touches.
    pub locations: Vec<Location>,
    /// Content to show with it, as ACP tool call content (a diff for edits).
    pub content: Vec<Value>,
    /// What it does to the world.
    pub effects: Effects,
    /// A path of it lies outside the workspace.
    pub outside_workspace: bool,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// What the model reads.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// What a person is shown, as ACP tool call content.
    pub content: Vec<Value>,
}

impl Tools {
    /// The tools of a workspace, an absolute path. Symbolic links in it are resolved if it exists.
    pub fn new(workspace: Utf8PathBuf, limits: Limits) -> Self {
        let workspace = workspace.canonicalize_utf8().unwrap_or(workspace);
        Self { inner: Arc::new(Inner { workspace, limits }) }
    }

    /// The workspace, resolved.
    pub fn workspace(&self) -> &Utf8Path {
        &self.inner.workspace
    }

    /// What the model is offered.
    pub fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// Reads a call: what it would do, without doing it. Runs off the async threads, since it looks at files.
    ///
    /// # Errors
    /// The call cannot run; the text of the error is for the model.
    pub async fn plan(&self, name: &str, args: &Value) -> Result<PlannedCall, ToolError> {
        let _ = args;
        Err(ToolError::UnknownTool { name: name.to_owned(), available: Vec::new() })
    }

    /// Runs a planned call. Cancelling the token or dropping the future stops it, its processes included.
    pub async fn run(&self, planned: PlannedCall, cancel: CancellationToken) -> ToolResult {
        let _ = (planned, cancel, &self.inner.limits);
        ToolResult { text: String::new(), is_error: true, content: Vec::new() }
    }
}
