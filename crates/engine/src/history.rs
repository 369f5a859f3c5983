//! Transcripts as the engine reads them. The real ones are files, read off the async threads: a history of any
//! length delays nobody (R22). The simulation has others.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use holdpoint_model::ids::{CallId, SessionId};
use holdpoint_model::restore;
use holdpoint_transcript::replay::{self, Finalise, Page, PageRequest, Window};
use holdpoint_transcript::{BranchError, ReadError, head, tail};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::port::Reply;

/// The end of a history, ready for a load's response.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The updates, oldest first, with the calls at the end finalised as was asked. Text already: they are written
    /// where they are read, off the async threads (R22).
    pub updates: Vec<Box<RawValue>>,
    /// Whether older history was left out.
    pub has_more: bool,
    /// How much was left out, in bytes.
    pub bytes_before: u64,
    /// About how many updates were left out.
    pub updates_before: u64,
    /// The oldest record in it.
    pub anchor: Option<String>,
    /// How many lines could not be read and are left out.
    pub damaged: u32,
}

impl Read {
    /// The history as a foreign agent replays it.
    pub(crate) fn foreign(updates: Vec<Value>) -> Self {
        Self { updates: updates.into_iter().map(written).collect(), ..Self::default() }
    }
}

/// An update as text.
fn written(update: Value) -> Box<RawValue> {
    to_raw_value(&update).expect("a JSON value can be written as JSON")
}

/// Which part of the end of a history is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where the history ends for this reader, in bytes; `None` is where it ends now.
    pub end: Option<u64>,
    /// Most records.
    pub records: Option<usize>,
    /// What becomes of calls that have no result (R1, R4).
    pub finalise: Finalise,
}

/// What a list shows of a session that only its transcript knows.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Its workspace.
    pub cwd: Option<String>,
    /// Its first prompt, in a line.
    pub title: Option<String>,
}

/// Reads the transcripts of our agent's sessions. Nothing here writes, but for [`Transcripts::remove`] (I7).
pub trait Transcripts: Send + Sync + 'static {
    /// The end of a history; an empty one where there is none.
    fn window(&self, session: &SessionId, wanted: Wanted) -> Reply<Result<Read, String>>;
    /// One page of a history; `None` where there is none.
    fn page(
        &self,
        session: &SessionId,
        request: PageRequest,
        finalise: Finalise,
    ) -> Reply<Result<Option<Page>, ReadError>>;
    /// Whether a history was interrupted, and how (WIRE f.2).
    fn interruption(&self, session: &SessionId) -> Reply<Result<&'static str, String>>;
    /// The calls at the end of a history that a restore would leave open.
    fn dangling(&self, session: &SessionId) -> Reply<Result<BTreeSet<CallId>, String>>;
    /// What a list shows; `None` where there is no history.
    fn summary(&self, session: &SessionId) -> Reply<Result<Option<Summary>, ReadError>>;
    /// How long the history is now, in bytes. Must not block.
    fn len(&self, session: &SessionId) -> u64;
    /// Copies a history to a new session, with what dangles closed (E7). Nothing happens where there is none.
    fn branch(&self, from: &SessionId, to: &SessionId) -> Reply<Result<(), String>>;
    /// Deletes a history.
    ///
    /// # Errors
    /// Why it is still there.
    fn remove(&self, session: &SessionId) -> Result<(), String>;
}

/// The transcripts in a data directory.
#[derive(Clone, Debug)]
pub struct TranscriptFiles {
    data_dir: Utf8PathBuf,
}

impl TranscriptFiles {
    /// Those in this data directory.
    pub fn new(data_dir: Utf8PathBuf) -> Self {
        Self { data_dir }
    }

    fn path(&self, session: &SessionId) -> Utf8PathBuf {
        holdpoint_transcript::path(&self.data_dir, session)
    }
}

impl Transcripts for TranscriptFiles {
    fn window(&self, session: &SessionId, wanted: Wanted) -> Reply<Result<Read, String>> {
        let path = self.path(session);
        blocking(move || {
            let mut window = Window { end: wanted.end, ..Window::default() };
            if let Some(records) = wanted.records {
                window.max_records = records.min(window.max_records);
            }
            let read = replay::window_as(&path, &window, &wanted.finalise, written);
            Ok(found(read)?
                .map(|read| Read {
                    updates: read.updates,
                    has_more: read.cut.is_some(),
                    damaged: read.damaged,
                    bytes_before: read.cut.as_ref().map_or(0, |cut| cut.bytes_before),
                    updates_before: read.cut.as_ref().map_or(0, |cut| cut.updates_before),
                    anchor: read.cut.and_then(|cut| cut.before).map(|record| record.to_string()),
                })
                .unwrap_or_default())
        })
    }

    fn page(
        &self,
        session: &SessionId,
        request: PageRequest,
        finalise: Finalise,
    ) -> Reply<Result<Option<Page>, ReadError>> {
        let path = self.path(session);
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || match replay::page(&path, &request, &finalise) {
                Ok(page) => Ok(Some(page)),
                Err(ReadError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            });
            // The closure does not panic, and a blocking task that runs is not cancelled.
            read.await.unwrap_or(Ok(None))
        })
    }

    fn interruption(&self, session: &SessionId) -> Reply<Result<&'static str, String>> {
        let path = self.path(session);
        blocking(move || {
            let scan = found(tail::scan(&path))?;
            Ok(scan.map_or("none", |scan| restore::interruption(&scan.tail).as_str()))
        })
    }

    fn dangling(&self, session: &SessionId) -> Reply<Result<BTreeSet<CallId>, String>> {
        let path = self.path(session);
        blocking(move || {
            let restore = found(tail::scan(&path))?.and_then(|scan| restore::assess(&scan.tail).ok());
            Ok(restore.map(|restore| restore.spared()).unwrap_or_default())
        })
    }

    fn summary(&self, session: &SessionId) -> Reply<Result<Option<Summary>, ReadError>> {
        let path = self.path(session);
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || match head::head(&path) {
                Ok(head) => Ok(Some(Summary { cwd: head.cwd, title: head.title })),
                Err(ReadError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            });
            // The closure does not panic, and a blocking task that runs is not cancelled.
            read.await.unwrap_or(Ok(None))
        })
    }

    fn len(&self, session: &SessionId) -> u64 {
        // One look at the file's metadata; no reading.
        std::fs::metadata(self.path(session)).map_or(0, |metadata| metadata.len())
    }

    fn branch(&self, from: &SessionId, to: &SessionId) -> Reply<Result<(), String>> {
        let (from, path, to) = (self.path(from), self.path(to), to.clone());
        blocking(move || match holdpoint_transcript::branch(&from, &path, &to) {
            Ok(()) | Err(BranchError::Read(ReadError::NotFound { .. })) => Ok(()),
            Err(error) => Err(error.to_string()),
        })
    }

    fn remove(&self, session: &SessionId) -> Result<(), String> {
        let path = self.path(session);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{path}: {error}")),
            _ => Ok(()),
        }
    }
}

/// A history that is not there is an empty one.
fn found<T>(read: Result<T, ReadError>) -> Result<Option<T>, String> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Reply<Result<T, String>> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(outcome) => outcome,
            Err(error) => Err(format!("reading was broken off: {error}")),
        }
    })
}
