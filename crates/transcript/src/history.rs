//! What a model is sent: the messages on the path from the root to the last record.

use std::collections::BTreeSet;

use camino::Utf8Path;
use holdpoint_model::ids::CallId;
use holdpoint_model::restore::Entry;
use serde_json::Value;

use crate::chain::{self, ChainError};
use crate::error::ReadError;
use crate::record::{self, Kind, Parent, Record};
use crate::tail::read_error;

/// A whole history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The entries as they stand in the file; `model::restore::repair` brings them into the order that
    /// providers accept.
    pub entries: Vec<Entry>,
    /// Every call id that the session has used, also in what a compression replaced: a new call takes none of
    /// them.
    pub call_ids: BTreeSet<CallId>,
    /// What the next record names as its parent.
    pub next_parent: Option<Parent>,
    /// How many lines could not be read.
    pub damaged: u32,
}

/// Reads the whole history. Costs time and memory in proportion to the file.
///
/// # Errors
/// There is no such file, it is of a newer format, or the system refuses. A damaged line is not an error.
pub fn read(path: &Utf8Path) -> Result<History, ReadError> {
    let bytes = std::fs::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => ReadError::NotFound { path: path.to_owned() },
        _ => ReadError::Io { path: path.to_owned(), source },
    })?;
    from_bytes(&bytes).map_err(|error| read_error(path, error))
}

pub(crate) fn from_bytes(bytes: &[u8]) -> Result<History, ChainError> {
    let index = chain::index(bytes)?;
    let mut history = History { damaged: index.damaged, ..History::default() };
    for at in index.path {
        let Some(record) = chain::record_at(bytes, at) else { continue };
        history.next_parent = Some(record.as_parent());
        history.add(record);
    }
    Ok(history)
}

impl History {
    fn add(&mut self, record: Record) {
        if let Some(message) = &record.message {
            self.call_ids.extend(message.calls().filter_map(|call| call.id.clone()));
        }
        if record.kind == Kind::System && record.subtype.as_deref() == Some("chat_compression") {
            self.compress(record.system_payload.as_ref());
        } else if record.is_visible()
            && let Some(mut content) = record.message
        {
            answer_to(&mut content, record.tool_result.as_ref().and_then(|result| result.call_id.as_ref()));
            self.entries.push(Entry { record: record.uuid, content });
        }
    }

    /// A compression stands for everything before it, if it says by what.
    fn compress(&mut self, payload: Option<&Value>) {
        let compressed = payload
            .and_then(|payload| payload.get("compressedHistory"))
            .and_then(record::read_contents)
            .filter(|contents| !contents.is_empty());
        if let Some(contents) = compressed {
            self.call_ids.extend(
                contents.iter().flat_map(|content| content.calls()).filter_map(|call| call.id.clone()),
            );
            self.entries = contents.into_iter().map(Entry::bare).collect();
        }
    }
}

/// Some files name the call beside the message only.
fn answer_to(content: &mut holdpoint_model::history::Content, call: Option<&CallId>) {
    let Some(call) = call else { return };
    for part in &mut content.parts {
        if let Some(response) = &mut part.function_response
            && response.id.is_none()
        {
            response.id = Some(call.clone());
        }
    }
}
