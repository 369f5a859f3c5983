//! The simulated agent's transcripts, as the engine reads them.

use std::collections::BTreeSet;

use holdpoint_engine::port::Reply;
use holdpoint_engine::{Read, Summary, Transcripts, Wanted};
use holdpoint_model::ids::{CallId, SessionId};
use holdpoint_model::restore::{assess, interruption};
use holdpoint_transcript::ReadError;
use holdpoint_transcript::replay::{Finalise, Page, PageRequest};
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::crash::Crash;
use crate::store::{History, Shared};

/// The transcripts. Of a history only the calls at its end are shown: they are what a replay must get right.
pub(crate) struct SimTranscripts {
    /// Where they are.
    pub(crate) store: Shared,
    /// When the daemon, which reads and copies them, dies.
    pub(crate) crash: Crash,
}

fn ready<T: Send + 'static>(value: T) -> Reply<T> {
    Box::pin(std::future::ready(value))
}

impl SimTranscripts {
    fn history(&self, session: &SessionId) -> Option<History> {
        self.store.lock().histories.get(session).cloned()
    }
}

impl Transcripts for SimTranscripts {
    fn window(&self, session: &SessionId, wanted: Wanted) -> Reply<Result<Read, String>> {
        let mut history = self.history(session).unwrap_or_default();
        let end = wanted.end.and_then(|end| usize::try_from(end).ok()).unwrap_or(usize::MAX);
        history.0.truncate(end);
        let open = history.tail().turn().map(|turn| turn.open()).unwrap_or_default();
        let updates = open.into_iter().map(|call| {
            let status = match &wanted.finalise {
                Finalise::Leave => "in_progress",
                Finalise::Close { spare } if spare.contains(&call) => "in_progress",
                Finalise::Close { .. } => "failed",
            };
            let update = json!({ "sessionUpdate": "tool_call", "toolCallId": call, "status": status });
            to_raw_value(&update).expect("a JSON value can be written as JSON")
        });
        ready(Ok(Read { updates: updates.collect(), ..Read::default() }))
    }

    fn page(
        &self,
        session: &SessionId,
        _: PageRequest,
        _: Finalise,
    ) -> Reply<Result<Option<Page>, ReadError>> {
        ready(Ok(self.history(session).map(|_| Page::default())))
    }

    fn interruption(&self, session: &SessionId) -> Reply<Result<&'static str, String>> {
        let tail = self.history(session).map(|history| history.tail());
        ready(Ok(tail.map_or("none", |tail| interruption(&tail).as_str())))
    }

    fn dangling(&self, session: &SessionId) -> Reply<Result<BTreeSet<CallId>, String>> {
        let tail = self.history(session).map(|history| history.tail());
        let restore = tail.and_then(|tail| assess(&tail).ok());
        ready(Ok(restore.map(|restore| restore.spared()).unwrap_or_default()))
    }

    fn summary(&self, session: &SessionId) -> Reply<Result<Option<Summary>, ReadError>> {
        ready(Ok(self.history(session).map(|_| Summary::default())))
    }

    fn len(&self, session: &SessionId) -> u64 {
        self.store.lock().histories.get(session).map_or(0, |history| history.0.len() as u64)
    }

    fn branch(&self, from: &SessionId, to: &SessionId) -> Reply<Result<(), String>> {
        let point = self.crash.point();
        if point != Some(false)
            && let Some(history) = self.history(from)
        {
            self.store.note(format!("{to} is a copy of {from}"));
            self.store.lock().histories.insert(to.clone(), history.copy());
        }
        if point.is_some() { Box::pin(std::future::pending()) } else { ready(Ok(())) }
    }

    fn remove(&self, session: &SessionId) -> Result<(), String> {
        match self.crash.point() {
            Some(false) => Err("the daemon is dead".to_owned()),
            None | Some(true) => {
                self.store.lock().histories.remove(session);
                Ok(())
            }
        }
    }
}
