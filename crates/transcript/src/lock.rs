//! The lock on an open transcript: one writer at a time, gone with its process.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// The first and the longest pause between two tries: short enough that a restart does not feel it.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Why the lock was not taken.
pub(crate) enum LockError {
    /// Somebody else holds it.
    Held(Option<u32>),
    /// The system refused.
    Io(io::Error),
}

/// Takes the exclusive lock, waiting up to `wait` for an earlier process to end.
pub(crate) fn take(file: &File, wait: Duration) -> Result<(), LockError> {
    let until = Instant::now() + wait;
    let mut pause = PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let now = Instant::now();
        if now >= until {
            return Err(LockError::Held(holder(file)));
        }
        std::thread::sleep(pause.min(until - now));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The process that holds the lock, where the system lists its locks.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (kind, _mode, access) = (fields.next()?, fields.next()?, fields.next()?);
        let (pid, place) = (fields.next()?, fields.next()?);
        let held = kind == "FLOCK" && access == "WRITE" && place.rsplit(':').next() == Some(inode.as_str());
        held.then(|| pid.parse().ok()).flatten()
    })
}
