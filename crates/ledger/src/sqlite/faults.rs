//! Failures that a test can ask for where the system gives none at will.

use std::sync::atomic::{AtomicU32, Ordering};

/// What is to fail.
#[derive(Default)]
pub(super) struct Faults {
    /// So many commits fail as if the disk had refused the fsync.
    pub(super) fsync: AtomicU32,
}

impl Faults {
    /// Called where a commit would follow.
    pub(super) fn before_commit(&self) -> rusqlite::Result<()> {
        let left = self.fsync.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC),
                Some("disk I/O error".to_owned()),
            )),
            Err(_) => Ok(()),
        }
    }
}
