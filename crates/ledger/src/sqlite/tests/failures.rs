//! Disks that refuse.

use std::process::Command;

use camino::Utf8PathBuf;
use rusqlite::Connection;

use super::super::open::OpenError;
use super::{Dir, SqliteLedger, events_of, fail_commits, fill, may_mount, skipped};
use crate::conformance::sample::{Book, session_id};
use crate::contract::{AppendError, Ledger};

fn unavailable(outcome: &Result<(), AppendError>) -> String {
    match outcome {
        Err(AppendError::Unavailable(why)) => why.clone(),
        other => panic!("expected a refusal, found {other:?}"),
    }
}

/// A failed commit refuses the whole batch, stores nothing of it, and the next one is taken.
#[tokio::test]
async fn i1_a_failed_commit_acknowledges_nothing_and_heals() {
    let dir = Dir::new();
    let (ledger, faults) = dir.open_faulty();
    let mut book = Book::new("s");
    fill(&ledger, &mut book, 3).await;
    for round in 0..3 {
        let before = (book.clone(), Book::new("other"));
        fail_commits(&faults, 1);
        // Lazy first, so that both are in one batch.
        let mut other = before.1.clone().open(1);
        other.urgency = crate::contract::Urgency::Lazy;
        let lazy = ledger.append(other);
        let urgent = ledger.append(before.0.clone().ask(9, "a").0);
        let why = unavailable(&urgent.await);
        assert!(why.contains("disk I/O error"), "{why}");
        unavailable(&lazy.await);
        assert_eq!(events_of(&ledger, &book).await, book.version);
        assert_eq!(events_of(&ledger, &before.1).await, 0);
        assert_eq!(ledger.counts().await.unwrap().open, 0);
        // The same again is taken, at the version that was refused.
        fill(&ledger, &mut book, round + 1).await;
    }
    ledger.shut().await;
    assert_eq!(events_of(&dir.open(), &book).await, book.version);
}

/// What was committed without an fsync is not left in a log that a failed one may have made holes in.
#[tokio::test]
async fn i1_after_a_failed_fsync_the_log_begins_anew_where_something_was_not_synced() {
    for unsynced in [false, true] {
        let dir = Dir::new();
        let (ledger, faults) = dir.open_faulty();
        let mut book = Book::new("s");
        fill(&ledger, &mut book, 3).await;
        if unsynced {
            let mut later = book.title(5, "later");
            later.urgency = crate::contract::Urgency::Lazy;
            ledger.append(later).await.unwrap();
        }
        // The salts in the log's header are new whenever it begins anew.
        let salts = || std::fs::read(dir.log()).unwrap()[16..24].to_vec();
        let before = salts();
        fail_commits(&faults, 1);
        unavailable(&ledger.append(book.clone().title(6, "refused")).await);
        fill(&ledger, &mut book, 1).await;
        assert_eq!(salts() != before, unsynced);
        ledger.shut().await;
        assert_eq!(events_of(&dir.open(), &book).await, book.version);
    }
}

/// While the disk refuses, everything is refused; the number of the run is in the file with the first commit.
#[tokio::test]
async fn a_disk_that_keeps_refusing_is_asked_again_with_every_batch() {
    let dir = Dir::new();
    let (ledger, faults) = dir.open_faulty();
    let run = ledger.run();
    fail_commits(&faults, 5);
    let mut book = Book::new("s");
    let first = book.open(1);
    for _ in 0..5 {
        unavailable(&ledger.append(first.clone()).await);
    }
    assert_eq!(ledger.append(first).await, Ok(()));
    ledger.shut().await;
    let ledger = dir.open();
    assert_eq!(ledger.run(), run + 1);
    assert_eq!(events_of(&ledger, &book).await, 1);
}

/// A file that was put in the ledger's place is not written to.
#[tokio::test]
async fn another_file_in_its_place_is_not_taken_for_it() {
    let dir = Dir::new();
    let other = Dir::new();
    fill(&other.open(), &mut Book::new("theirs"), 1).await;
    let (ledger, faults) = dir.open_faulty();
    let mut book = Book::new("s");
    fill(&ledger, &mut book, 3).await;
    for name in ["ledger.sqlite", "ledger.sqlite-wal"] {
        std::fs::rename(other.path.join(name), dir.path.join(name)).unwrap();
    }
    fail_commits(&faults, 1);
    unavailable(&ledger.append(book.clone().title(9, "a")).await);
    let why = unavailable(&ledger.append(book.clone().title(9, "a")).await);
    assert!(why.contains("replaced by another ledger"), "{why}");
    drop(ledger);
    assert_eq!(events_of(&dir.open(), &Book::new("theirs")).await, 2);

    // A file that is gone does not come back empty.
    let dir = Dir::new();
    let (ledger, faults) = dir.open_faulty();
    fill(&ledger, &mut Book::new("s"), 1).await;
    std::fs::remove_file(dir.file()).unwrap();
    fail_commits(&faults, 1);
    unavailable(&ledger.append(Book::new("t").open(1)).await);
    unavailable(&ledger.append(Book::new("t").open(1)).await);
    assert!(!dir.file().exists());
}

/// A writer elsewhere, which only an operator's tool can be: refused after a wait, and nothing is in doubt.
#[tokio::test]
async fn a_locked_file_refuses_and_recovers() {
    let dir = Dir::new();
    let ledger = dir.open();
    let mut book = Book::new("s");
    fill(&ledger, &mut book, 1).await;
    let tool = Connection::open(dir.file()).unwrap();
    tool.execute_batch("BEGIN IMMEDIATE").unwrap();
    let why = unavailable(&ledger.append(book.clone().title(9, "a")).await);
    assert!(why.contains("locked"), "{why}");
    tool.execute_batch("ROLLBACK").unwrap();
    fill(&ledger, &mut book, 1).await;
}

/// What the writer remembers of rows holds only while nobody else writes them; that somebody did is found out.
#[tokio::test]
async fn what_another_program_changes_is_found_out() {
    let dir = Dir::new();
    let ledger = dir.open();
    let mut book = Book::new("s");
    fill(&ledger, &mut book, 2).await;
    let (append, question) = book.ask(3, "a");
    ledger.append(append).await.unwrap();

    dir.sql("UPDATE sessions SET version = 99");
    let outcome = ledger.append(book.clone().title(9, "a")).await;
    assert_eq!(outcome, Err(AppendError::Conflict { expected: book.version, actual: 99 }));
    dir.sql(&format!("UPDATE sessions SET version = {}", book.version));
    fill(&ledger, &mut book, 1).await;

    // A question whose row is gone is stored anew.
    dir.sql("DELETE FROM requests; DELETE FROM bodies; DELETE FROM questions");
    ledger.append(book.settle(9, &question).0).await.unwrap();
    assert!(ledger.question(&question.id).await.unwrap().is_some_and(|row| !row.question.is_open()));
    assert!(ledger.question_by_request(&question.requests[0]).await.unwrap().is_some());
}

/// A small file system of a test's own.
struct Small(Dir);

impl Small {
    /// `None`, with a line that says so, where this user may not mount.
    fn mount(options: &str) -> Option<Self> {
        let dir = Dir::new();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "ledger-test", dir.path.as_str()])
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            skipped("this user may not mount a small file system", may_mount());
        }
        mounted.then_some(Self(dir))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(
            Command::new("mount").args(["-o", &options, self.0.path.as_str()]).status().unwrap().success()
        );
    }

    fn ballast(&self) -> Utf8PathBuf {
        self.0.path.join("ballast")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path.as_str()).status();
    }
}

/// A full disk refuses; what was acknowledged stays readable; room makes it work again, without a restart.
#[tokio::test]
async fn i1_a_full_disk_refuses_and_room_heals() {
    let Some(small) = Small::mount("size=4m") else { return };
    std::fs::write(small.ballast(), vec![1; 1024 * 1024]).unwrap();
    let mut book = Book::new("s");
    let ledger = small.0.open();
    fill(&ledger, &mut book, 1).await;
    let text = "x".repeat(50_000);
    let refused = loop {
        let append = book.clone().title(1, &text);
        match ledger.append(append).await {
            Ok(()) => book.version += 1,
            refused => break refused,
        }
    };
    let why = unavailable(&refused);
    assert!(why.contains("full"), "{why}");
    assert!(book.version > 10);
    for _ in 0..3 {
        unavailable(&ledger.append(book.clone().title(2, &text)).await);
        assert_eq!(events_of(&ledger, &book).await, book.version);
    }
    std::fs::remove_file(small.ballast()).unwrap();
    for _ in 0..5 {
        ledger.append(book.title(3, &text)).await.unwrap();
    }
    ledger.shut().await;
    drop(ledger);
    let ledger = small.0.open();
    assert_eq!(events_of(&ledger, &book).await, book.version);
}

/// A full disk is a reason not to write, not one that hides what is there.
#[tokio::test]
async fn a_full_disk_does_not_keep_it_from_opening() {
    let Some(small) = Small::mount("size=4m") else { return };
    let mut book = Book::new("s");
    let ledger = small.0.open();
    fill(&ledger, &mut book, 10).await;
    ledger.shut().await;
    drop(ledger);
    // Less a few pages, for the index of the log, which is not part of what is stored.
    let _ = std::fs::write(small.ballast(), vec![1; 4 * 1024 * 1024]);
    let size = std::fs::metadata(small.ballast()).unwrap().len();
    std::fs::File::options().write(true).open(small.ballast()).unwrap().set_len(size - 64 * 1024).unwrap();
    let ledger = small.0.open();
    assert_eq!(events_of(&ledger, &book).await, book.version);
}

#[tokio::test]
async fn a_read_only_file_system_is_told() {
    let Some(small) = Small::mount("size=4m") else { return };
    let ledger = small.0.open();
    fill(&ledger, &mut Book::new("s"), 1).await;
    ledger.shut().await;
    drop(ledger);
    small.remount("ro");
    let error = SqliteLedger::open(&small.0.path).unwrap_err();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("--data-dir"), "{error}");
}

/// Writes that fail in their midst, by a limit on the size of files, in a process of its own (a limit concerns all
/// of a process): refused, nothing half-stored, and taken again when the limit is gone.
#[test]
fn i1_write_errors_refuse_and_heal() {
    const CHILD: &str = "LEDGER_TEST_LIMIT";
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    if let Ok(dir) = std::env::var(CHILD) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ledger = SqliteLedger::open(&Utf8PathBuf::from(dir)).unwrap();
        let limit = |current| {
            let maximum = getrlimit(Resource::Fsize).maximum;
            setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
        };
        runtime.block_on(async {
            let mut book = Book::new("s");
            fill(&ledger, &mut book, 1).await;
            let text = "x".repeat(30_000);
            for size in [2, 3] {
                limit(Some(size * 1024 * 1024));
                let refused = loop {
                    match ledger.append(book.clone().title(1, &text)).await {
                        Ok(()) => book.version += 1,
                        refused => break refused,
                    }
                };
                let why = unavailable(&refused);
                assert!(why.contains("I/O error"), "{why}");
                unavailable(&ledger.append(book.clone().title(2, &text)).await);
                assert_eq!(events_of(&ledger, &book).await, book.version);
                limit(None);
                fill(&ledger, &mut book, 2).await;
            }
            ledger.shut().await;
            println!("\n> {}", book.version);
        });
        return;
    }

    let dir = Dir::new();
    let name = std::thread::current().name().unwrap().to_owned();
    // A process that goes over the limit is killed, unless it inherits that it is not.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact \"$1\" --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(CHILD, dir.path.as_str())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let version: usize = text
        .lines()
        .find_map(|line| line.strip_prefix("> "))
        .expect("it says how far it came")
        .parse()
        .unwrap();
    assert!(version > 20);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ledger = dir.open();
    assert_eq!(runtime.block_on(ledger.events(&session_id("s"))).unwrap().len(), version);
}
