//! The ledger in a SQLite file.
//!
//! One thread writes ([`writer`]): it takes what waits, commits it in one transaction, with one fsync, and then
//! answers. Two threads read ([`readers`]). Nothing here runs on a thread of the async runtime but the making of
//! JSON and the putting into a queue.

mod apply;
#[cfg(test)]
mod faults;
mod lists;
mod log_header;
mod open;
mod queue;
mod read;
mod readers;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use camino::Utf8Path;
use holdpoint_model::ids::{QuestionId, RequestId, SessionId};
use refinery::Migration;
use rusqlite::Connection;
use tokio::sync::oneshot;

pub use self::open::OpenError;
use self::queue::{Job, Queue};
use self::read::QueryError;
use self::readers::Readers;
use self::writer::Writer;
use crate::contract::{
    Append, AppendError, Counts, Ledger, QuestionFilter, QuestionRow, ReadError, Reply, SessionFilter,
    SessionRow, StoredEvent,
};
use crate::encode;

/// The ledger of a daemon: `ledger.sqlite` in its data directory.
///
/// Whoever opens it holds the lock on that directory ([`DataDirLock`](crate::DataDirLock)): no other process
/// writes the file.
///
/// Dropping it commits what waits and waits for that; [`Ledger::shut`] does so without blocking.
pub struct SqliteLedger {
    queue: Arc<Queue>,
    readers: Readers,
    run: u64,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteLedger {
    /// Opens the ledger in `dir`, makes both where they are missing (mode 0700 and 0600), and brings an older
    /// file to the newest format. Blocks for a few milliseconds, and for no fsync unless it brings a file to a newer
    /// format. What the file holds is not scanned: damage shows where it is read.
    ///
    /// The number of this [run](Ledger::run) is stored with the first commit: an open that never writes uses none
    /// up.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(dir: &Utf8Path) -> Result<Self, OpenError> {
        Self::open_with(
            dir,
            &open::migrations(),
            #[cfg(test)]
            Arc::default(),
        )
    }

    fn open_with(
        dir: &Utf8Path,
        migrations: &[Migration],
        #[cfg(test)] faults: Arc<faults::Faults>,
    ) -> Result<Self, OpenError> {
        let opened = open::open(dir, migrations)?;
        let system = |error: std::io::Error| OpenError::System {
            path: dir.join(open::FILE),
            detail: format!("cannot start a thread: {error}"),
        };
        let writer = Writer::new(
            dir.to_owned(),
            opened,
            #[cfg(test)]
            faults,
        );
        let run = writer.number();
        let queue = Arc::new(Queue::default());
        let readers = Readers::start(&dir.join(open::FILE)).map_err(system)?;
        let waiting = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name("ledger-write".to_owned())
            .spawn(move || writer.work(&waiting))
            .map_err(system)?;
        Ok(Self { queue, readers, run, writer: Mutex::new(Some(thread)) })
    }

    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, QueryError> + Send + 'static,
    ) -> Reply<Result<T, ReadError>> {
        let answer = self.readers.read(query);
        let state = self.readers.state();
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(Readers::unanswered(&state))) })
    }
}

impl Ledger for SqliteLedger {
    fn append(&self, append: Append) -> Reply<Result<(), AppendError>> {
        let urgency = append.urgency;
        let append = match encode::encode(append) {
            Ok(append) => append,
            Err(why) => return Box::pin(async move { Err(AppendError::Unavailable(why)) }),
        };
        let (reply, answer) = oneshot::channel();
        if let Err(error) = self.queue.push(Job { append, urgency, since: Instant::now(), reply }) {
            return Box::pin(async move { Err(error) });
        }
        Box::pin(async move {
            // Only a writer that panicked leaves an append without an answer.
            answer.await.unwrap_or_else(|_| Err(AppendError::Unavailable("its writer has ended".to_owned())))
        })
    }

    fn events(&self, session: &SessionId) -> Reply<Result<Vec<StoredEvent>, ReadError>> {
        let session = session.clone();
        self.read(move |connection| read::events(connection, &session))
    }

    fn question(&self, id: &QuestionId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        let id = id.clone();
        self.read(move |connection| read::question(connection, &id))
    }

    fn question_by_request(&self, id: &RequestId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        let id = id.clone();
        self.read(move |connection| read::question_by_request(connection, &id))
    }

    fn questions(&self, filter: QuestionFilter) -> Reply<Result<Vec<QuestionRow>, ReadError>> {
        let run = self.run;
        self.read(move |connection| read::questions(connection, &filter, run))
    }

    fn session(&self, id: &SessionId) -> Reply<Result<Option<SessionRow>, ReadError>> {
        let id = id.clone();
        self.read(move |connection| read::session(connection, &id))
    }

    fn sessions(&self, filter: SessionFilter) -> Reply<Result<Vec<SessionRow>, ReadError>> {
        self.read(move |connection| read::sessions(connection, &filter))
    }

    fn counts(&self) -> Reply<Result<Counts, ReadError>> {
        let run = self.run;
        self.read(move |connection| read::counts(connection, run))
    }

    fn run(&self) -> u64 {
        self.run
    }

    fn shut(&self) -> Reply<()> {
        let written = self.queue.shut();
        let read = self.readers.shut();
        Box::pin(async move {
            // A sender that was dropped tells as well: that side has ended.
            let _ = written.await;
            let _ = read.await;
        })
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        drop(self.queue.shut());
        drop(self.readers.shut());
        if let Some(thread) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
        self.readers.join();
    }
}

impl std::fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteLedger").field("run", &self.run).finish_non_exhaustive()
    }
}
