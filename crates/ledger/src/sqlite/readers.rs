//! Threads that read, each with a connection of its own: a query never runs on a thread of the async runtime,
//! and never waits for the writer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::open;
use super::read::QueryError;
use crate::contract::ReadError;

/// How many. One may fold a long session while the other still serves the inbox.
const THREADS: usize = 2;

/// Most reads that wait: hundreds of milliseconds of work; more is refused, so that a flood of GETs cannot take
/// all memory.
const MAX_WAITING: usize = 4096;

type Read = Box<dyn FnOnce(&mut Reader) + Send>;

/// The readers.
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    reads: VecDeque<Read>,
    shut: bool,
    /// Threads that have not ended.
    running: usize,
    waiting_for_end: Vec<oneshot::Sender<()>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Readers {
    /// Starts the threads. Each opens its connection with its first read, so that a start does not wait for it.
    pub(super) fn start(path: &Utf8Path) -> std::io::Result<Self> {
        let readers = Self { shared: Arc::default(), threads: Mutex::default() };
        for number in 0..THREADS {
            let shared = Arc::clone(&readers.shared);
            let reader = Reader { path: path.to_owned(), connection: None };
            readers.shared.lock().running += 1;
            let running = Running(Arc::clone(&shared));
            let thread = thread::Builder::new().name(format!("ledger-read-{number}")).spawn(move || {
                let _running = running;
                reader.work(&shared);
            })?;
            readers.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(readers)
    }

    /// Runs a query on one of the threads.
    pub(super) fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, QueryError> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, ReadError>> {
        let (reply, answer) = oneshot::channel();
        let read = move |reader: &mut Reader| {
            let _ = reply.send(reader.run(query));
        };
        let mut state = self.shared.lock();
        // A read that is not taken drops its `reply`; `unanswered` says why.
        if !state.shut && state.reads.len() < MAX_WAITING {
            state.reads.push_back(Box::new(read));
            drop(state);
            self.shared.news.notify_one();
        }
        answer
    }

    /// Why a read was dropped without an answer.
    pub(super) fn unanswered(shared: &ReadersState) -> ReadError {
        let state = shared.0.lock();
        if state.shut {
            ReadError::Shut
        } else if state.running == 0 {
            ReadError::Unavailable("its readers have ended".to_owned())
        } else {
            ReadError::Unavailable(format!("overloaded: {MAX_WAITING} reads wait already"))
        }
    }

    /// What [`Readers::unanswered`] looks at.
    pub(super) fn state(&self) -> ReadersState {
        ReadersState(Arc::clone(&self.shared))
    }

    /// Takes no more reads; tells when those that wait are done and the files are closed.
    pub(super) fn shut(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let mut state = self.shared.lock();
        state.shut = true;
        if state.running > 0 {
            state.waiting_for_end.push(tell);
        }
        drop(state);
        self.shared.news.notify_all();
        told
    }

    /// Waits for the threads.
    pub(super) fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// A handle that outlives a borrow of the readers.
pub(super) struct ReadersState(Arc<Shared>);

/// Counts a thread as ended when it is dropped.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running -= 1;
        if state.running == 0 {
            // Nobody is left to run them.
            state.reads.clear();
            for tell in std::mem::take(&mut state.waiting_for_end) {
                let _ = tell.send(());
            }
        }
    }
}

struct Reader {
    path: Utf8PathBuf,
    connection: Option<Connection>,
}

impl Reader {
    fn work(mut self, shared: &Shared) {
        loop {
            let mut state = shared.lock();
            let read = loop {
                match state.reads.pop_front() {
                    Some(read) => break read,
                    None if state.shut => return,
                    None => state = shared.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            read(&mut self);
        }
    }

    fn run<T>(&mut self, query: impl FnOnce(&Connection) -> Result<T, QueryError>) -> Result<T, ReadError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open::connect_reader(&self.path).map_err(QueryError::from)?,
        };
        let result = query(&connection);
        // After a failure of the store the next read gets a new connection.
        if !matches!(result, Err(QueryError::Store(_))) {
            self.connection = Some(connection);
        }
        Ok(result?)
    }
}
