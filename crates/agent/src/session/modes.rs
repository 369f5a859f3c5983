//! The approval mode of a session and what people allowed for its life. A turn reads it before each call, so
//! that a change counts from the next call on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::tools::ApprovalMode;

/// Shared between a session and its turn.
#[derive(Clone, Debug)]
pub(crate) struct Modes(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    mode: ApprovalMode,
    granted: BTreeSet<&'static str>,
}

impl Modes {
    pub(crate) fn new(mode: ApprovalMode) -> Self {
        Self(Arc::new(Mutex::new(Inner { mode, granted: BTreeSet::new() })))
    }

    pub(crate) fn mode(&self) -> ApprovalMode {
        self.lock().mode
    }

    /// Sets the mode; what was granted before is asked for again.
    pub(crate) fn set(&self, mode: ApprovalMode) {
        let mut inner = self.lock();
        inner.mode = mode;
        inner.granted.clear();
    }

    pub(crate) fn is_granted(&self, tool: &str) -> bool {
        self.lock().granted.contains(tool)
    }

    pub(crate) fn grant(&self, tool: &'static str) {
        self.lock().granted.insert(tool);
    }

    /// The modes as ACP shows them.
    pub(crate) fn to_value(&self) -> Value {
        let available: Vec<Value> = ApprovalMode::ALL
            .iter()
            .map(|mode| json!({ "id": mode.id(), "name": mode.name(), "description": mode.description() }))
            .collect();
        json!({ "currentModeId": self.mode().id(), "availableModes": available })
    }

    /// No code can panic while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
