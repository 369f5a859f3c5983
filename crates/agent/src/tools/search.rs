//! `list_directory`, `glob` and `grep_search`, on the crates that ripgrep is made of.

use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;

use super::args::Args;
use super::files::cut;
use super::paths::{self, Place};
use super::{Limits, ToolError};

/// Most entries of a directory, or files of a glob, that one result names.
const ENTRIES: usize = 1000;
/// Most entries of a directory that are read to sort them.
const LISTED: usize = 100_000;
/// Most files that a glob keeps to sort them.
const GLOB_KEPT: usize = 50_000;
/// Most matching lines of one search.
const MATCHES: usize = 500;
/// Most characters of a matching line.
const LINE: usize = 500;

/// What `list_directory` lists.
#[derive(Clone, Debug)]
pub(crate) struct ListDirectory {
    pub(crate) place: Place,
}

impl ListDirectory {
    pub(crate) fn plan(workspace: &Utf8Path, args: Args<'_>) -> Result<Self, ToolError> {
        let path = args.text(&["path", "absolute_path", "directory"])?.unwrap_or(".");
        Ok(Self { place: Place::resolve(workspace, path)? })
    }

    pub(crate) fn run(&self) -> Result<String, ToolError> {
        self.place.check()?;
        let path = &self.place.real;
        directory(path)?;
        let entries = std::fs::read_dir(path).map_err(|error| ToolError::io("list", path, &error))?;
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        for entry in entries.take(LISTED) {
            let entry = entry.map_err(|error| ToolError::io("list", path, &error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(format!("{name}/")),
                Ok(kind) if kind.is_symlink() => files.push(format!("{name}@")),
                _ => files.push(name),
            }
        }
        directories.sort();
        files.sort();
        let total = directories.len() + files.len();
        if total == 0 {
            return Ok("[the directory is empty]".to_owned());
        }
        let mut lines: Vec<String> = directories.into_iter().chain(files).take(ENTRIES).collect();
        if total > lines.len() {
            lines.push(format!("[{} more entries; use glob to narrow down]", total - lines.len()));
        }
        Ok(lines.join("\n"))
    }
}

/// What `glob` finds.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    pub(crate) place: Place,
    pub(crate) pattern: String,
    matcher: GlobMatcher,
}

impl Glob {
    pub(crate) fn plan(workspace: &Utf8Path, args: Args<'_>) -> Result<Self, ToolError> {
        let place = Place::resolve(workspace, args.text(&["path", "directory"])?.unwrap_or("."))?;
        let given = args.filled(&["pattern", "glob"])?;
        // Models like to give the whole path; what lies under the searched directory is meant.
        let root = format!("{}/", place.real);
        let pattern = given.strip_prefix(&root).unwrap_or(given);
        if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return Err(ToolError::Pattern {
                pattern: given.to_owned(),
                problem: "it must be relative to the searched directory; name another directory in \"path\""
                    .to_owned(),
            });
        }
        let matcher = glob(pattern.strip_prefix("./").unwrap_or(pattern))?;
        Ok(Self { place, pattern: given.to_owned(), matcher })
    }

    pub(crate) fn run(&self, cancel: &CancellationToken) -> Result<String, ToolError> {
        self.place.check()?;
        let root = &self.place.real;
        directory(root)?;
        let mut found: Vec<(SystemTime, Utf8PathBuf)> = Vec::new();
        let mut more = false;
        for entry in walk(root) {
            alive(cancel)?;
            let Some((path, entry)) = file_of(entry) else { continue };
            if !path.strip_prefix(root).is_ok_and(|inner| self.matcher.is_match(inner)) {
                continue;
            }
            if found.len() == GLOB_KEPT {
                more = true;
                break;
            }
            let time =
                entry.metadata().ok().and_then(|meta| meta.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((time, path));
        }
        if found.is_empty() {
            return Ok(format!(
                "No files match {:?} (files that .gitignore names are left out).",
                self.pattern
            ));
        }
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let total = found.len();
        let mut lines: Vec<String> =
            found.into_iter().take(ENTRIES).map(|(_, path)| path.to_string()).collect();
        if total > lines.len() || more {
            lines.push(format!("[more than these {} files match; narrow the pattern]", lines.len()));
        }
        Ok(lines.join("\n"))
    }
}

/// What `grep_search` finds.
#[derive(Clone, Debug)]
pub(crate) struct Grep {
    pub(crate) place: Place,
    pub(crate) pattern: String,
    matcher: RegexMatcher,
    include: Option<GlobMatcher>,
    limit: usize,
}

impl Grep {
    pub(crate) fn plan(workspace: &Utf8Path, args: Args<'_>) -> Result<Self, ToolError> {
        let pattern = args.required(&["pattern", "query"])?;
        if pattern.is_empty() {
            return Err(args.invalid("\"pattern\" must not be empty"));
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(!args.truth(&["case_sensitive"])?)
            .line_terminator(Some(b'\n'))
            .build(pattern)
            .map_err(|error| ToolError::Pattern {
                pattern: pattern.to_owned(),
                problem: format!("{error}; it is a regular expression, so escape characters like ( [ {{ . * with a backslash"),
            })?;
        let include =
            args.text(&["glob", "include", "include_pattern"])?.filter(|text| !text.trim().is_empty());
        let limit = args.number(&["limit", "max_results"])?.and_then(|limit| usize::try_from(limit).ok());
        Ok(Self {
            place: Place::resolve(workspace, args.text(&["path", "directory"])?.unwrap_or("."))?,
            pattern: pattern.to_owned(),
            matcher,
            include: include.map(name_glob).transpose()?,
            limit: limit.unwrap_or(MATCHES).clamp(1, MATCHES),
        })
    }

    pub(crate) fn run(&self, limits: &Limits, cancel: &CancellationToken) -> Result<String, ToolError> {
        self.place.check()?;
        let root = &self.place.real;
        let meta = root.metadata().map_err(|_| paths::not_found(root))?;
        let mut lines = Lines {
            text: String::new(),
            count: 0,
            limit: self.limit,
            bytes: limits.output_bytes,
            full: false,
        };
        let mut searcher =
            SearcherBuilder::new().line_number(true).binary_detection(BinaryDetection::quit(0)).build();
        if meta.is_file() {
            let shown = self.place.given.to_string();
            self.search(&mut searcher, root, &shown, limits, &mut lines, cancel)?;
        } else {
            for entry in walk(root) {
                alive(cancel)?;
                if lines.full {
                    break;
                }
                let Some((path, _)) = file_of(entry) else { continue };
                let Ok(inner) = path.strip_prefix(root) else { continue };
                if self.include.as_ref().is_some_and(|include| !include.is_match(inner)) {
                    continue;
                }
                // A file that cannot be read is no reason to lose the others.
                let outcome = self.search(&mut searcher, &path, inner.as_str(), limits, &mut lines, cancel);
                if outcome == Err(ToolError::Cancelled) {
                    return Err(ToolError::Cancelled);
                }
            }
        }
        if lines.count == 0 {
            return Ok(format!(
                "No matches for {:?} in {root} (binary files and files that .gitignore names are left out).",
                self.pattern
            ));
        }
        let mut text = format!("{} matches in {root}:\n{}", lines.count, lines.text);
        if lines.full {
            text.push_str("[there are more matches; narrow the pattern, the path or \"glob\"]");
        }
        Ok(text)
    }

    fn search(
        &self,
        searcher: &mut Searcher,
        path: &Utf8Path,
        shown: &str,
        limits: &Limits,
        lines: &mut Lines,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        let too_large = path.metadata().is_ok_and(|meta| meta.len() > limits.file_bytes);
        if too_large {
            return Ok(());
        }
        let sink = Found { lines, shown, cancel };
        searcher
            .search_path(&self.matcher, path, sink)
            .map_err(|error| ToolError::io("search", path, &error))?;
        alive(cancel)
    }
}

/// The matching lines, as far as they fit.
struct Lines {
    text: String,
    count: usize,
    limit: usize,
    bytes: usize,
    full: bool,
}

struct Found<'a> {
    lines: &'a mut Lines,
    shown: &'a str,
    cancel: &'a CancellationToken,
}

impl Sink for Found<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, std::io::Error> {
        let lines = &mut *self.lines;
        if lines.count >= lines.limit || lines.text.len() >= lines.bytes {
            lines.full = true;
            return Ok(false);
        }
        let line = String::from_utf8_lossy(found.bytes());
        let line = line.trim_end_matches(['\n', '\r']);
        let number = found.line_number().unwrap_or(0);
        let short = cut(line, LINE);
        let more = if short.len() < line.len() { "…" } else { "" };
        lines.text.push_str(&format!("{}:{number}: {short}{more}\n", self.shown));
        lines.count += 1;
        Ok(!self.cancel.is_cancelled())
    }
}

fn alive(cancel: &CancellationToken) -> Result<(), ToolError> {
    if cancel.is_cancelled() { Err(ToolError::Cancelled) } else { Ok(()) }
}

fn directory(path: &Utf8Path) -> Result<(), ToolError> {
    match path.metadata() {
        Err(_) => Err(paths::not_found(path)),
        Ok(meta) if !meta.is_dir() => Err(ToolError::WrongKind {
            path: path.to_owned(),
            found: "a file",
            wanted: "use read_file for it",
        }),
        Ok(_) => Ok(()),
    }
}

/// Walks a tree as ripgrep does: ignore files count, in a repository or not; links are not followed, so the walk
/// never leaves the tree.
fn walk(root: &Utf8Path) -> ignore::Walk {
    WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build()
}

fn file_of(entry: Result<ignore::DirEntry, ignore::Error>) -> Option<(Utf8PathBuf, ignore::DirEntry)> {
    let entry = entry.ok()?;
    if !entry.file_type().is_some_and(|kind| kind.is_file()) {
        return None;
    }
    let path = Utf8PathBuf::from_path_buf(entry.path().to_owned()).ok()?;
    Some((path, entry))
}

fn glob(pattern: &str) -> Result<GlobMatcher, ToolError> {
    GlobBuilder::new(pattern).literal_separator(true).build().map(|glob| glob.compile_matcher()).map_err(
        |error| ToolError::Pattern { pattern: pattern.to_owned(), problem: error.kind().to_string() },
    )
}

/// A pattern for the files of a search: without a slash it means names in every directory.
fn name_glob(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let pattern = pattern.trim_start_matches("./");
    if pattern.contains('/') { glob(pattern) } else { glob(&format!("**/{pattern}")) }
}
