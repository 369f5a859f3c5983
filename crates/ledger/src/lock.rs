//! One daemon on a data directory (I11).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::files;

/// The file that is locked.
const FILE: &str = "holdpoint.lock";

/// Most that is read of what a holder says of itself.
const MAX_TEXT: usize = 4096;

/// How long the lock of a holder that has died is waited for.
const LETTING_GO: Duration = Duration::from_secs(5);

/// The lock on a data directory, held until it is dropped or the process is gone, however it went.
///
/// It is a lock of the operating system on an open file; the file itself means nothing, so one that was left
/// behind stops no start. What it holds is only for people: who has the lock.
#[derive(Debug)]
pub struct DataDirLock {
    file: File,
    path: Utf8PathBuf,
    /// The holder's own lines, without what [`DataDirLock::describe`] adds.
    who: String,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "the data directory {dir} is in use by another daemon ({holder}); stop that one, or choose another directory with --data-dir"
    )]
    Held {
        /// Which directory.
        dir: Utf8PathBuf,
        /// What the holder says of itself: process id, start, address.
        holder: String,
    },
    /// The directory or the file cannot be used.
    #[error("cannot lock the data directory {dir}: {source}; it must belong to the user who runs the daemon")]
    Io {
        /// Which directory.
        dir: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl DataDirLock {
    /// Takes the lock on `dir`, and makes the directory (mode 0700) where there is none. Who has it is told at once;
    /// only where the holder has died, a few seconds are waited for what it was about to start.
    ///
    /// # Errors
    /// Another process holds it, or the system refuses.
    pub fn acquire(dir: &Utf8Path) -> Result<Self, LockError> {
        let io = |source| LockError::Io { dir: dir.to_owned(), source };
        files::private_dir(dir).map_err(io)?;
        let path = dir.join(FILE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let said = said(&file);
                    if !has_died(&said) || since.elapsed() > LETTING_GO {
                        return Err(LockError::Held { dir: dir.to_owned(), holder: holder(&said) });
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
        }
        let since = jiff::Timestamp::try_from(SystemTime::now())
            .map(|now| now.round(jiff::Unit::Second).unwrap_or(now).to_string())
            .unwrap_or_else(|_| "an unknown time".to_owned());
        let who = format!("process {}\nsince {since}\n", std::process::id());
        let lock = Self { file, path, who };
        lock.write("").map_err(io)?;
        Ok(lock)
    }

    /// Says more about this holder to whoever is refused: its address, once it has one. Replaces what was said
    /// before.
    pub fn describe(&self, text: &str) {
        if let Err(error) = self.write(&format!("{text}\n")) {
            // Only words; the lock holds.
            tracing::warn!(path = %self.path, %error, "cannot write who holds the lock");
        }
    }

    fn write(&self, more: &str) -> io::Result<()> {
        let text = format!("{}{more}", self.who);
        // The whole text first, then the end: a reader in between never finds nothing.
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)?;
        (&self.file).flush()
    }
}

/// What the holder wrote.
fn said(file: &File) -> String {
    let mut text = vec![0; MAX_TEXT];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    String::from_utf8_lossy(&text[..length]).into_owned()
}

/// The same in one line, for people.
fn holder(said: &str) -> String {
    let said = said.lines().map(str::trim).collect::<Vec<_>>().join(", ");
    if said.is_empty() { "it has not said which".to_owned() } else { said }
}

/// Whether the process that took the lock is gone. What still holds it then is a child that it was about to start: such
/// a one has the open file until it runs its own program.
fn has_died(said: &str) -> bool {
    let pid = said.strip_prefix("process ").and_then(|rest| rest.lines().next()?.parse().ok());
    let Some(pid) = pid.and_then(Pid::from_raw) else { return false };
    test_kill_process(pid) == Err(Errno::SRCH)
}
