//! When processes die: after a number of writes and sends, just before or just after one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A death of the daemon that is to come. Every write and send counts as a point.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    left: Arc<AtomicU64>,
    crashed: Arc<AtomicBool>,
    after: bool,
    /// Writes that an agent, which has not noticed yet, still does.
    orphaned: Arc<AtomicU64>,
}

impl Crash {
    /// Dies at the `n`th point: before what it guards is done, or after. The agents still do so many writes.
    pub(crate) fn at(n: u64, after: bool, orphaned: u64) -> Self {
        Self {
            left: Arc::new(AtomicU64::new(n)),
            crashed: Arc::default(),
            after,
            orphaned: Arc::new(AtomicU64::new(orphaned)),
        }
    }

    /// Never dies.
    pub(crate) fn never() -> Self {
        Self::at(u64::MAX, false, 0)
    }

    /// Whether it has died. Nothing that the daemon does from then on is seen by anybody.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    /// A point: `Some(true)` does it and dies, `Some(false)` dies without it, `None` goes on.
    pub(crate) fn point(&self) -> Option<bool> {
        if self.has_crashed() {
            return Some(false);
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) > 1 {
            return None;
        }
        self.crashed.store(true, Ordering::SeqCst);
        Some(self.after)
    }

    /// A write of an agent: a point as any other, but an agent does not die in the same moment as its daemon.
    pub(crate) fn agent_write(&self) -> Option<bool> {
        let mut done = false;
        if !self.has_crashed() {
            match self.point() {
                None => return None,
                Some(after) => done = after,
            }
        }
        let left = self.orphaned.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_ok() { None } else { Some(done) }
    }
}

/// A death of one agent process, at one of its writes.
#[derive(Debug)]
pub(crate) struct Fuse {
    left: AtomicU64,
    after: bool,
}

impl Fuse {
    /// Burns down at the `n`th write, before it or after; 0 is never.
    pub(crate) fn new(n: u64, after: bool) -> Self {
        Self { left: AtomicU64::new(if n == 0 { u64::MAX } else { n }), after }
    }

    /// One write: `Some(true)` does it and dies, `Some(false)` dies without it, `None` goes on.
    pub(crate) fn burn(&self) -> Option<bool> {
        (self.left.fetch_sub(1, Ordering::SeqCst) <= 1).then_some(self.after)
    }
}
