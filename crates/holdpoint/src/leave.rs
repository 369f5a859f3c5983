//! Signals that make a command leave: whoever is attached to a session gives its place back first.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};

/// What makes a command leave, and the exit code that says so.
const REASONS: [(SignalKind, Exit); 3] = [
    (SignalKind::interrupt(), Exit::Interrupted),
    (SignalKind::terminate(), Exit::Terminated),
    (SignalKind::hangup(), Exit::HungUp),
];

/// Listens for them from its making on: none of them ends the process by itself any more.
pub(crate) struct Leave {
    signals: Vec<(Signal, Exit)>,
}

impl Leave {
    /// # Errors
    /// The system lets nobody listen.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let mut signals = Vec::new();
        for (kind, exit) in REASONS {
            // `nohup`, and a shell for its background jobs, have one ignored. To listen would undo it.
            if ignored & (1 << (kind.as_raw_value() - 1)) != 0 {
                continue;
            }
            let signal =
                signal(kind).map_err(|error| Failure::new(Exit::Error, "signals", error.to_string()))?;
            signals.push((signal, exit));
        }
        Ok(Self { signals })
    }

    /// Waits for the next one. Nothing is lost if the future is dropped before it is ready.
    pub(crate) async fn next(&mut self) -> Exit {
        std::future::poll_fn(|context| {
            let came = self.signals.iter_mut().find_map(|(signal, exit)| match signal.poll_recv(context) {
                std::task::Poll::Ready(_) => Some(*exit),
                std::task::Poll::Pending => None,
            });
            came.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }

    /// Does this, unless a signal comes first.
    ///
    /// # Errors
    /// Those of the work; and that a signal came: what the daemon made of the work is not known then.
    pub(crate) async fn unless<T, E: Into<Failure>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done.map_err(Into::into),
            exit = self.next() => Err(Failure::new(exit, "interrupted", "interrupted before it was done")),
        }
    }
}

/// The signals that this process was started with as ignored, a bit each; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
