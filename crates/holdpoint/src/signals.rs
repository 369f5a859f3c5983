//! The signals that stop the daemon (I12), and the world as its engine sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdpoint_engine::{SystemWorld, World};
use holdpoint_model::ids::Micros;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::sync::mpsc;
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
const KINDS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];
/// Signals that may wait to be looked at. More say nothing new.
const ROOM: usize = 8;
/// How long a stop may take from its signal on, whatever the daemon is busy with. What is stored by then stays, as after
/// a crash.
const HARD_LIMIT: Duration = Duration::from_secs(3);

/// The signals that have come.
pub(crate) struct Signals {
    names: mpsc::Receiver<&'static str>,
}

impl Signals {
    /// From now on the signals end nothing by themselves. The world knows of one at the moment that it comes, whatever
    /// else is going on.
    pub(crate) fn listen() -> anyhow::Result<(Self, Machine)> {
        let told_to_stop = Arc::default();
        for number in KINDS {
            signal_hook::flag::register(number, Arc::clone(&told_to_stop))?;
        }
        let mut incoming = signal_hook::iterator::Signals::new(KINDS)?;
        let (tell, names) = mpsc::channel(ROOM);
        // A thread of its own: the daemon may have seconds of work before it comes to look.
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut counting = false;
            for number in incoming.forever() {
                let _ = tell.try_send(name(number));
                if !counting {
                    counting = true;
                    std::thread::spawn(|| {
                        std::thread::sleep(HARD_LIMIT);
                        std::process::exit(0);
                    });
                }
            }
        })?;
        Ok((Self { names }, Machine { told_to_stop }))
    }

    /// The next of them. One that comes while nobody waits for it is not lost.
    pub(crate) async fn next(&mut self) -> &'static str {
        match self.names.recv().await {
            Some(name) => name,
            // The thread that tells of them lives as long as the process.
            None => std::future::pending().await,
        }
    }
}

fn name(number: i32) -> &'static str {
    match number {
        SIGTERM => "SIGTERM",
        SIGINT => "SIGINT",
        _ => "SIGHUP",
    }
}
