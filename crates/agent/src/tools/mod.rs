//! The tools that work on the workspace: what is offered to the model, what a call would do, and doing it.
//!
//! A call is planned first: its arguments are read, its paths resolved, its effects named. Only then is it
//! decided whether it may run ([`approval::decide`]), and a plan runs once. `ask_user_question` is not here: it
//! belongs to the turn.

use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::provider::ToolSpec;

pub mod approval;
mod args;
mod error;
mod files;
mod paths;
mod search;
mod shell;
mod specs;
mod watchdog;

pub use approval::{ApprovalMode, Effects, Verdict};
pub use error::ToolError;

use args::Args;
use files::{Edit, ReadFile, WriteFile};
use paths::Place;
use search::{Glob, Grep, ListDirectory};
use shell::Shell;

/// How much a tool may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest file that is read or edited, in bytes.
    pub file_bytes: u64,
    /// Most bytes of text that one result gives the model.
    pub output_bytes: usize,
    /// How long a command may run when it does not say.
    pub command_time: Duration,
    /// How long a command may ask for.
    pub command_time_max: Duration,
    /// How long a command has between SIGTERM and SIGKILL.
    pub command_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 10 * 1024 * 1024,
            output_bytes: 64 * 1024,
            command_time: Duration::from_secs(120),
            command_time_max: Duration::from_secs(600),
            command_grace: Duration::from_millis(500),
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
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Read(ReadFile),
    Write(WriteFile),
    Edit(Edit),
    List(ListDirectory),
    Glob(Glob),
    Grep(Grep),
    Shell(Shell),
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
        specs::specs(&self.inner.limits)
    }

    /// Whether a tool of this name is one of these.
    pub fn has(&self, name: &str) -> bool {
        specs::NAMES.contains(&name)
    }

    /// Reads a call: what it would do, without doing it. Runs off the async threads, since it looks at files.
    /// Nothing outside the workspace is read for the model, only for the preview that a person is shown.
    ///
    /// # Errors
    /// The call cannot run; the text of the error is for the model.
    pub async fn plan(&self, name: &str, args: &Value) -> Result<PlannedCall, ToolError> {
        let (inner, name, args) = (Arc::clone(&self.inner), name.to_owned(), args.clone());
        tokio::task::spawn_blocking(move || inner.plan(&name, &args))
            .await
            .map_err(|_| ToolError::Internal)?
    }

    /// Runs a planned call. Cancelling the token or dropping the future stops it, its processes included; a
    /// write that has begun is completed, so that what is reported is what happened.
    pub async fn run(&self, planned: PlannedCall, cancel: CancellationToken) -> ToolResult {
        let inner = Arc::clone(&self.inner);
        let PlannedCall { content, action, .. } = planned;
        let outcome = match action {
            Action::Shell(shell) => shell.run(&inner.limits, &cancel).await,
            action => {
                // Dropping this future ends a search that is under way.
                let cancel = cancel.child_token();
                let _guard = cancel.clone().drop_guard();
                let work = move || inner.act(&action, &cancel);
                match tokio::task::spawn_blocking(work).await {
                    Ok(outcome) => outcome.map(|text| (text, false)),
                    Err(_) => Err(ToolError::Internal),
                }
            }
        };
        match outcome {
            Ok((text, is_error)) => {
                // A diff stays what is shown of an edit; everything else shows what it gave.
                let is_diff = content.iter().any(|item| item["type"] == "diff");
                let content = if is_diff { content } else { vec![shown(&text)] };
                ToolResult { text, is_error, content }
            }
            Err(error) => {
                let text = error.to_string();
                ToolResult { content: vec![shown(&text)], text, is_error: true }
            }
        }
    }
}

fn shown(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

impl Inner {
    fn plan(&self, name: &str, args: &Value) -> Result<PlannedCall, ToolError> {
        let (workspace, limits) = (self.workspace.as_path(), &self.limits);
        let Some(tool) = specs::NAMES.into_iter().find(|known| *known == name) else {
            let available = specs::NAMES.iter().map(|name| (*name).to_owned()).collect();
            return Err(ToolError::UnknownTool { name: name.to_owned(), available });
        };
        let args = Args::new(tool, args)?;
        let at = |place: &Place, line: Option<u32>| vec![Location { path: place.real.clone(), line }];
        let plan = |title: String, kind, effects, place: &Place, action| PlannedCall {
            tool,
            title,
            kind,
            locations: at(place, None),
            content: Vec::new(),
            effects,
            outside_workspace: place.outside,
            action,
        };
        Ok(match tool {
            specs::READ_FILE => {
                let read = ReadFile::plan(workspace, args)?;
                let title = format!("Read {}", read.place.shown(workspace));
                let line = u32::try_from(read.offset.saturating_add(1)).ok().filter(|line| *line > 1);
                let locations = at(&read.place, line);
                let place = read.place.clone();
                PlannedCall { locations, ..plan(title, "read", Effects::Reads, &place, Action::Read(read)) }
            }
            specs::WRITE_FILE => {
                let write = WriteFile::plan(workspace, args)?;
                let title = format!("Write {}", write.place.shown(workspace));
                let (content, place) = (vec![write.preview(limits)], write.place.clone());
                PlannedCall { content, ..plan(title, "edit", Effects::Edits, &place, Action::Write(write)) }
            }
            specs::EDIT => {
                let edit = Edit::plan(workspace, args, limits)?;
                let title = format!("Edit {}", edit.place.shown(workspace));
                let (content, place) = (vec![edit.preview(limits)], edit.place.clone());
                PlannedCall { content, ..plan(title, "edit", Effects::Edits, &place, Action::Edit(edit)) }
            }
            specs::LIST_DIRECTORY => {
                let list = ListDirectory::plan(workspace, args)?;
                let (title, place) = (format!("List {}", list.place.shown(workspace)), list.place.clone());
                plan(title, "read", Effects::Reads, &place, Action::List(list))
            }
            specs::GLOB => {
                let glob = Glob::plan(workspace, args)?;
                let title = format!("Find {} in {}", glob.pattern, glob.place.shown(workspace));
                let place = glob.place.clone();
                plan(title, "search", Effects::Reads, &place, Action::Glob(glob))
            }
            specs::GREP_SEARCH => {
                let grep = Grep::plan(workspace, args)?;
                let title = format!("Search {} in {}", one_line(&grep.pattern), grep.place.shown(workspace));
                let place = grep.place.clone();
                plan(title, "search", Effects::Reads, &place, Action::Grep(grep))
            }
            // The names and this match are one list; what is left is the shell.
            _ => {
                let shell = Shell::plan(workspace, args, limits)?;
                let title = match &shell.description {
                    Some(why) if !why.trim().is_empty() => {
                        format!("{} ({})", one_line(&shell.command), one_line(why))
                    }
                    _ => one_line(&shell.command),
                };
                // The whole command is what a person agrees to, not the line that stands for it.
                let content = vec![shown(&format!("$ {}", shell.command))];
                let place = shell.place.clone();
                PlannedCall {
                    content,
                    ..plan(title, "execute", Effects::Executes, &place, Action::Shell(shell))
                }
            }
        })
    }

    fn act(&self, action: &Action, cancel: &CancellationToken) -> Result<String, ToolError> {
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let (workspace, limits) = (self.workspace.as_path(), &self.limits);
        match action {
            Action::Read(read) => read.run(limits),
            Action::Write(write) => write.run(workspace),
            Action::Edit(edit) => edit.run(workspace, limits),
            Action::List(list) => list.run(),
            Action::Glob(glob) => glob.run(cancel),
            Action::Grep(grep) => grep.run(limits, cancel),
            Action::Shell(_) => Err(ToolError::Internal),
        }
    }
}

/// A text on one line of bearable length.
fn one_line(text: &str) -> String {
    const LENGTH: usize = 120;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LENGTH) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
