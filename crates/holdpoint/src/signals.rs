//! The signals that stop the daemon (I12), and the world as its engine sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdpoint_engine::{SystemWorld, World};
use holdpoint_model::ids::Micros;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::signal::unix::{Signal, SignalKind, signal};
use uuid::Uuid;

/// The world, and whether it wants this process to stop.
pub(crate) struct Machine {
    told_to_stop: Arc<AtomicBool>,
}

impl World for Machine {
    fn now(&self) -> Micros {
        SystemWorld.now()
    }

    fn uuid(&self) -> Uuid {
        SystemWorld.uuid()
    }

    fn ordered_uuid(&self) -> Uuid {
        SystemWorld.ordered_uuid()
    }

    fn told_to_stop(&self) -> bool {
        self.told_to_stop.load(Ordering::Relaxed)
    }
}

/// Signals that stop the daemon (I12).
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on the signals end nothing by themselves. The world knows of one at the moment that it comes, whatever
    /// else is going on.
    pub(crate) fn listen() -> anyhow::Result<(Self, Machine)> {
        let told_to_stop = Arc::default();
        for number in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(number, Arc::clone(&told_to_stop))?;
        }
        let signals = Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        };
        Ok((signals, Machine { told_to_stop }))
    }

    /// The next of them. One that comes while nobody waits for it is not lost.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
