//! What waits for the writer, in the order in which it came.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::contract::{AppendError, Urgency};
use crate::encode::Encoded;

/// Most appends that wait: about a second's work of the writer. Who would have to wait longer is refused at
/// once; to wait for room would block a thread that serves others, or lose the order.
const MAX_WAITING: usize = 16 * 1024;

/// Most bytes that wait, so that large appends cannot take all memory; one larger than this is taken when
/// nothing else waits.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Most appends in one transaction: more would only make the first of them wait for the last.
const MAX_BATCH: usize = 1024;

/// Most bytes in one transaction, about: the log should stay near the size at which it is moved.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How long a lazy append waits for an urgent one to ride with.
const LAZY: Duration = Duration::from_millis(200);

/// Most bytes of lazy appends that wait for that long.
const MAX_LAZY_BYTES: usize = 1024 * 1024;

/// One append, and who waits for it.
pub(super) struct Job {
    pub(super) append: Encoded,
    pub(super) urgency: Urgency,
    pub(super) since: Instant,
    pub(super) reply: oneshot::Sender<Result<(), AppendError>>,
}

/// What is committed together.
pub(super) struct Batch {
    /// In the order in which they came.
    pub(super) jobs: Vec<Job>,
    /// Whether the commit waits for the disk: somebody waits for one of them, or it is the last. A lazy one alone
    /// causes no fsync; the next commit that does one makes it durable too.
    pub(super) durable: bool,
}

/// The queue. One thread takes from it.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    urgent: usize,
    phase: Phase,
    shut: Vec<oneshot::Sender<()>>,
}

#[derive(Default, PartialEq)]
enum Phase {
    #[default]
    Open,
    /// What waits is still committed; nothing more is taken.
    Shutting,
    /// The writer is gone.
    Ended,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an append last.
    ///
    /// # Errors
    /// The ledger is shut, or too much waits; the append is dropped.
    pub(super) fn push(&self, job: Job) -> Result<(), AppendError> {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Err(AppendError::Shut);
        }
        let bytes = state.bytes + job.append.bytes;
        if state.jobs.len() >= MAX_WAITING || (bytes > MAX_WAITING_BYTES && !state.jobs.is_empty()) {
            return Err(AppendError::Unavailable(format!(
                "overloaded: {} appends of {} bytes wait already",
                state.jobs.len(),
                state.bytes
            )));
        }
        state.bytes = bytes;
        state.urgent += usize::from(job.urgency == Urgency::Now);
        state.jobs.push_back(job);
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    /// The next batch: everything that waits, up to a limit, once something urgent does, or something lazy has
    /// waited long enough. `None` when the queue is shut and empty.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            let shutting = state.phase != Phase::Open;
            match state.jobs.front() {
                None if shutting => return None,
                None => state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(front) => {
                    let waited = front.since.elapsed();
                    if shutting || state.urgent > 0 || waited >= LAZY || state.bytes > MAX_LAZY_BYTES {
                        let jobs = state.batch();
                        let urgent = jobs.iter().any(|job| job.urgency == Urgency::Now);
                        return Some(Batch { jobs, durable: urgent || shutting });
                    }
                    let rest = LAZY - waited;
                    state = self.news.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Takes nothing more; tells when the writer has ended.
    pub(super) fn shut(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let mut state = self.lock();
        match state.phase {
            Phase::Open | Phase::Shutting => {
                state.phase = Phase::Shutting;
                state.shut.push(tell);
            }
            // Dropping `tell` tells as well.
            Phase::Ended => {}
        }
        drop(state);
        self.news.notify_one();
        told
    }

    /// The writer ends: what still waits is refused, and who waits for the end is told.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.phase = Phase::Ended;
        state.bytes = 0;
        state.urgent = 0;
        let jobs = std::mem::take(&mut state.jobs);
        let shut = std::mem::take(&mut state.shut);
        drop(state);
        for job in jobs {
            let _ = job.reply.send(Err(AppendError::Shut));
        }
        for tell in shut {
            let _ = tell.send(());
        }
    }
}

impl State {
    fn batch(&mut self) -> Vec<Job> {
        let mut bytes = 0;
        let fits = |job: &&Job| {
            let first = bytes == 0;
            bytes += job.append.bytes;
            first || bytes <= MAX_BATCH_BYTES
        };
        let count = self.jobs.iter().take(MAX_BATCH).take_while(fits).count();
        let batch: Vec<Job> = self.jobs.drain(..count).collect();
        for job in &batch {
            self.bytes -= job.append.bytes;
            self.urgent -= usize::from(job.urgency == Urgency::Now);
        }
        batch
    }
}
