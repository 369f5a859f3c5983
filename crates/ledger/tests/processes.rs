//! What only shows with more than one process: the lock, and what a process that was killed leaves behind.
//!
//! A child is this test binary again, told by a variable which part to play.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail by panicking")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_ledger::conformance::sample::{Book, session_id};
use holdpoint_ledger::{DataDirLock, Ledger, LockError, QuestionFilter, SqliteLedger, StateFilter, Urgency};
use tempfile::TempDir;

const PART: &str = "LEDGER_TEST_PART";
const DIR: &str = "LEDGER_TEST_DIR";

fn dir() -> (TempDir, Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
    (dir, path)
}

struct Player {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Player {
    fn start(part: &str, dir: &Utf8Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "plays_a_part", "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that the part has printed; the test harness prints lines of its own. `None` when the child
    /// has ended.
    fn next(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.unwrap();
            // The harness leaves its own words before the first line of a test.
            if let Some(at) = line.find("> ") {
                return Some(line[at + 2..].to_owned());
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {line}").unwrap();
    out.flush().unwrap();
}

/// Not a test of its own: what a child does.
#[test]
fn plays_a_part() {
    let Ok(part) = std::env::var(PART) else { return };
    let dir = Utf8PathBuf::from(std::env::var(DIR).unwrap());
    match part.as_str() {
        "hold" => {
            let lock = DataDirLock::acquire(&dir).unwrap();
            lock.describe("address http://127.0.0.1:4170");
            say("held");
            // Until it is killed.
            loop {
                std::thread::park();
            }
        }
        "append" => append(&dir),
        other => panic!("no part {other}"),
    }
}

/// Appends from several tasks for ever, and says what was acknowledged: session, version.
fn append(dir: &Utf8Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let ledger = Arc::new(SqliteLedger::open(dir).unwrap());
    say(&format!("run {}", ledger.run()));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let ledger = Arc::clone(&ledger);
                tokio::spawn(async move {
                    let name = format!("s{number}");
                    let mut book = Book::new(&name);
                    book.version = ledger.events(&session_id(&name)).await.unwrap().len() as u64;
                    let run = ledger.run();
                    for round in 0.. {
                        let append = match (book.version, round % 4) {
                            (0, _) => book.open(1),
                            // Now and then one that nobody waits for, and one that fills many pages.
                            (_, 0) => {
                                let mut append = book.title(round, "lazy");
                                append.urgency = Urgency::Lazy;
                                drop(ledger.append(append));
                                book.title(round, "urgent")
                            }
                            (_, 1) => book.title(round, &"x".repeat(20_000)),
                            _ => book.ask(round, &format!("r{run}s{number}n{round}")).0,
                        };
                        ledger.append(append).await.unwrap();
                        say(&format!("{name} {}", book.version));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn i11_a_second_holder_learns_who_has_the_directory() {
    let (_keep, dir) = dir();
    let mut holder = Player::start("hold", &dir);
    assert_eq!(holder.next().as_deref(), Some("held"));
    let error = DataDirLock::acquire(&dir).unwrap_err();
    assert!(matches!(error, LockError::Held { .. }));
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", holder.child.id())), "{text}");
    assert!(text.contains("since 20"), "{text}");
    assert!(text.contains("address http://127.0.0.1:4170"), "{text}");
    assert!(text.contains(dir.as_str()), "{text}");
    // The file stays behind, and stops nobody.
    holder.kill();
    let lock = DataDirLock::acquire(&dir).unwrap();
    drop(lock);
    DataDirLock::acquire(&dir).unwrap();
}

#[test]
fn i11_within_one_process_too() {
    let (_keep, dir) = dir();
    let below = dir.join("not/there/yet");
    let lock = DataDirLock::acquire(&below).unwrap();
    lock.describe("address a very long one");
    lock.describe("address b");
    let text = DataDirLock::acquire(&below).unwrap_err().to_string();
    assert!(text.contains("address b"), "{text}");
    assert!(!text.contains("long"), "{text}");
    drop(lock);
    DataDirLock::acquire(&below).unwrap();
}

/// A file that others left, whatever it holds, is no lock.
#[test]
fn i11_a_file_that_was_left_behind_stops_nobody() {
    let (_keep, dir) = dir();
    std::fs::write(dir.join("holdpoint.lock"), [0xff, 0xfe, b'\n', 0]).unwrap();
    let lock = DataDirLock::acquire(&dir).unwrap();
    let text = DataDirLock::acquire(&dir).unwrap_err().to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    drop(lock);
}

/// Kills a process that appends as fast as it can, again and again, and finds all that it acknowledged.
#[test]
fn i4_what_was_acknowledged_is_there_after_a_kill() {
    let (_keep, dir) = dir();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut acknowledged = [0_u64; 8];
    let mut last_run = 0;
    // How many lines are read before the kill: it hits in the first commits, in the midst, and when the log has
    // been moved into the file a few times.
    for lines in [1, 3, 17, 60, 250, 900] {
        let mut player = Player::start("append", &dir);
        let run: u64 = player.next().unwrap().strip_prefix("run ").unwrap().parse().unwrap();
        assert!(run > last_run, "run {run} after {last_run}");
        last_run = run;
        let mut note = |line: &str| {
            let (session, version) = line.split_once(' ').unwrap();
            let number: usize = session[1..].parse().unwrap();
            acknowledged[number] = version.parse().unwrap();
        };
        for _ in 0..lines {
            note(&player.next().unwrap());
        }
        player.child.kill().unwrap();
        // What it said before it died counts as well; its last line may be cut.
        while let Some(line) = player.next() {
            if line.split(' ').count() == 2 && !line.ends_with(' ') {
                let (session, version) = line.split_once(' ').unwrap();
                let number: usize = session[1..].parse().unwrap();
                let version: u64 = version.parse().unwrap();
                acknowledged[number] = acknowledged[number].max(version);
            }
        }
        player.child.wait().unwrap();

        let ledger = SqliteLedger::open(&dir).unwrap();
        runtime.block_on(async {
            let mut asked = 0;
            for (number, acknowledged) in acknowledged.iter().enumerate() {
                let events = ledger.events(&session_id(&format!("s{number}"))).await.unwrap();
                let there = events.len() as u64;
                assert!(there >= *acknowledged, "session {number}: {there} events of {acknowledged}");
                asked += events.iter().filter(|event| event.event.generation().is_some()).count();
            }
            let filter = QuestionFilter { state: StateFilter::Any, limit: usize::MAX, ..Default::default() };
            assert_eq!(ledger.questions(filter).await.unwrap().len(), asked, "rows and events are one");
            ledger.shut().await;
        });
    }
}

/// A daemon that is killed while it starts an agent leaves its open files to a process that does not run yet.
#[test]
fn i11_the_lock_of_a_holder_that_has_died_is_waited_for() {
    let (_keep, dir) = dir();
    drop(DataDirLock::acquire(&dir).unwrap());
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("holdpoint.lock")).unwrap();
    file.lock().unwrap();
    std::fs::write(dir.join("holdpoint.lock"), format!("process {}\nsince then\n", dead.id())).unwrap();
    let (waits, waiting) = std::sync::mpsc::channel();
    let taken = std::thread::spawn(move || {
        waits.send(()).unwrap();
        DataDirLock::acquire(&dir).unwrap();
    });
    waiting.recv().unwrap();
    drop(file);
    taken.join().unwrap();
}
