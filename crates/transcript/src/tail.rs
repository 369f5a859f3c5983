//! The end of a transcript: all that a restore needs, at a cost that does not depend on the length of the
//! file (E8).

use std::io::{Read, Seek};

use camino::Utf8Path;
use holdpoint_model::history::Content;
use holdpoint_model::ids::{CallId, PromptId, RecordId};
use holdpoint_model::question::TOOL_NAME;
use holdpoint_model::restore::{Tail, TailCall, TailResult, TailTurn};
use serde_json::Value;

use crate::chain::{ChainError, Walk};
use crate::error::ReadError;
use crate::record::{self, Cause, Kind, Parent, Record};

/// What stands at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct TailScan {
    /// The trailing model turn, with the results of its calls (E2).
    pub tail: Tail,
    /// What the next record names as its parent: the last record.
    pub next_parent: Parent,
    /// The prompt that the end of the file belongs to (R15).
    pub last_prompt_id: Option<PromptId>,
    /// The workspace that the last record names.
    pub cwd: Option<String>,
    /// How many of the lines that were read are damaged.
    pub damaged: u32,
}

/// Scans a file from its end, reading only as far as the trailing turn goes.
///
/// # Errors
/// There is no such file, it is of a newer format, or the system refuses. A damaged line is not an error.
pub fn scan(path: &Utf8Path) -> Result<TailScan, ReadError> {
    let file = open(path)?;
    scan_reader(file).map_err(|error| read_error(path, error))
}

pub(crate) fn open(path: &Utf8Path) -> Result<std::fs::File, ReadError> {
    std::fs::File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => ReadError::NotFound { path: path.to_owned() },
        _ => ReadError::Io { path: path.to_owned(), source },
    })
}

pub(crate) fn read_error(path: &Utf8Path, error: ChainError) -> ReadError {
    match error {
        ChainError::Io(source) => ReadError::Io { path: path.to_owned(), source },
        ChainError::Newer(found) => ReadError::Newer { path: path.to_owned(), found },
    }
}

fn scan_reader<R: Read + Seek>(source: R) -> Result<TailScan, ChainError> {
    let mut walk = Walk::new(source)?;
    let mut finder = Finder::default();
    let (mut next_parent, mut cwd, mut prompt) = (None, None, None);
    let mut tail = None;
    while let Some(placed) = walk.next()? {
        let record = placed.record;
        next_parent.get_or_insert_with(|| record.as_parent());
        cwd = cwd.or_else(|| record.cwd.clone());
        prompt = prompt.or_else(|| prompt_of(&record));
        tail = finder.step(&record);
        if tail.is_some() {
            break;
        }
    }
    Ok(TailScan {
        tail: tail.unwrap_or(if finder.saw_user() { Tail::User } else { Tail::Empty }),
        next_parent: next_parent.unwrap_or(Parent::Root),
        last_prompt_id: prompt,
        cwd,
        damaged: walk.damaged,
    })
}

/// The prompt that a record shows to have begun. A repair shows nothing: it is written before what the next prompt says,
/// and for a turn before that; a crash between the two must not count as the prompt's beginning (D5).
fn prompt_of(record: &Record) -> Option<PromptId> {
    if record.cause() == Some(Cause::OrphanRepair) {
        return None;
    }
    record.prompt_id.clone().or_else(|| {
        let text = record.system_payload.as_ref()?.get("promptId")?.as_str()?;
        PromptId::new(text).ok()
    })
}

/// Goes through records from the last towards the first, until it knows the tail.
#[derive(Default)]
pub(crate) struct Finder {
    results: Vec<Found>,
    ended: bool,
    notices: bool,
}

struct Found {
    id: Option<CallId>,
    name: String,
    result: TailResult,
}

impl Finder {
    /// The tail, as soon as it is known.
    pub(crate) fn step(&mut self, record: &Record) -> Option<Tail> {
        match record.kind {
            Kind::System => self.system(record),
            _ if !record.is_visible() => None,
            Kind::User if record.is_notice() => {
                self.notices = true;
                None
            }
            Kind::User | Kind::ToolResult => self.user(record),
            Kind::Assistant => {
                let message = record.message.as_ref()?;
                Some(self.turn(record.uuid.clone(), message))
            }
            Kind::Other(_) => None,
        }
    }

    /// Whether anything that a model reads was seen, when the records ended before the tail was known.
    pub(crate) fn saw_user(&self) -> bool {
        self.notices || !self.results.is_empty()
    }

    fn system(&mut self, record: &Record) -> Option<Tail> {
        let payload = record.system_payload.as_ref();
        match record.subtype.as_deref() {
            Some("turn_result") => {
                let parked = payload.and_then(|p| p.get("parked")).and_then(Value::as_bool) == Some(true);
                // A result that came later reopened the turn.
                self.ended |= !parked && self.results.is_empty();
                None
            }
            Some("chat_compression") => {
                let history = record::read_contents(payload?.get("compressedHistory")?)?;
                let last = history.last()?;
                Some(match last.role {
                    holdpoint_model::history::Role::Model => self.turn(record.uuid.clone(), last),
                    holdpoint_model::history::Role::User => Tail::User,
                })
            }
            _ => None,
        }
    }

    fn user(&mut self, record: &Record) -> Option<Tail> {
        let message = record.message.as_ref()?;
        if message.responses().next().is_none() {
            return Some(Tail::User);
        }
        let of_record = record.tool_result.as_ref().and_then(|result| result.call_id.as_ref());
        for response in message.responses() {
            let result = match record.cause().map_or(TailResult::Other, Cause::tail_result) {
                // Only questions are declined: what else a file calls so has ended in some other way.
                TailResult::Declined if response.name != TOOL_NAME => TailResult::Other,
                result => result,
            };
            self.results.push(Found {
                id: response.id.as_ref().or(of_record).cloned(),
                name: response.name.clone(),
                result,
            });
        }
        None
    }

    /// The turn, if everything behind it is a result of its own calls.
    fn turn(&mut self, record: Option<RecordId>, message: &Content) -> Tail {
        let calls: Vec<TailCall> = message
            .calls()
            .map(|call| TailCall {
                id: call.id.clone(),
                name: call.name.clone(),
                args: call.args.clone(),
                result: self
                    .results
                    .iter()
                    .find(|found| found.answers(call.id.as_ref(), &call.name))
                    .map(|f| f.result),
            })
            .collect();
        let own = |found: &Found| calls.iter().any(|call| found.answers(call.id.as_ref(), &call.name));
        match record {
            Some(record) if self.results.iter().all(own) => {
                Tail::Model(TailTurn { record, calls, ended: self.ended, notices_after: self.notices })
            }
            // A turn without an id of its own cannot be named, so nothing of it can be asked again.
            None if self.results.is_empty() && !calls.iter().any(|call| call.id.is_some()) => Tail::Empty,
            _ => Tail::User,
        }
    }
}

impl Found {
    fn answers(&self, id: Option<&CallId>, name: &str) -> bool {
        match (&self.id, id) {
            (Some(mine), Some(call)) => mine == call,
            (None, None) => self.name == name,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
