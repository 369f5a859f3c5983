//! Tests of what is SQLite's own; the suite is `conformance`.

mod damage;
mod differential;
mod failures;
mod formats;
mod fsync;
mod opening;
mod plans;
mod queueing;
mod suite;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use tempfile::TempDir;

use super::faults::Faults;
use super::{SqliteLedger, open};
use crate::conformance::sample::Book;
use crate::contract::Ledger;

/// A directory of a test's own.
struct Dir {
    _keep: TempDir,
    path: Utf8PathBuf,
}

impl Dir {
    fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(keep.path().to_owned()).unwrap();
        Self { _keep: keep, path }
    }

    fn file(&self) -> Utf8PathBuf {
        self.path.join(open::FILE)
    }

    fn log(&self) -> Utf8PathBuf {
        self.path.join(format!("{}-wal", open::FILE))
    }

    fn open(&self) -> SqliteLedger {
        SqliteLedger::open(&self.path).unwrap()
    }

    /// Opens it so that the next so many commits fail.
    fn open_faulty(&self) -> (SqliteLedger, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let ledger = SqliteLedger::open_with(&self.path, &open::migrations(), Arc::clone(&faults)).unwrap();
        (ledger, faults)
    }

    /// What an operator's own tool would do to it.
    fn sql(&self, sql: &str) {
        Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }
}

/// Commits so many titles to a session that is opened first if need be.
async fn fill(ledger: &dyn Ledger, book: &mut Book, titles: i64) {
    if book.version == 0 {
        ledger.append(book.open(1)).await.unwrap();
    }
    for number in 0..titles {
        ledger.append(book.title(number, &format!("title {number}"))).await.unwrap();
    }
}

async fn events_of(ledger: &dyn Ledger, book: &Book) -> u64 {
    ledger.events(&book.row.session).await.unwrap().len() as u64
}

fn fail_commits(faults: &Faults, times: u32) {
    faults.fsync.store(times, Ordering::SeqCst);
}

fn mode(path: &Utf8Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Says in one line that the rest of the test is not run, and why. Where `CI` is set and what is missing could be
/// had there, that is a failure: a proof that is silently left out is none.
#[track_caller]
fn skipped(why: &str, could_be_had: bool) {
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!(ci && could_be_had), "this must not be skipped where CI is set: {why}");
    eprintln!("SKIPPED: {why}");
}

/// Whether this process may mount: as root, and not in a container that was denied it (`CAP_SYS_ADMIN`).
fn may_mount() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & SYS_ADMIN != 0)
}
