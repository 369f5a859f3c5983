//! Why a call did not do what the model wanted. Every text is for the model: what was wrong, what to do.

use camino::Utf8PathBuf;

/// Why a call cannot run, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// There is no such tool.
    #[error("there is no tool {name:?}; the tools are: {}", available.join(", "))]
    UnknownTool {
        /// What was called.
        name: String,
        /// What can be called.
        available: Vec<String>,
    },
    /// The arguments are not JSON, or not what the tool takes.
    #[error("invalid arguments of {tool}: {problem}")]
    Arguments {
        /// The tool.
        tool: &'static str,
        /// What is wrong, and what is wanted.
        problem: String,
    },
    /// There is nothing at the path.
    #[error("there is no file or directory {path}{}", hint(near))]
    NotFound {
        /// The path.
        path: Utf8PathBuf,
        /// Names in the same directory that look alike.
        near: Vec<String>,
    },
    /// The path is not of the wanted kind.
    #[error("{path} is {found}; {wanted}")]
    WrongKind {
        /// The path.
        path: Utf8PathBuf,
        /// What it is.
        found: &'static str,
        /// What to do instead.
        wanted: &'static str,
    },
    /// The file is not text.
    #[error(
        "{path} is not a text file, so it cannot be shown or edited; use run_shell_command with a program that knows its format"
    )]
    Binary {
        /// The path.
        path: Utf8PathBuf,
    },
    /// The file is too large.
    #[error(
        "{path} has {size} bytes, more than the {limit} that can be handled; use grep_search to find the place, or run_shell_command"
    )]
    TooLarge {
        /// The path.
        path: Utf8PathBuf,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The text to replace is not in the file.
    #[error(
        "old_string is not in {path}; read the file again and copy the text exactly, with its whitespace{hint}"
    )]
    NoMatch {
        /// The path.
        path: Utf8PathBuf,
        /// What else can be said.
        hint: &'static str,
    },
    /// The text to replace is there more than once.
    #[error(
        "old_string is {count} times in {path}; add lines around it until it is unique, or set replace_all to true"
    )]
    Ambiguous {
        /// The path.
        path: Utf8PathBuf,
        /// How often.
        count: usize,
    },
    /// A pattern cannot be read.
    #[error("the pattern {pattern:?} is not valid: {problem}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What the path means is not what it meant when the call was allowed.
    #[error("{path} changed between the moment that this call was allowed and now; call the tool again")]
    Moved {
        /// The path.
        path: Utf8PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}: {problem}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: Utf8PathBuf,
        /// What the system said.
        problem: String,
    },
    /// The call was cancelled.
    #[error("the call was cancelled before it had finished")]
    Cancelled,
    /// A bug of ours, told instead of a crash.
    #[error("the tool failed in an unexpected way; try another way")]
    Internal,
}

impl ToolError {
    /// An error of the operating system.
    pub(crate) fn io(action: &'static str, path: &camino::Utf8Path, error: &std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), problem: error.to_string() }
    }
}

fn hint(near: &[String]) -> String {
    if near.is_empty() {
        "; use list_directory or glob to find the right path".to_owned()
    } else {
        format!("; did you mean {}?", near.join(" or "))
    }
}
