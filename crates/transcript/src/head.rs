//! What a list of sessions shows of a stored one, from the first lines of its file.

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_model::ids::SessionId;

use crate::error::ReadError;
use crate::record::{self, Kind};
use crate::tail;

/// How much of a file is read for its head: the first prompt stands well inside it.
const HEAD: u64 = 256 * 1024;

/// The longest title, in characters: what a list has room for.
const TITLE: usize = 120;

/// The head of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The session, by the file's name.
    pub session: SessionId,
    /// The file.
    pub path: Utf8PathBuf,
    /// The workspace that it began in.
    pub cwd: Option<String>,
    /// When it began, as ISO 8601 text.
    pub created: Option<String>,
    /// When it was last written, in milliseconds since 1970.
    pub modified_millis: i64,
    /// The first prompt, in a line.
    pub title: Option<String>,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Reads the head of one transcript.
///
/// # Errors
/// There is no such file, its name is no session id, it is of a newer format, or the system refuses.
pub fn head(path: &Utf8Path) -> Result<Head, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let session = path
        .file_name()
        .and_then(|name| name.strip_suffix(".jsonl"))
        .and_then(|name| SessionId::new(name).ok())
        .ok_or_else(|| ReadError::NotFound { path: path.to_owned() })?;
    let file = tail::open(path)?;
    let metadata = file.metadata().map_err(io)?;
    let mut bytes = Vec::new();
    file.take(HEAD).read_to_end(&mut bytes).map_err(io)?;
    let modified_millis = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let mut head = Head {
        session,
        path: path.to_owned(),
        cwd: None,
        created: None,
        modified_millis,
        title: None,
        bytes: metadata.len(),
    };
    for line in bytes.split(|byte| *byte == b'\n') {
        let read = record::read_line(line);
        if let Some(found) = read.newer {
            return Err(ReadError::Newer { path: path.to_owned(), found });
        }
        for (_, record) in read.records {
            head.cwd = head.cwd.take().or(record.cwd);
            head.created = head.created.take().or(record.timestamp);
            if record.kind == Kind::User && record.subtype.is_none() {
                let message = record.message.iter().flat_map(|message| &message.parts);
                head.title = message.filter_map(|part| part.visible_text()).find_map(title);
            }
        }
        if head.title.is_some() {
            break;
        }
    }
    Ok(head)
}

/// The first line of a text that says something, cut to what a list has room for.
fn title(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().take(TITLE).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title)
}

/// The transcripts of a directory, those written last first. A file that cannot be read is left out and
/// logged; a directory that is not there is empty.
///
/// # Errors
/// The directory cannot be read.
pub fn list(directory: &Utf8Path) -> Result<Vec<Head>, ReadError> {
    let io = |source| ReadError::Io { path: directory.to_owned(), source };
    let entries = match directory.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut heads = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let is_session = name.strip_suffix(".jsonl").is_some_and(|name| SessionId::new(name).is_ok());
        if !is_session {
            continue;
        }
        match head(entry.path()) {
            Ok(head) => heads.push(head),
            Err(error) => tracing::warn!(%error, "a transcript is left out of the list"),
        }
    }
    heads.sort_by(|a, b| b.modified_millis.cmp(&a.modified_millis).then_with(|| b.session.cmp(&a.session)));
    Ok(heads)
}
