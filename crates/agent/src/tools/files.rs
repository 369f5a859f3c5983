//! `read_file`, `write_file` and `edit`.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use super::args::Args;
use super::paths::{self, Place};
use super::{Limits, ToolError};

/// Lines that `read_file` gives when the model does not say.
const LINES: u64 = 2000;
/// Largest text that a preview shows whole; beyond it only the place that changes is shown.
const PREVIEW: usize = 256 * 1024;

/// What `read_file` reads.
#[derive(Clone, Debug)]
pub(crate) struct ReadFile {
    pub(crate) place: Place,
    /// Lines left out at the start.
    pub(crate) offset: u64,
    pub(crate) limit: u64,
}

impl ReadFile {
    pub(crate) fn plan(workspace: &Utf8Path, args: Args<'_>) -> Result<Self, ToolError> {
        let path = args.filled(&["absolute_path", "file_path", "path"])?;
        let offset = args.number(&["offset"])?.unwrap_or(0);
        let limit = args.number(&["limit"])?.unwrap_or(LINES);
        if limit == 0 {
            return Err(args.invalid("\"limit\" must be at least 1"));
        }
        Ok(Self { place: Place::resolve(workspace, path)?, offset, limit })
    }

    pub(crate) fn run(&self, limits: &Limits) -> Result<String, ToolError> {
        self.place.check()?;
        let text = read_text(&self.place.real, limits)?;
        if text.is_empty() {
            return Ok("[the file is empty]".to_owned());
        }
        let total = text.lines().count() as u64;
        if self.offset >= total {
            return Ok(format!(
                "[the file has only {total} lines; offset {} is beyond its end]",
                self.offset
            ));
        }
        let mut out = String::new();
        let mut last = self.offset;
        let skip = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let take = usize::try_from(self.limit).unwrap_or(usize::MAX);
        for line in text.split_inclusive('\n').skip(skip).take(take) {
            if out.len() + line.len() > limits.output_bytes {
                if out.is_empty() {
                    out.push_str(cut(line, limits.output_bytes));
                    out.push_str("… [the line goes on]\n");
                    last += 1;
                }
                break;
            }
            out.push_str(line);
            last += 1;
        }
        if last < total || self.offset > 0 {
            let more = if last < total { format!("; go on with offset {last}") } else { String::new() };
            if !out.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(&format!("[lines {} to {last} of {total}{more}]", self.offset + 1));
        }
        Ok(out)
    }
}

/// What `write_file` writes.
#[derive(Clone, Debug)]
pub(crate) struct WriteFile {
    pub(crate) place: Place,
    content: String,
}

impl WriteFile {
    pub(crate) fn plan(workspace: &Utf8Path, args: Args<'_>) -> Result<Self, ToolError> {
        let path = args.filled(&["file_path", "absolute_path", "path"])?;
        let content = args.required(&["content", "contents", "text"])?.to_owned();
        let place = Place::resolve(workspace, path)?;
        if !place.outside {
            writable(&place.real)?;
        }
        Ok(Self { place, content })
    }

    pub(crate) fn preview(&self, limits: &Limits) -> Value {
        let old = read_text(&self.place.real, limits).ok().filter(|old| old.len() <= PREVIEW);
        diff(&self.place.real, old.as_deref(), cut(&self.content, PREVIEW))
    }

    pub(crate) fn run(&self, workspace: &Utf8Path) -> Result<String, ToolError> {
        self.place.check()?;
        writable(&self.place.real)?;
        let existed = self.place.real.exists();
        write_atomically(&self.place.real, self.content.as_bytes())?;
        let shown = self.place.shown(workspace);
        let lines = self.content.lines().count();
        Ok(format!(
            "{} {shown} ({lines} lines, {} bytes)",
            if existed { "Overwrote" } else { "Created" },
            self.content.len()
        ))
    }
}

/// What `edit` replaces.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) place: Place,
    old: String,
    new: String,
    all: bool,
}

impl Edit {
    pub(crate) fn plan(workspace: &Utf8Path, args: Args<'_>, limits: &Limits) -> Result<Self, ToolError> {
        let path = args.filled(&["file_path", "absolute_path", "path"])?;
        let edit = Self {
            place: Place::resolve(workspace, path)?,
            old: args.required(&["old_string", "old_str"])?.to_owned(),
            new: args.required(&["new_string", "new_str"])?.to_owned(),
            all: args.truth(&["replace_all"])?,
        };
        if edit.old == edit.new {
            return Err(
                args.invalid("\"old_string\" and \"new_string\" are the same, so nothing would change")
            );
        }
        // A file outside the workspace is not looked into before a person has agreed: the error would tell of it.
        if !edit.place.outside {
            edit.apply(limits)?;
        }
        Ok(edit)
    }

    pub(crate) fn preview(&self, limits: &Limits) -> Value {
        match self.apply(limits) {
            Ok((old, new, _)) if old.len() <= PREVIEW && new.len() <= PREVIEW => {
                let old = (!self.creates()).then_some(old.as_str());
                diff(&self.place.real, old, &new)
            }
            _ => diff(&self.place.real, Some(cut(&self.old, PREVIEW)), cut(&self.new, PREVIEW)),
        }
    }

    pub(crate) fn run(&self, workspace: &Utf8Path, limits: &Limits) -> Result<String, ToolError> {
        self.place.check()?;
        let (_, new, count) = self.apply(limits)?;
        writable(&self.place.real)?;
        write_atomically(&self.place.real, new.as_bytes())?;
        let shown = self.place.shown(workspace);
        Ok(match count {
            0 => format!("Created {shown}"),
            1 => format!("Replaced the text in {shown}"),
            count => format!("Replaced the text in {shown}, {count} times"),
        })
    }

    /// An empty text to replace makes a new file.
    fn creates(&self) -> bool {
        self.old.is_empty()
    }

    /// Old and new text of the file, and how many places change.
    fn apply(&self, limits: &Limits) -> Result<(String, String, usize), ToolError> {
        let path = &self.place.real;
        if self.creates() {
            return match path.symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Ok((String::new(), self.new.clone(), 0))
                }
                Err(error) => Err(ToolError::io("look at", path, &error)),
                Ok(_) => Err(ToolError::WrongKind {
                    path: path.clone(),
                    found: "already there",
                    wanted: "an empty old_string makes a new file; give the text to replace, or use write_file",
                }),
            };
        }
        let text = read_text(path, limits)?;
        let mut old = std::borrow::Cow::from(&self.old);
        let mut new = std::borrow::Cow::from(&self.new);
        let mut count = text.matches(old.as_ref()).count();
        if count == 0 && text.contains("\r\n") && !old.contains('\r') {
            // Models write \n; a file with \r\n keeps its line ends.
            old = old.replace('\n', "\r\n").into();
            new = new.replace("\r\n", "\n").replace('\n', "\r\n").into();
            count = text.matches(old.as_ref()).count();
        }
        match count {
            0 => {
                let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                let hint = if squeezed(&text).contains(&squeezed(&self.old)) {
                    " (the same words are there with other whitespace)"
                } else {
                    ""
                };
                Err(ToolError::NoMatch { path: path.clone(), hint })
            }
            count if count > 1 && !self.all => Err(ToolError::Ambiguous { path: path.clone(), count }),
            count => {
                let size =
                    (text.len() - count * old.len()) as u64 + (count as u64).saturating_mul(new.len() as u64);
                if size > limits.file_bytes.max(text.len() as u64) {
                    return Err(ToolError::TooLarge { path: path.clone(), size, limit: limits.file_bytes });
                }
                let replaced = text.replace(old.as_ref(), new.as_ref());
                Ok((text, replaced, count))
            }
        }
    }
}

/// The start of a text that fits, cut between characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

fn diff(path: &Utf8Path, old: Option<&str>, new: &str) -> Value {
    json!({ "type": "diff", "path": path, "oldText": old, "newText": new })
}

fn writable(path: &Utf8Path) -> Result<(), ToolError> {
    match path.metadata() {
        Ok(meta) if meta.is_dir() => Err(ToolError::WrongKind {
            path: path.to_owned(),
            found: "a directory",
            wanted: "give the path of a file in it",
        }),
        Ok(meta) if !meta.is_file() => Err(ToolError::WrongKind {
            path: path.to_owned(),
            found: "a device, pipe or socket",
            wanted: "only ordinary files can be written",
        }),
        Ok(meta) if meta.permissions().readonly() => Err(ToolError::WrongKind {
            path: path.to_owned(),
            found: "read-only",
            wanted: "leave it, or ask whether its mode may be changed",
        }),
        _ => Ok(()),
    }
}

/// Reads a whole text file.
fn read_text(path: &Utf8Path, limits: &Limits) -> Result<String, ToolError> {
    let meta = path.metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => paths::not_found(path),
        _ => ToolError::io("read", path, &error),
    })?;
    if meta.is_dir() {
        return Err(ToolError::WrongKind {
            path: path.to_owned(),
            found: "a directory",
            wanted: "use list_directory for it",
        });
    }
    if !meta.is_file() {
        return Err(ToolError::WrongKind {
            path: path.to_owned(),
            found: "a device, pipe or socket",
            wanted: "only ordinary files can be read",
        });
    }
    let limit = limits.file_bytes;
    if meta.len() > limit {
        return Err(ToolError::TooLarge { path: path.to_owned(), size: meta.len(), limit });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| ToolError::io("read", path, &error))?;
    // The size may lie (a file that grows, /proc), so the reading has a limit of its own.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| ToolError::io("read", path, &error))?;
    if bytes.len() as u64 > limit {
        return Err(ToolError::TooLarge { path: path.to_owned(), size: bytes.len() as u64, limit });
    }
    if bytes.contains(&0) {
        return Err(ToolError::Binary { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| ToolError::Binary { path: path.to_owned() })
}

/// Writes a file so that it is there whole or not at all, with the mode that it had. Missing directories are made.
fn write_atomically(path: &Utf8Path, bytes: &[u8]) -> Result<(), ToolError> {
    let write = || {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(parent)?;
        let mut temporary = Temporary::create(parent)?;
        temporary.file.write_all(bytes)?;
        if let Ok(meta) = path.metadata() {
            temporary.file.set_permissions(meta.permissions())?;
        }
        temporary.file.sync_all()?;
        fs::rename(&temporary.path, path)?;
        temporary.renamed = true;
        Ok(())
    };
    write().map_err(|error: io::Error| ToolError::io("write", path, &error))
}

/// A file beside the one that is written, removed unless it was renamed.
struct Temporary {
    file: File,
    path: Utf8PathBuf,
    renamed: bool,
}

impl Temporary {
    fn create(parent: &Utf8Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let nth = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!(".holdpoint-{}-{nth}.tmp", std::process::id()));
            match File::options().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, renamed: false }),
                // Left by an earlier process of the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}
