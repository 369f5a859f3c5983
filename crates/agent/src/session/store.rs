//! A session's transcript as the session uses it: the writer and its lock, the place of the next record, and
//! the history that the model is sent.

use std::collections::BTreeSet;

use agent_client_protocol::Error;
use camino::Utf8PathBuf;
use holdpoint_model::history::{Content, Role};
use holdpoint_model::ids::{CallId, RecordId};
use holdpoint_model::restore::{self, Entry};
use holdpoint_transcript::history::{self, History};
use holdpoint_transcript::tail::{self, TailScan};
use holdpoint_transcript::{AppendError, Durability, OpenError, Parent, ReadError, Record, Writer};
use tokio::task::JoinHandle;

use crate::rpc::{internal, not_found};

/// Why the transcript cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the transcript's work was broken off: {0}")]
    Broken(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Read(ReadError::NotFound { .. }) => not_found(error.to_string()),
            _ => match error.code() {
                // For programs: to try again changes nothing.
                Some(code) => internal(error.to_string()).data(serde_json::json!({ "code": code })),
                None => internal(error.to_string()),
            },
        }
    }
}

impl StoreError {
    /// The wire's word for what stands in the way, where it has one.
    fn code(&self) -> Option<&'static str> {
        let open = match self {
            Self::Open(open) | Self::Append(AppendError::Open(open)) => open,
            Self::Read(ReadError::Newer { .. }) => return Some("transcript_format_newer"),
            Self::Read(_) | Self::Append(_) | Self::Broken(_) => return None,
        };
        match open {
            OpenError::Locked { .. } => Some("session_writer_conflict"),
            OpenError::Read(ReadError::Newer { .. }) => Some("transcript_format_newer"),
            OpenError::Read(_) | OpenError::Io { .. } => None,
        }
    }
}

/// What the model is sent, and the ids that are taken.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The entries, as a provider accepts them.
    pub(crate) contents: Vec<Content>,
    /// Every call id of the session.
    pub(crate) call_ids: BTreeSet<CallId>,
}

/// Where the history is.
#[derive(Debug)]
enum Memory {
    /// In the file only.
    Unread,
    /// On its way.
    Reading(JoinHandle<Result<History, ReadError>>),
    /// Read, as the file has it.
    Raw(History),
    /// Ready to be sent.
    Ready(Said),
}

/// The transcript of one session.
#[derive(Debug)]
pub(crate) struct Store {
    path: Utf8PathBuf,
    /// `None` until it is first needed, and while a write runs.
    writer: Option<Writer>,
    parent: Parent,
    memory: Memory,
    /// Questions that an abort took off the people's screens: their repair says so (H9).
    pub(crate) halted: BTreeSet<CallId>,
}

impl Store {
    pub(crate) fn new(path: Utf8PathBuf) -> Self {
        Self { path, writer: None, parent: Parent::Root, memory: Memory::Unread, halted: BTreeSet::new() }
    }

    /// Takes the lock, cuts off a torn end and finds the place of the next record, once. Whether the file
    /// exists.
    pub(crate) async fn open(&mut self) -> Result<bool, StoreError> {
        if let Some(writer) = &self.writer {
            return Ok(writer.exists());
        }
        let path = self.path.clone();
        let opened = blocking(move || Writer::open(&path)).await??;
        let existed = opened.existed;
        self.writer = Some(opened.writer);
        if existed {
            self.tail().await?;
        } else {
            self.memory = Memory::Ready(Said::default());
        }
        Ok(existed)
    }

    /// Scans the end of the file (E8), and takes the place of the next record from it.
    pub(crate) async fn tail(&mut self) -> Result<TailScan, StoreError> {
        let path = self.path.clone();
        let scan = blocking(move || tail::scan(&path)).await??;
        self.parent = scan.next_parent.clone();
        Ok(scan)
    }

    /// Where the transcript is.
    pub(crate) fn path(&self) -> &Utf8PathBuf {
        &self.path
    }

    /// Appends a record behind the last. With [`Durability::Fsync`] it is on the disk when this returns.
    pub(crate) async fn append(
        &mut self,
        mut record: Record,
        durability: Durability,
    ) -> Result<Record, StoreError> {
        record.parent = self.parent.clone();
        let Some(mut writer) = self.writer.take() else {
            return Err(StoreError::Broken("it is not open".to_owned()));
        };
        let (writer, record, result) = blocking(move || {
            let result = writer.append(&record, durability);
            (writer, record, result)
        })
        .await?;
        self.writer = Some(writer);
        result?;
        self.parent = record.as_parent();
        Ok(record)
    }

    /// Starts to read the history, if that is still to be done, while something else goes on.
    pub(crate) fn start_reading(&mut self) {
        if matches!(self.memory, Memory::Unread) {
            let path = self.path.clone();
            self.memory = Memory::Reading(tokio::task::spawn_blocking(move || history::read(&path)));
        }
    }

    async fn raw(&mut self) -> Result<(), StoreError> {
        self.start_reading();
        if let Memory::Reading(reading) = &mut self.memory {
            let read = reading.await;
            self.memory = Memory::Unread;
            let history = read.map_err(|error| StoreError::Broken(error.to_string()))??;
            self.memory = Memory::Raw(history);
        }
        Ok(())
    }

    /// The history that the model is sent, repaired (R3).
    pub(crate) async fn said(&mut self) -> Result<&mut Said, StoreError> {
        self.raw().await?;
        if let Memory::Raw(history) = &mut self.memory {
            let history = std::mem::take(history);
            let repaired = restore::repair(history.entries, &BTreeSet::new());
            if !repaired.synthetic.is_empty() {
                tracing::info!(calls = repaired.synthetic.len(), "repaired calls without a result");
            }
            let contents = repaired.entries.into_iter().map(|entry| entry.content).collect();
            self.memory = Memory::Ready(Said { contents, call_ids: history.call_ids });
        }
        match &mut self.memory {
            Memory::Ready(said) => Ok(said),
            _ => Err(StoreError::Broken("the history was not read".to_owned())),
        }
    }

    /// Completes the history with the results of a restored turn: `results` are those that this process
    /// stored, the others stand in the file behind the turn. The outcome is what an undisturbed turn would
    /// have (I10).
    pub(crate) async fn complete_turn(
        &mut self,
        turn: &RecordId,
        results: Vec<Content>,
    ) -> Result<(), StoreError> {
        if matches!(self.memory, Memory::Ready(_)) {
            // Repaired already, so the open calls were closed in it.
            self.forget();
        }
        self.raw().await?;
        let Memory::Raw(history) = &mut self.memory else {
            return Err(StoreError::Broken("the history was not read".to_owned()));
        };
        let mut history = std::mem::take(history);
        let end = history
            .entries
            .iter()
            .rposition(|entry| entry.record.as_ref() == Some(turn))
            .or_else(|| history.entries.iter().rposition(|entry| entry.content.role == Role::Model));
        // What the reader saw behind the turn may already hold some of `results`: those from memory win.
        let behind = end.map_or_else(Vec::new, |end| history.entries.split_off(end + 1));
        let known: BTreeSet<&CallId> =
            results.iter().flat_map(Content::responses).filter_map(|response| response.id.as_ref()).collect();
        let mut entries = std::mem::take(&mut history.entries);
        for mut entry in behind {
            entry.content.parts.retain(|part| {
                let id = part.function_response.as_ref().and_then(|response| response.id.as_ref());
                id.is_none_or(|id| !known.contains(id))
            });
            if !entry.content.parts.is_empty() {
                entries.push(entry);
            }
        }
        entries.extend(results.iter().cloned().map(Entry::bare));
        self.memory = Memory::Raw(History { entries, ..history });
        self.said().await.map(|_| ())
    }

    /// Forgets the history; it is read again when it is needed. For turns that leave calls without a result,
    /// and after a failed write: the file is the truth.
    pub(crate) fn forget(&mut self) {
        self.memory = Memory::Unread;
    }
}

impl Said {
    /// Adds the results of a batch in call order, as one entry.
    pub(crate) fn push_results(&mut self, calls: &[CallId], results: Vec<Content>) {
        let mut parts: Vec<_> = results.into_iter().flat_map(|content| content.parts).collect();
        let place = |part: &holdpoint_model::history::Part| {
            let id = part.function_response.as_ref().and_then(|response| response.id.as_ref());
            id.and_then(|id| calls.iter().position(|call| call == id)).unwrap_or(calls.len())
        };
        parts.sort_by_key(place);
        if !parts.is_empty() {
            self.contents.push(Content { role: Role::User, parts });
        }
    }

    /// The pass before each send: spares nothing (R3). What it finds is a fault of ours, since the history is
    /// repaired when it is read and complete when a batch is settled.
    pub(crate) fn check(&mut self) {
        if self.contents.iter().enumerate().all(|(at, content)| answered(content, self.contents.get(at + 1)))
        {
            return;
        }
        tracing::error!("a call without a result was about to be sent; it is repaired");
        let entries = std::mem::take(&mut self.contents).into_iter().map(Entry::bare).collect();
        let repaired = restore::repair(entries, &BTreeSet::new());
        self.contents = repaired.entries.into_iter().map(|entry| entry.content).collect();
    }
}

/// Whether the calls of an entry are answered by the next one.
fn answered(content: &Content, next: Option<&Content>) -> bool {
    content.role != Role::Model
        || content
            .calls()
            .all(|call| next.is_some_and(|next| next.responses().any(|response| response.id == call.id)))
}

/// Runs blocking work off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Broken(error.to_string()))
}
