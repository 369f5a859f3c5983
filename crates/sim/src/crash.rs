//! When the daemon dies: after a number of writes and sends, just before or just after one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A crash that is to come. Every write and send counts as a point.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    left: Arc<AtomicU64>,
    crashed: Arc<AtomicBool>,
    after: bool,
}

impl Crash {
    /// Dies at the `n`th point: before what it guards is done, or after.
    pub(crate) fn at(n: u64, after: bool) -> Self {
        Self { left: Arc::new(AtomicU64::new(n)), crashed: Arc::default(), after }
    }

    /// Never dies.
    pub(crate) fn never() -> Self {
        Self::at(u64::MAX, false)
    }

    /// Whether it has died. Nothing that happens from then on is seen by anybody.
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
}
