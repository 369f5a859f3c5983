//! An fsync that fails says nothing about what reached the disk, so this one needs a system call that really
//! fails: under `strace`, where there is one that may trace.

use std::process::{Command, Stdio};

use camino::Utf8PathBuf;

use super::{Dir, SqliteLedger, events_of, skipped};
use crate::conformance::sample::{Book, session_id};
use crate::contract::{AppendError, Ledger, Urgency};

const CHILD: &str = "LEDGER_TEST_FSYNC";
const NAME: &str = "sqlite::tests::fsync::i1_what_an_fsync_refused_is_not_there_after_a_crash";

/// Appends until one is refused, says how many were acknowledged, and dies.
fn child(dir: Utf8PathBuf) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let ledger = SqliteLedger::open(&dir).unwrap();
        let mut book = Book::new("s");
        for number in 0..30 {
            let mut next = book.clone();
            let append =
                if next.version == 0 { next.open(1) } else { next.title(number, &format!("title {number}")) };
            match ledger.append(append).await {
                Ok(()) => book = next,
                Err(AppendError::Unavailable(why)) => {
                    assert!(why.contains("I/O error"), "{why}");
                    assert_eq!(events_of(&ledger, &book).await, book.version);
                    println!("\n> refused {}", book.version);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        println!("\n> acknowledged {}", book.version);
        // Without closing anything.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    });
}

fn strace(fails: &str) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e"]);
    command.arg(format!("inject=fsync:error=EIO:when={fails}"));
    command
}

#[test]
fn i1_what_an_fsync_refused_is_not_there_after_a_crash() {
    if let Ok(dir) = std::env::var(CHILD) {
        return child(Utf8PathBuf::from(dir));
    }
    match strace("9+").arg("true").stderr(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        Ok(_) => return skipped("strace may not trace here", false),
        Err(_) => return skipped("there is no strace", true),
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut refused = 0;
    // Which of the calls fail: those that make the file, a commit's, and that of the healing after it as well.
    for fails in ["1", "2", "4", "5", "6", "7", "8", "12", "6..7", "8..10", "9+"] {
        let dir = Dir::new();
        let output = strace(fails)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, dir.path.as_str())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let said = |what: &str| {
            text.lines().find_map(|line| line.strip_prefix("> ")?.strip_prefix(what)?.parse().ok())
        };
        let acknowledged: usize = said("acknowledged ")
            .unwrap_or_else(|| panic!("{fails}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        refused += usize::from(said("refused ").is_some_and(|at: usize| at == acknowledged));
        let ledger = dir.open();
        let there = runtime.block_on(ledger.events(&session_id("s"))).unwrap().len();
        assert_eq!(there, acknowledged, "when fsync {fails} fails");
    }
    assert!(refused >= 4, "{refused}");
}

const COUNTED: &str = "sqlite::tests::fsync::low_priority_appends_cause_no_fsync_and_many_answers_share_one";

/// Something that the trace shows.
fn mark(name: &str) {
    let _ = std::fs::remove_file(format!("/nonexistent/{name}"));
}

fn counted_child(dir: Utf8PathBuf) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let ledger = SqliteLedger::open(&dir).unwrap();
        let mut book = Book::new("s");
        ledger.append(book.open(1)).await.unwrap();
        mark("lazy");
        for number in 0..5 {
            let mut append = book.title(number, "later");
            append.urgency = Urgency::Lazy;
            ledger.append(append).await.unwrap();
        }
        mark("many");
        let appends: Vec<_> =
            (0..64).map(|number| ledger.append(Book::new(&format!("other{number}")).open(1))).collect();
        for append in appends {
            append.await.unwrap();
        }
        mark("last");
        let mut append = book.title(9, "last");
        append.urgency = Urgency::Lazy;
        let last = ledger.append(append);
        ledger.shut().await;
        last.await.unwrap();
        mark("end");
    });
}

#[test]
fn low_priority_appends_cause_no_fsync_and_many_answers_share_one() {
    if let Ok(dir) = std::env::var(CHILD) {
        return counted_child(Utf8PathBuf::from(dir));
    }
    let dir = Dir::new();
    let trace = dir.path.join("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,unlink", "-o", trace.as_str()])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", COUNTED, "--nocapture"])
        .env(CHILD, dir.path.join("ledger").as_str())
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no strace");
        return;
    };
    if String::from_utf8_lossy(&output.stderr).contains("ptrace") {
        eprintln!("skipped: strace may not trace here");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let trace = std::fs::read_to_string(trace).unwrap();
    let between = |from: &str, to: &str| {
        let lines = trace.lines().skip_while(|line| !line.contains(from));
        lines.take_while(|line| !line.contains(to)).filter(|line| line.contains("sync(")).count()
    };
    assert_eq!(between("/lazy", "/many"), 0, "{trace}");
    // The writer takes what is there while the rest is still being made: how much, the machine decides.
    assert!((1..32).contains(&between("/many", "/last")), "{trace}");
    assert_eq!(between("/last", "/end"), 1, "{trace}");
}
