//! Modes, formats, the log's size.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use refinery::Migration;

use super::super::open::{self, OpenError};
use super::{Dir, SqliteLedger, events_of, fill, mode, skipped};
use crate::conformance::sample::Book;
use crate::contract::Ledger;

#[tokio::test]
async fn only_the_owner_can_read_it() {
    let dir = Dir::new();
    let below = Dir { path: dir.path.join("a/b"), ..dir };
    let ledger = below.open();
    fill(&ledger, &mut Book::new("s"), 1).await;
    assert_eq!(mode(&below.path), 0o700);
    for name in ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"] {
        assert_eq!(mode(&below.path.join(name)), 0o600, "{name}");
    }
    ledger.shut().await;
    fs::set_permissions(below.file(), fs::Permissions::from_mode(0o644)).unwrap();
    below.open();
    assert_eq!(mode(&below.file()), 0o600);
}

#[tokio::test]
async fn the_log_keeps_its_size() {
    let dir = Dir::new();
    let mut book = Book::new("s");
    let size = |dir: &Dir| fs::metadata(dir.log()).unwrap().len();
    let ledger = dir.open();
    assert_eq!(size(&dir), open::LOG_BYTES);
    fill(&ledger, &mut book, 600).await;
    ledger.shut().await;
    // It was begun again from its start, it did not grow; and closing has not removed it.
    assert_eq!(size(&dir), open::LOG_BYTES);
}

/// A log that is shorter is filled up with zeros, wherever it ends, and every commit in it counts.
#[tokio::test]
async fn a_short_log_is_filled_up_and_loses_nothing() {
    const FRAME: u64 = 4096 + 24;
    const HEADER: u64 = 32;
    let dir = Dir::new();
    let mut book = Book::new("s");
    let ledger = dir.open();
    fill(&ledger, &mut book, 30).await;
    // A copy of the files as a crash leaves them: the log has not been moved.
    let file = fs::read(dir.file()).unwrap();
    let log = fs::read(dir.log()).unwrap();
    drop(ledger);
    let used = {
        // A frame of the log's zeros has no page number.
        let frames = log[HEADER as usize..].chunks(FRAME as usize);
        HEADER + FRAME * frames.take_while(|frame| frame[..4] != [0; 4]).count() as u64
    };
    assert!(used > HEADER + 30 * FRAME && used < log.len() as u64);

    for (cut, whole) in [
        (used, true),
        (used + 1, true),
        (used + HEADER + FRAME / 2, true),
        (used + 40 * FRAME, true),
        (log.len() as u64, true),
        // A commit that the crash cut: gone, with nothing before it.
        (used - 1, false),
        (used - FRAME / 2, false),
    ] {
        let copy = Dir::new();
        fs::write(copy.file(), &file).unwrap();
        fs::write(copy.log(), &log[..cut as usize]).unwrap();
        let ledger = copy.open();
        assert_eq!(fs::metadata(copy.log()).unwrap().len(), log.len() as u64);
        let there = events_of(&ledger, &book).await;
        if whole {
            assert_eq!(there, book.version, "a log of {cut} bytes");
        } else {
            assert_eq!(there, book.version - 1, "a log of {cut} bytes");
        }
        // It goes on from there, over the zeros, and a restart finds both.
        let mut again = book.clone();
        again.version = there;
        fill(&ledger, &mut again, 400).await;
        ledger.shut().await;
        assert_eq!(events_of(&copy.open(), &again).await, again.version);
    }
}

/// A log that never was a log: nothing but zeros, or less than a header.
#[tokio::test]
async fn a_log_without_a_header_is_an_empty_one() {
    let dir = Dir::new();
    let mut book = Book::new("s");
    let ledger = dir.open();
    fill(&ledger, &mut book, 3).await;
    ledger.shut().await;
    // All of it into the file; then SQLite removes its log.
    dir.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    for content in [&b""[..], &[0; 20], &[0; 5000]] {
        fs::write(dir.log(), content).unwrap();
        let ledger = dir.open();
        assert_eq!(events_of(&ledger, &book).await, book.version);
        fill(&ledger, &mut book, 2).await;
        ledger.shut().await;
        dir.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

/// An open that writes nothing uses no number up and touches nothing.
#[tokio::test]
async fn opening_alone_writes_nothing() {
    let dir = Dir::new();
    let mut book = Book::new("s");
    let ledger = dir.open();
    let first = ledger.run();
    fill(&ledger, &mut book, 1).await;
    ledger.shut().await;
    let before = (fs::read(dir.file()).unwrap(), fs::read(dir.log()).unwrap());
    for _ in 0..2 {
        let ledger = dir.open();
        assert_eq!(ledger.run(), first + 1);
        assert_eq!(events_of(&ledger, &book).await, book.version);
        ledger.shut().await;
    }
    assert_eq!((fs::read(dir.file()).unwrap(), fs::read(dir.log()).unwrap()), before);
}

fn next_format() -> Vec<Migration> {
    let mut all = open::migrations();
    let next = all.len() + 1;
    let sql = format!("ALTER TABLE sessions ADD COLUMN colour TEXT; PRAGMA user_version = {next};");
    all.push(Migration::unapplied(&format!("V{next}__colours"), &sql).unwrap());
    all
}

#[tokio::test]
async fn an_older_format_is_brought_up_and_a_newer_one_refused() {
    let dir = Dir::new();
    let mut book = Book::new("s");
    let ledger = dir.open();
    fill(&ledger, &mut book, 5).await;
    ledger.shut().await;

    let newer = SqliteLedger::open_with(&dir.path, &next_format(), Default::default()).unwrap();
    assert_eq!(events_of(&newer, &book).await, book.version);
    fill(&newer, &mut book, 1).await;
    newer.shut().await;

    let error = SqliteLedger::open(&dir.path).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 3, supported: 2, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(dir.file().as_str()) && text.contains("start the version that wrote it"), "{text}");
    // Refusing has changed nothing.
    let newer = SqliteLedger::open_with(&dir.path, &next_format(), Default::default()).unwrap();
    assert_eq!(events_of(&newer, &book).await, book.version);
}

/// A migration that fails leaves the file in its format.
#[tokio::test]
async fn a_failed_migration_changes_nothing() {
    let dir = Dir::new();
    let mut book = Book::new("s");
    let ledger = dir.open();
    fill(&ledger, &mut book, 2).await;
    ledger.shut().await;
    let mut broken = next_format();
    broken.push(Migration::unapplied("V4__broken", "DROP TABLE events; SELECT nonsense;").unwrap());
    let error = SqliteLedger::open_with(&dir.path, &broken, Default::default()).unwrap_err();
    assert!(error.to_string().contains("from format 2 to 4"), "{error}");
    assert_eq!(events_of(&dir.open(), &book).await, book.version);
}

/// A crash between SQLite's and our first steps leaves a file that is taken for a new one.
#[tokio::test]
async fn a_making_that_was_cut_short_is_done_again() {
    for sql in [
        "",
        "PRAGMA journal_mode = WAL;",
        "PRAGMA journal_mode = WAL; CREATE TABLE refinery_schema_history(version INT4 PRIMARY KEY, name VARCHAR(255), \
         applied_on VARCHAR(255), checksum VARCHAR(255));",
    ] {
        let dir = Dir::new();
        dir.sql(sql);
        let mut book = Book::new("s");
        let ledger = dir.open();
        fill(&ledger, &mut book, 2).await;
        ledger.shut().await;
        assert_eq!(events_of(&dir.open(), &book).await, book.version);
    }
}

#[test]
fn what_is_no_ledger_is_refused_and_left_as_it_was() {
    let dir = Dir::new();
    fs::write(dir.file(), b"these are my notes, not a database; they are long enough to have a header")
        .unwrap();
    let error = SqliteLedger::open(&dir.path).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains(dir.file().as_str()), "{error}");
    assert!(fs::read(dir.file()).unwrap().starts_with(b"these are my notes"));

    let dir = Dir::new();
    dir.sql("CREATE TABLE mine (a TEXT)");
    let error = SqliteLedger::open(&dir.path).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    let dir = Dir::new();
    dir.sql("PRAGMA application_id = 7; CREATE TABLE mine (a TEXT)");
    let error = SqliteLedger::open(&dir.path).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
}

#[tokio::test]
async fn damage_that_shows_at_once_is_told() {
    // A table is gone; the row of the file's own is gone.
    for sql in ["DROP TABLE meta", "DELETE FROM meta"] {
        let dir = Dir::new();
        fill(&dir.open(), &mut Book::new("s"), 2).await;
        dir.sql(sql);
        let error = SqliteLedger::open(&dir.path).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{sql}: {error:?}");
    }
    // The first page is rubbish behind its header.
    let dir = Dir::new();
    fill(&dir.open(), &mut Book::new("s"), 2).await;
    dir.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    let mut content = fs::read(dir.file()).unwrap();
    content[100..4096].fill(0xa5);
    fs::File::create(dir.file()).unwrap().write_all(&content).unwrap();
    let error = SqliteLedger::open(&dir.path).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("put a backup in its place"), "{error}");
}

#[test]
fn what_cannot_be_made_or_opened_is_told() {
    let dir = Dir::new();
    fs::write(dir.path.join("file"), "").unwrap();
    let below = dir.path.join("file/below");
    assert!(matches!(SqliteLedger::open(&below).unwrap_err(), OpenError::Directory { .. }));

    fs::create_dir(dir.file()).unwrap();
    assert!(matches!(SqliteLedger::open(&dir.path).unwrap_err(), OpenError::System { .. }));
}

/// Needs a user whom modes concern.
#[test]
fn without_permission_it_says_so() {
    let dir = Dir::new();
    drop(dir.open());
    let set = |mode| fs::set_permissions(dir.file(), fs::Permissions::from_mode(mode)).unwrap();
    set(0o400);
    if fs::OpenOptions::new().append(true).open(dir.file()).is_ok() {
        return skipped("modes do not concern this user (root)", false);
    }
    let error = SqliteLedger::open(&dir.path).unwrap_err();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
    set(0o000);
    let error = SqliteLedger::open(&dir.path).unwrap_err();
    assert!(matches!(error, OpenError::Permission { .. }), "{error:?}");
}
