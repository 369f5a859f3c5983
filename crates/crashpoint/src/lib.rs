//! Named places where a test can have the process die by SIGKILL, so that "a crash right there" is exact.
//!
//! Without the feature `enabled`, [`hit`] is an empty function, and no environment variable means anything.

/// The variable that names the point: `name`, or `name:3` for the third time that it is reached.
pub const VARIABLE: &str = "HOLDPOINT_CRASH_AT";

/// Marks a place. A point whose name starts with `agent.` takes the daemon (the parent process) down first,
/// so that the daemon learns nothing of its agent's end.
#[cfg(not(feature = "enabled"))]
#[inline(always)]
pub fn hit(_name: &str) {}

/// Marks a place: kills this process by SIGKILL if [`VARIABLE`] names it. A point whose name starts with
/// `agent.` takes the daemon (the parent process) down first, so that the daemon learns nothing of its
/// agent's end.
#[cfg(feature = "enabled")]
pub fn hit(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, getppid, kill_process};

    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static REACHED: AtomicU32 = AtomicU32::new(0);

    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var(VARIABLE).ok()?;
        Some(match value.split_once(':') {
            Some((name, nth)) => (name.to_owned(), nth.parse().unwrap_or(1)),
            None => (value, 1),
        })
    });
    let Some((wanted, nth)) = wanted else { return };
    if wanted != name || REACHED.fetch_add(1, Ordering::SeqCst) + 1 != *nth {
        return;
    }
    if name.starts_with("agent.")
        && let Some(parent) = getppid()
    {
        let _ = kill_process(parent, Signal::KILL);
    }
    let _ = kill_process(getpid(), Signal::KILL);
    // SIGKILL to oneself is delivered before the call returns to user code; should it ever not be, nothing
    // after this point may run.
    loop {
        std::thread::park();
    }
}

/// Whether a test wants what follows never to happen, so that it can kill the process itself in between: the
/// caller then leaves it undone.
#[cfg(not(feature = "enabled"))]
#[inline(always)]
pub fn withheld(_name: &str) -> bool {
    false
}

/// Whether a test wants what follows never to happen, so that it can kill the process itself in between: the
/// caller then leaves it undone.
#[cfg(feature = "enabled")]
pub fn withheld(name: &str) -> bool {
    std::env::var("HOLDPOINT_WITHHOLD").is_ok_and(|wanted| wanted == name)
}
