//! The ledger that survives: in memory, or a real SQLite file. Each life opens it anew.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use camino::Utf8Path;
use holdpoint_ledger::{Ledger, MemoryLedger, Reply, SqliteLedger};
use tempfile::TempDir;

/// A store that outlives the daemon.
pub(crate) enum Durable {
    /// Quick: most seeds.
    Memory(MemoryLedger),
    /// What a daemon has.
    Sqlite(TempDir),
}

impl Durable {
    /// An empty one, in memory.
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryLedger::new())
    }

    /// An empty one, in a file. In memory too where the system has such a place: an fsync shows nothing here.
    pub(crate) fn sqlite() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::Sqlite(dir.expect("a simulation needs a place for its files"))
    }

    /// Opens it for one life. What an earlier life had open must be closed.
    pub(crate) fn open(&self) -> Arc<dyn Ledger> {
        match self {
            Self::Memory(ledger) => Arc::new(ledger.reopen()),
            Self::Sqlite(dir) => {
                let dir = Utf8Path::from_path(dir.path()).expect("a directory of ours has a plain name");
                Arc::new(SqliteLedger::open(dir).expect("a ledger that nobody damaged can be opened"))
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a ledger, on this thread: the simulated clock must not go on meanwhile, and nobody else may act.
pub(crate) fn now<T>(reply: Reply<T>) -> T {
    // A ledger's future may not be put off because its task has done much already.
    let mut reply = Box::pin(tokio::task::unconstrained(reply));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match reply.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
