//! Opening the file: modes, the log's size, settings, the format's version.

use std::fs;
use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use refinery::{Migration, Runner};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::log_header;
use crate::files;

/// The ledger's file in the data directory.
pub(super) const FILE: &str = "ledger.sqlite";

/// "Hold": says that a SQLite file is one of ours.
const APPLICATION_ID: i64 = 1_215_261_796;

/// How many frames the write-ahead log may hold before they are moved into the file. Small enough that the move
/// is short, large enough that it is rare.
pub(super) const CHECKPOINT_FRAMES: i64 = 250;

/// The size that the log has from the start: a little more than [`CHECKPOINT_FRAMES`] frames. A commit that
/// makes a file grow waits for the file system's journal as well as for the data; with the log at its size before
/// the first commit, none does.
pub(super) const LOG_BYTES: u64 = 1_100 * 1024;

/// How long a lock is waited for. Only an operator's own `sqlite3` can hold one: other daemons are kept off by the
/// lock on the data directory.
const BUSY: Duration = Duration::from_secs(2);

/// Statements that a connection keeps prepared: more than either side has.
const STATEMENTS: usize = 64;

/// Why the ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory cannot be made.
    #[error("cannot make the data directory {dir}: {source}; choose another with --data-dir")]
    Directory {
        /// Which.
        dir: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This user may not read or write it.
    #[error(
        "no permission to use the ledger {path} ({detail}); it and its directory must belong to the user who runs the daemon"
    )]
    Permission {
        /// Which file.
        path: Utf8PathBuf,
        /// What was refused.
        detail: String,
    },
    /// It can be read and not written.
    #[error(
        "the ledger {path} is read-only; a daemon that cannot write it must not accept answers: make the file, its directory and its file system writable, or choose another with --data-dir"
    )]
    ReadOnly {
        /// Which file.
        path: Utf8PathBuf,
    },
    /// A newer version of the program made it.
    #[error(
        "the ledger {path} has format {found}, and this version reads formats up to {supported}; start the version that wrote it, or a newer one"
    )]
    Newer {
        /// Which file.
        path: Utf8PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that is known here.
        supported: i64,
    },
    /// It is a database of something else.
    #[error(
        "{path} is a database, but not a ledger of this program ({detail}); move it away, or choose another directory with --data-dir"
    )]
    Foreign {
        /// Which file.
        path: Utf8PathBuf,
        /// How that shows.
        detail: String,
    },
    /// Its content is damaged, or it is no database at all.
    #[error(
        "the ledger {path} is damaged ({detail}); put a backup in its place, or move it and its -wal file away to start with an empty one: transcripts are kept elsewhere and stay, answers that were not delivered yet are lost"
    )]
    Damaged {
        /// Which file.
        path: Utf8PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Another process has locked it.
    #[error(
        "another process has locked the ledger {path}; close other programs that have it open, then start again"
    )]
    Busy {
        /// Which file.
        path: Utf8PathBuf,
    },
    /// There is no room.
    #[error("no room to open the ledger {path}: {detail}; free some space, then start again")]
    Full {
        /// Which file.
        path: Utf8PathBuf,
        /// What was refused.
        detail: String,
    },
    /// The system refused otherwise.
    #[error("cannot open the ledger {path}: {detail}")]
    System {
        /// Which file.
        path: Utf8PathBuf,
        /// What was refused.
        detail: String,
    },
}

impl OpenError {
    fn sqlite(path: &Utf8Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged { path, detail },
            Some(ErrorCode::PermissionDenied) => Self::Permission { path, detail },
            // SQLite does not say why; the system does.
            Some(ErrorCode::CannotOpen) => match fs::OpenOptions::new().append(true).open(&path) {
                Err(error) => Self::io(&path, &error),
                Ok(_) => Self::System { path, detail },
            },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DiskFull) => Self::Full { path, detail },
            // Our own statements do not fit the tables, or a value is not of its column's type.
            Some(ErrorCode::Unknown) | None => Self::Damaged { path, detail },
            Some(_) => Self::System { path, detail },
        }
    }

    fn io(path: &Utf8Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { path, detail },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::StorageFull => Self::Full { path, detail },
            _ => Self::System { path, detail },
        }
    }
}

/// What the file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// Drawn when it was made.
    pub(super) identity: String,
    /// The last run that wrote to it.
    pub(super) run: u64,
}

/// An open file.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) meta: Meta,
    /// It was made just now, and is not durable yet: see [`make_durable`].
    pub(super) fresh: bool,
}

/// Every format there was, oldest first. A format that was released is never edited.
pub(super) fn migrations() -> Vec<Migration> {
    let formats = [
        ("V1__ledger", include_str!("../../migrations/V1__ledger.sql")),
        ("V2__lists", include_str!("../../migrations/V2__lists.sql")),
    ];
    formats
        .into_iter()
        .map(|(name, sql)| Migration::unapplied(name, sql).expect("the name is one that refinery takes"))
        .collect()
}

/// Opens the ledger in `dir`, makes it where there is none, and brings an older one up to the newest format.
pub(super) fn open(dir: &Utf8Path, migrations: &[Migration]) -> Result<Opened, OpenError> {
    files::private_dir(dir).map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })?;
    let path = dir.join(FILE);
    let log = Utf8PathBuf::from(format!("{path}-wal"));
    if !path.exists() {
        files::private_file(&path).map_err(|error| OpenError::io(&path, &error))?;
    }
    for path in [&path, &log, &Utf8PathBuf::from(format!("{path}-shm"))] {
        files::make_private(path);
    }
    let empty = fs::metadata(&path).is_ok_and(|meta| meta.len() == 0);
    match log_header::damage(&log, empty) {
        Ok(None) => {}
        Ok(Some(detail)) => return Err(OpenError::Damaged { path, detail: detail.to_owned() }),
        Err(error) => return Err(OpenError::io(&log, &error)),
    }
    // SQLite removes the log of an empty file, so that one gets its size only when it has a content.
    if !empty {
        extend_log(&log);
    }
    let mut connection = connect(&path, true).map_err(|error| OpenError::sqlite(&path, &error))?;
    let fresh = bring_up(&mut connection, &path, migrations)?;
    if fresh {
        extend_log(&log);
    }
    let meta = meta(&connection).map_err(|error| OpenError::sqlite(&path, &error))?;
    Ok(Opened { connection, meta, fresh })
}

/// Gives the log its size ([`LOG_BYTES`]). Zeros after the last frame are what SQLite finds wherever a log is
/// used again from its start: a frame counts only with the log's own salts, a page number and a checksum that
/// continues the one before, and a frame of zeros has none. A log that is all zeros is an empty one. That it
/// cannot be extended is no reason not to open: commits are slower then, or say themselves what is wrong.
fn extend_log(log: &Utf8Path) {
    if let Err(error) = files::extend_with_zeros(log, LOG_BYTES) {
        tracing::warn!(%log, %error, "cannot give the ledger's log its size; commits will be slower");
    }
}

/// A connection that reads and writes.
pub(super) fn connect(path: &Utf8Path, set_up: bool) -> rusqlite::Result<Connection> {
    // Never `CREATE`: a file that vanished under a running daemon must not come back empty.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // What cannot be opened for writing is opened for reading, without an error.
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY),
            Some(format!("{path} is read-only")),
        ));
    }
    settings(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // The writer moves the log itself, after it has answered: see `CHECKPOINT_FRAMES`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    if set_up {
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode != "wal" {
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        }
    }
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn connect_reader(path: &Utf8Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    settings(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A close that moved the log would also remove it, and the next start would have to let it grow again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A read error in a mapped file is a signal that kills the process.
    connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(())).or_else(|error| match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        other => Err(other),
    })?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Finds some damage where it is read, for next to nothing.
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)
}

/// Brings the file to the newest format; says whether it was empty.
fn bring_up(
    connection: &mut Connection,
    path: &Utf8Path,
    migrations: &[Migration],
) -> Result<bool, OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    let supported = migrations.iter().map(|migration| i64::from(migration.version())).max().unwrap_or(0);
    let pragma = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
    };
    let application = pragma(connection, "application_id").map_err(sqlite)?;
    let found = pragma(connection, "user_version").map_err(sqlite)?;
    let fresh = application == 0 && found == 0;
    if fresh {
        // Refinery makes its table before the first migration; a crash between leaves only that.
        let others: i64 = connection
            .query_row(
                "SELECT count(*) FROM sqlite_schema WHERE tbl_name <> 'refinery_schema_history'",
                [],
                |row| row.get(0),
            )
            .map_err(sqlite)?;
        if others > 0 {
            return Err(OpenError::Foreign {
                path: path.to_owned(),
                detail: "it has other tables".to_owned(),
            });
        }
    } else if application != APPLICATION_ID {
        let detail = format!("its application id is {application}");
        return Err(OpenError::Foreign { path: path.to_owned(), detail });
    }
    if found > supported {
        return Err(OpenError::Newer { path: path.to_owned(), found, supported });
    }
    if found < supported {
        if !fresh {
            connection.pragma_update(None, "synchronous", "FULL").map_err(sqlite)?;
            tracing::info!(%path, from = found, to = supported, "bringing the ledger to a newer format");
        }
        // All or nothing: a migration and the note that it was made are one transaction.
        Runner::new(migrations).set_grouped(true).run(connection).map_err(|error| {
            let detail = format!("cannot bring it from format {found} to {supported}: {error}");
            match std::error::Error::source(&error).and_then(|source| source.downcast_ref()) {
                Some(sqlite) => match OpenError::sqlite(path, sqlite) {
                    OpenError::Damaged { path, .. } => OpenError::Damaged { path, detail },
                    other => other,
                },
                None => OpenError::Damaged { path: path.to_owned(), detail },
            }
        })?;
        let now = pragma(connection, "user_version").map_err(sqlite)?;
        if now != supported {
            let detail = format!("it has format {now} after it was brought to {supported}");
            return Err(OpenError::Damaged { path: path.to_owned(), detail });
        }
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(sqlite)?;
    Ok(fresh)
}

/// What the file says of itself.
pub(super) fn meta(connection: &Connection) -> rusqlite::Result<Meta> {
    connection.query_row("SELECT identity, run FROM meta WHERE ref = 1", [], |row| {
        Ok(Meta { identity: row.get(0)?, run: row.get(1)? })
    })
}

/// Makes a new file durable, with its name. It was made without a single wait for the disk, so that a first start
/// is as quick as any; the writer does this before its first commit. SQLite itself moves the log into the file
/// and syncs both.
pub(super) fn make_durable(connection: &Connection, dir: &Utf8Path) -> rusqlite::Result<()> {
    checkpoint(connection)?;
    let sync = |dir: &Utf8Path| {
        files::sync_dir(dir).map_err(|error| {
            rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC),
                Some(format!("{dir}: {error}")),
            )
        })
    };
    sync(dir)?;
    // The directory's own name, in case it was made just now. One above that may not be read was there before.
    if let Some(parent) = dir.parent().filter(|parent| fs::File::open(parent).is_ok()) {
        sync(parent)?;
    }
    Ok(())
}

/// How many frames the log holds.
pub(super) fn log_frames(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?.query_row([], |row| row.get(1))
}

/// Moves the log's frames into the file as far as no reader needs them, so that the next commit can begin it
/// again.
pub(super) fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?.query_row([], |_| Ok(()))
}

/// Moves all of the log into the file, syncs that, and has the next commit begin the log again.
pub(super) fn begin_log_anew(connection: &Connection) -> rusqlite::Result<()> {
    let (busy, frames, moved): (bool, i64, i64) = connection
        .prepare_cached("PRAGMA wal_checkpoint(RESTART)")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if busy || frames != moved {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some(format!("{moved} of {frames} frames of the log could be moved")),
        ));
    }
    Ok(())
}
