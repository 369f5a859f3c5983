//! What models are told about the tools.

use serde_json::{Value, json};

use super::Limits;
use crate::provider::ToolSpec;

pub(crate) const READ_FILE: &str = "read_file";
pub(crate) const WRITE_FILE: &str = "write_file";
pub(crate) const EDIT: &str = "edit";
pub(crate) const LIST_DIRECTORY: &str = "list_directory";
pub(crate) const GLOB: &str = "glob";
pub(crate) const GREP_SEARCH: &str = "grep_search";
pub(crate) const RUN_SHELL_COMMAND: &str = "run_shell_command";

/// Every tool.
pub(crate) const NAMES: [&str; 7] =
    [READ_FILE, WRITE_FILE, EDIT, LIST_DIRECTORY, GLOB, GREP_SEARCH, RUN_SHELL_COMMAND];

/// A tool's properties as (name, type, description, required).
fn spec(name: &str, description: &str, properties: &[(&str, &str, &str, bool)]) -> ToolSpec {
    let described: serde_json::Map<String, Value> = properties
        .iter()
        .map(|(name, kind, text, _)| ((*name).to_owned(), json!({ "type": kind, "description": text })))
        .collect();
    let required: Vec<_> =
        properties.iter().filter(|(.., required)| *required).map(|(name, ..)| *name).collect();
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({ "type": "object", "properties": described, "required": required }),
    }
}

/// The tools as they are offered.
pub(crate) fn specs(limits: &Limits) -> Vec<ToolSpec> {
    let path = "Absolute, or relative to the workspace.";
    let time = limits.command_time.as_millis();
    let time_max = limits.command_time_max.as_millis();
    vec![
        spec(
            READ_FILE,
            "Reads a text file. Long files come in parts: go on with a larger offset.",
            &[
                ("file_path", "string", path, true),
                ("offset", "integer", "Lines to leave out at the start; 0 by default.", false),
                ("limit", "integer", "Most lines to read; 2000 by default.", false),
            ],
        ),
        spec(
            WRITE_FILE,
            "Writes a whole file, over an existing one too. Missing directories are made. Prefer edit for small changes.",
            &[("file_path", "string", path, true), ("content", "string", "The whole new content.", true)],
        ),
        spec(
            EDIT,
            "Replaces a piece of text in a file. old_string must be in the file exactly as given, whitespace included, and only \
             once, unless replace_all is true. Read the file first. An empty old_string makes a new file.",
            &[
                ("file_path", "string", path, true),
                (
                    "old_string",
                    "string",
                    "The text to replace, with enough lines around it to be unique.",
                    true,
                ),
                ("new_string", "string", "The text to put in its place.", true),
                ("replace_all", "boolean", "Replace every occurrence; false by default.", false),
            ],
        ),
        spec(
            LIST_DIRECTORY,
            "Lists one directory: directories end in /, symbolic links in @.",
            &[("path", "string", path, true)],
        ),
        spec(
            GLOB,
            "Finds files by a pattern such as **/*.rs or src/**/test_*.py, newest first. Files that .gitignore names are left out.",
            &[
                (
                    "pattern",
                    "string",
                    "Relative to the searched directory. * stays within one directory, ** does not.",
                    true,
                ),
                ("path", "string", "The directory to search; the workspace by default.", false),
            ],
        ),
        spec(
            GREP_SEARCH,
            "Searches the contents of files with a regular expression, line by line. Binary files and files that .gitignore names \
             are left out.",
            &[
                ("pattern", "string", "The regular expression (Rust syntax).", true),
                ("path", "string", "The file or directory to search; the workspace by default.", false),
                ("glob", "string", "Only files that match, as *.ts or src/**/*.rs.", false),
                ("case_sensitive", "boolean", "Whether case matters; false by default.", false),
                ("limit", "integer", "Most matching lines; 500 by default.", false),
            ],
        ),
        spec(
            RUN_SHELL_COMMAND,
            &format!(
                "Runs a command with bash -c in the workspace and gives its output and exit code. No input, no terminal. It ends after \
                 {time} ms unless \"timeout\" says otherwise, and everything that it started ends with it, so nothing can run in the \
                 background."
            ),
            &[
                ("command", "string", "The command.", true),
                (
                    "description",
                    "string",
                    "What it is for, in a few words, for the person who allows it.",
                    false,
                ),
                ("directory", "string", "Where to run it; the workspace by default.", false),
                ("timeout", "integer", &format!("Time limit in milliseconds, at most {time_max}."), false),
                ("is_background", "boolean", "Must be false.", false),
            ],
        ),
    ]
}
