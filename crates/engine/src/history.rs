//! Reading transcripts, off the async threads: a history of any length delays nobody (R22).

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use holdpoint_model::ids::CallId;
use holdpoint_model::restore;
use holdpoint_transcript::replay::{self, Finalise, Page, PageRequest, Window};
use holdpoint_transcript::{ReadError, head, tail};
use serde_json::Value;

/// The end of a history, ready for a load's response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// The updates, with the calls at the end as they are.
    pub(crate) updates: Vec<Value>,
    /// Whether older history was left out.
    pub(crate) has_more: bool,
    /// Bytes of the file before the window.
    pub(crate) bytes_before: u64,
    /// The oldest record in it.
    pub(crate) anchor: Option<String>,
}

impl Read {
    /// The history as a foreign agent replays it.
    pub(crate) fn foreign(updates: Vec<Value>) -> Self {
        Self { updates, ..Self::default() }
    }
}

/// The calls at the end of a history that a restore would leave open.
pub(crate) async fn dangling(path: Utf8PathBuf) -> Result<BTreeSet<CallId>, String> {
    blocking(move || match tail::scan(&path) {
        Ok(scan) => Ok(restore::assess(&scan.tail).map(|restore| restore.spared()).unwrap_or_default()),
        Err(ReadError::NotFound { .. }) => Ok(BTreeSet::new()),
        Err(error) => Err(error.to_string()),
    })
    .await
}

/// Reads the window at the end of a transcript. Calls without a result are failed, but for those to spare
/// (R1, R4); with `running` none is, since their results are on their way.
pub(crate) async fn window(
    path: Utf8PathBuf,
    end: Option<u64>,
    records: Option<usize>,
    spare: BTreeSet<CallId>,
    running: bool,
) -> Result<Read, String> {
    blocking(move || {
        let mut window = Window { end, ..Window::default() };
        if let Some(records) = records {
            window.max_records = records.min(window.max_records);
        }
        let finalise = if running { Finalise::Leave } else { Finalise::Close { spare } };
        match replay::window(&path, &window, &finalise) {
            Ok(read) => Ok(Read {
                updates: read.updates,
                has_more: read.cut.is_some(),
                bytes_before: read.cut.as_ref().map_or(0, |cut| cut.bytes_before),
                anchor: read.cut.and_then(|cut| cut.before).map(|record| record.to_string()),
            }),
            Err(ReadError::NotFound { .. }) => Ok(Read::default()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await
}

/// Reads one page of a transcript; `None` where there is none.
pub(crate) async fn page(
    path: Utf8PathBuf,
    request: PageRequest,
    finalise: Finalise,
) -> Result<Option<Page>, ReadError> {
    let read = tokio::task::spawn_blocking(move || match replay::page(&path, &request, &finalise) {
        Ok(page) => Ok(Some(page)),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    });
    // The closure does not panic, and a blocking task that runs is not cancelled.
    read.await.unwrap_or(Ok(None))
}

/// Whether the history was interrupted, and how (WIRE f.2).
pub(crate) async fn interruption(path: Utf8PathBuf) -> Result<&'static str, String> {
    blocking(move || match tail::scan(&path) {
        Ok(scan) => Ok(restore::interruption(&scan.tail).as_str()),
        Err(ReadError::NotFound { .. }) => Ok("none"),
        Err(error) => Err(error.to_string()),
    })
    .await
}

/// What a list shows of a transcript; `None` where there is none.
pub(crate) async fn head(path: Utf8PathBuf) -> Result<Option<head::Head>, String> {
    blocking(move || match head::head(&path) {
        Ok(head) => Ok(Some(head)),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(format!("reading was broken off: {error}")),
    }
}
