//! Which records are replayed: a window from the end, or a page.

use camino::Utf8Path;
use holdpoint_model::ids::{CallId, RecordId};
use serde_json::Value;

use super::convert::{Converter, Finalise};
use crate::chain::{self, Placed, Walk};
use crate::error::ReadError;
use crate::record::{Kind, Record};
use crate::tail::{open, read_error};

/// How much of the end of a session a load replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Most bytes of records that are shown. One record is always taken.
    pub max_bytes: u64,
    /// Most records that are shown.
    pub max_records: usize,
    /// Where the file ends for this reader, in bytes: what was appended later is not shown. `None` is where it
    /// ends now.
    pub end: Option<u64>,
}

impl Default for Window {
    /// What the wire promises: 4 MiB, and no more records than a journal holds events.
    fn default() -> Self {
        Self { max_bytes: 4 * 1024 * 1024, max_records: 10_000, end: None }
    }
}

/// The replay of the end of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay<Update = Value> {
    /// The updates, oldest first.
    pub updates: Vec<Update>,
    /// What lies before, if anything does.
    pub cut: Option<Cut>,
    /// The calls that the replay leaves in progress.
    pub open: Vec<CallId>,
    /// How many records were turned into updates.
    pub records: usize,
    /// How many of the lines that were read are damaged.
    pub damaged: u32,
}

/// Where a window was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first record of the window: a cursor for the page before it. `None` where it has no id.
    pub before: Option<RecordId>,
    /// How many bytes of the file lie before the window.
    pub bytes_before: u64,
    /// About how many updates they are, by the size of those in the window: to count them would be to read them all.
    /// At least 1.
    pub updates_before: u64,
}

/// Reads the end of a session, and only as much of the file as the window takes.
///
/// # Errors
/// There is no such file, it is of a newer format, or the system refuses.
pub fn window(path: &Utf8Path, window: &Window, finalise: &Finalise) -> Result<Replay, ReadError> {
    window_as(path, window, finalise, |update| update)
}

/// [`window`], with each update turned into something else as soon as it is there: a window of JSON values is
/// several times as large as what is made of it.
///
/// # Errors
/// As for [`window`].
pub fn window_as<Update>(
    path: &Utf8Path,
    window: &Window,
    finalise: &Finalise,
    make: impl FnMut(Value) -> Update,
) -> Result<Replay<Update>, ReadError> {
    let mut walk = Walk::new(open(path)?).map_err(|source| read_error(path, source.into()))?;
    if let Some(end) = window.end {
        walk.end_at(end);
    }
    let mut kept: Vec<Placed> = Vec::new();
    let mut cut = false;
    let (mut bytes, mut results) = (0_u64, 0_usize);
    while let Some(placed) = walk.next().map_err(|error| read_error(path, error))? {
        if !placed.record.is_visible() {
            continue;
        }
        bytes += placed.length as u64;
        if !kept.is_empty() && (bytes > window.max_bytes || kept.len() >= window.max_records) {
            cut = true;
            break;
        }
        // Results whose call lies before the cut would be updates of nothing.
        results = if placed.record.kind == Kind::ToolResult { results + 1 } else { 0 };
        kept.push(placed);
    }
    if cut && results < kept.len() {
        kept.truncate(kept.len() - results);
    }
    let first = kept.last();
    let mut cut = cut.then(|| Cut {
        before: first.and_then(|placed| placed.record.uuid.clone()),
        bytes_before: first.map_or(0, |placed| placed.offset),
        updates_before: 1,
    });
    let shown: u64 = kept.iter().map(|placed| placed.length as u64).sum();
    let damaged = walk.damaged;
    let records = kept.len();
    let oldest_first = kept.into_iter().rev().map(|placed| placed.record);
    let (updates, open) = convert(oldest_first, Converter::new(finalise), true, make);
    if let Some(cut) = &mut cut {
        let before = u128::from(cut.bytes_before) * updates.len() as u128 / u128::from(shown.max(1));
        cut.updates_before = u64::try_from(before).unwrap_or(u64::MAX).max(1);
    }
    Ok(Replay { updates, cut, open, records, damaged })
}

/// The updates of records, and the calls that stay open. Calls at the end are finalised only where nothing
/// follows.
fn convert<Update>(
    records: impl ExactSizeIterator<Item = Record>,
    mut converter: Converter,
    at_end: bool,
    mut make: impl FnMut(Value) -> Update,
) -> (Vec<Update>, Vec<CallId>) {
    let mut updates = Vec::with_capacity(records.len());
    let mut of_record = Vec::new();
    for record in records {
        converter.record(&record, &mut of_record);
        updates.extend(of_record.drain(..).map(&mut make));
    }
    let open = if at_end { converter.finish(&mut of_record) } else { Vec::new() };
    updates.extend(of_record.drain(..).map(&mut make));
    (updates, open)
}

/// Which way pages go. A page's updates are oldest first either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the start.
    Forward,
    /// From the end.
    Backward,
}

/// One page.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Which way.
    pub direction: Direction,
    /// [`Page::next`] of the page before; `None` for the first. Forward: the page begins after this record.
    /// Backward: it ends before it.
    pub cursor: Option<RecordId>,
    /// Most records, at least 1.
    pub limit: usize,
    /// Most bytes of records; one record is always taken.
    pub max_bytes: u64,
}

/// A page of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The updates, oldest first.
    pub updates: Vec<Value>,
    /// Where the next page goes on; `None` on the last.
    pub next: Option<RecordId>,
    /// Whether the page holds the end of the session; only then are open calls finalised.
    pub at_end: bool,
    /// When the session began, as ISO 8601 text (forward pages only; else see [`crate::head`]).
    pub started: Option<String>,
    /// When its last record was written.
    pub updated: Option<String>,
    /// How many records were turned into updates.
    pub records: usize,
}

/// Reads one page. Backward pages cost the way from the end; forward pages cost the whole file.
///
/// # Errors
/// As for [`window`], and a cursor that names no record of the session.
pub fn page(path: &Utf8Path, request: &PageRequest, finalise: &Finalise) -> Result<Page, ReadError> {
    match request.direction {
        Direction::Forward => forward(path, request, finalise),
        Direction::Backward => backward(path, request, finalise),
    }
}

/// Collects records up to the limits of a request.
struct Collector<'a> {
    request: &'a PageRequest,
    records: Vec<Record>,
    bytes: u64,
    /// There is more than the limits allow.
    more: bool,
}

impl<'a> Collector<'a> {
    fn new(request: &'a PageRequest) -> Self {
        Self { request, records: Vec::new(), bytes: 0, more: false }
    }

    /// Whether the record was taken.
    fn take(&mut self, record: Record, length: usize) -> bool {
        self.bytes += length as u64;
        let full = self.records.len() >= self.request.limit.max(1) || self.bytes > self.request.max_bytes;
        // A page can only end where a cursor can say so.
        let nameable = self.records.last().is_some_and(|last| last.uuid.is_some());
        if full && nameable {
            self.more = true;
            return false;
        }
        self.records.push(record);
        true
    }

    fn next(&self) -> Option<RecordId> {
        self.more.then(|| self.records.last().and_then(|record| record.uuid.clone())).flatten()
    }
}

fn unknown_cursor(path: &Utf8Path, request: &PageRequest) -> ReadError {
    let cursor = request.cursor.as_ref().map(ToString::to_string).unwrap_or_default();
    ReadError::UnknownCursor { path: path.to_owned(), cursor }
}

fn backward(path: &Utf8Path, request: &PageRequest, finalise: &Finalise) -> Result<Page, ReadError> {
    let mut walk = Walk::new(open(path)?).map_err(|source| read_error(path, source.into()))?;
    let mut collector = Collector::new(request);
    let mut started = request.cursor.is_none();
    let mut updated = None;
    while let Some(placed) = walk.next().map_err(|error| read_error(path, error))? {
        updated = updated.or_else(|| placed.record.timestamp.clone());
        if !started {
            started = placed.record.uuid == request.cursor;
        } else if placed.record.is_visible() && !collector.take(placed.record, placed.length) {
            break;
        }
    }
    if !started {
        return Err(unknown_cursor(path, request));
    }
    let next = collector.next();
    let at_end = request.cursor.is_none();
    collector.records.reverse();
    Ok(finish(collector.records, next, at_end, finalise, None, updated))
}

fn forward(path: &Utf8Path, request: &PageRequest, finalise: &Finalise) -> Result<Page, ReadError> {
    let bytes = std::fs::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => ReadError::NotFound { path: path.to_owned() },
        _ => ReadError::Io { path: path.to_owned(), source },
    })?;
    let index = chain::index(&bytes).map_err(|error| read_error(path, error))?;
    let mut collector = Collector::new(request);
    let mut begun = request.cursor.is_none();
    let mut started = None;
    for at in &index.path {
        let Some(record) = chain::record_at(&bytes, *at) else { continue };
        started = started.or_else(|| record.timestamp.clone());
        if !begun {
            begun = record.uuid == request.cursor;
        } else if record.is_visible() && !collector.take(record, at.1) {
            break;
        }
    }
    if !begun {
        return Err(unknown_cursor(path, request));
    }
    let next = collector.next();
    let at_end = next.is_none();
    let leaf = index.path.last().and_then(|at| chain::record_at(&bytes, *at));
    Ok(finish(collector.records, next, at_end, finalise, started, leaf.and_then(|leaf| leaf.timestamp)))
}

fn finish(
    records: Vec<Record>,
    next: Option<RecordId>,
    at_end: bool,
    finalise: &Finalise,
    started: Option<String>,
    updated: Option<String>,
) -> Page {
    let count = records.len();
    let converter = Converter::new(finalise).with_sources();
    let (updates, _) = convert(records.into_iter(), converter, at_end, |update| update);
    Page { updates, next, at_end, started, updated, records: count }
}
