//! What the daemon finds instead of its ledger: it says what is wrong and what to do, exits with 1, and leaves the
//! file as it was. And a disk that takes writes and then refuses to keep them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::json;

use crate::support::{Asking, Rig, answers, may_mount, may_trace, selected, skipped};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// A machine with a stopped daemon and an open question, and the question's id.
async fn stopped() -> (Rig, String) {
    let mut rig = Rig::started().await;
    let Asking { question, .. } = rig.asking("please ASK").await;
    rig.kill().await;
    (rig, question.id)
}

fn file(rig: &Rig) -> PathBuf {
    rig.data_dir.join("ledger.sqlite")
}

/// A start that must fail, and say all of this.
async fn refused(rig: &Rig, says: &[&str]) {
    let refused = rig.try_start(rig.serve()).await.expect_err("it must not start");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let last = refused.stderr.lines().last().unwrap_or_default();
    for word in says {
        assert!(last.contains(word), "it does not say {word:?}: {last}");
    }
    assert!(last.contains(file(rig).to_str().unwrap()), "it does not say which file: {last}");
}

#[tokio::test]
async fn d1_a_newer_ledger_is_refused_and_left_for_the_version_that_wrote_it() {
    let (mut rig, question) = stopped().await;
    let version = |number: u32| {
        let ledger = Connection::open(file(&rig)).unwrap();
        ledger.pragma_update(None, "user_version", number).unwrap();
        ledger.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(())).unwrap();
    };
    let ours: u32 = Connection::open(file(&rig))
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    version(99);
    let before = std::fs::read(file(&rig)).unwrap();
    refused(&rig, &["format 99", "start the version that wrote it"]).await;
    assert_eq!(std::fs::read(file(&rig)).unwrap(), before, "the file was changed");
    version(ours);
    let api = rig.start().await;
    assert_eq!(api.question(&question).await["state"], "open", "nothing was lost");
}

#[tokio::test]
async fn d1_what_is_no_ledger_is_refused_and_left_as_it_was() {
    let (rig, _) = stopped().await;
    for name in ["ledger.sqlite-wal", "ledger.sqlite-shm"] {
        let _ = std::fs::remove_file(rig.data_dir.join(name));
    }
    let rubbish = b"this is no database at all, however long it is ".repeat(200);
    std::fs::write(file(&rig), &rubbish).unwrap();
    refused(&rig, &["damaged", "backup", "-wal"]).await;
    assert_eq!(std::fs::read(file(&rig)).unwrap(), rubbish);

    std::fs::remove_file(file(&rig)).unwrap();
    Connection::open(file(&rig)).unwrap().execute_batch("CREATE TABLE guests (name TEXT)").unwrap();
    refused(&rig, &["not a ledger", "--data-dir"]).await;
    let guests = Connection::open(file(&rig)).unwrap();
    guests.query_row("SELECT count(*) FROM guests", [], |row| row.get::<_, u32>(0)).expect("still there");
}

#[tokio::test]
async fn i1_a_read_only_ledger_is_refused() {
    let (mut rig, question) = stopped().await;
    let mount = |args: &[&str]| {
        let mount = Command::new("mount").args(args).arg(&rig.data_dir).stderr(Stdio::null()).status();
        mount.is_ok_and(|status| status.success())
    };
    let here = rig.data_dir.to_str().unwrap().to_owned();
    if !mount(&["--bind", &here]) || !mount(&["-o", "remount,bind,ro", &here]) {
        skipped("this user may not mount a directory read-only", may_mount());
        return;
    }
    let again = rig.try_start(rig.serve()).await;
    let unmounted = Command::new("umount").arg(&rig.data_dir).status().unwrap();
    assert!(unmounted.success());
    let again = again.expect_err("it must not start");
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("read-only") || again.stderr.contains("Read-only"), "{again:?}");
    assert!(again.stderr.contains(&here), "{again:?}");
    assert_eq!(rig.start().await.question(&question).await["state"], "open", "nothing was lost");
}

/// Damage that no start sees shows where it is read: as an error, never as an empty inbox.
#[tokio::test]
async fn i4_a_damaged_ledger_hides_nothing_and_ends_nothing() {
    let (mut rig, question) = stopped().await;
    {
        let ledger = Connection::open(file(&rig)).unwrap();
        ledger.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(())).unwrap();
    }
    let whole = std::fs::read(file(&rig)).unwrap();
    let mut bytes = whole.clone();
    // Every page but the first, which says what the file is.
    for byte in &mut bytes[4096..] {
        *byte ^= 0x5a;
    }
    std::fs::write(file(&rig), &bytes).unwrap();
    match rig.try_start(rig.serve()).await {
        Err(refused) => {
            assert_eq!(refused.code, Some(1), "{refused:?}");
            assert!(refused.stderr.contains("damaged") && refused.stderr.contains("backup"), "{refused:?}");
        }
        Ok(daemon) => {
            let api = crate::support::Api::new(daemon.address);
            let inbox = api.get("/questions").await;
            assert!(inbox.status >= 500, "a damaged ledger reads as {}: {:#}", inbox.status, inbox.json());
            api.get("/health").await.expect(200);
            daemon.kill().await;
        }
    }
    for name in ["ledger.sqlite-wal", "ledger.sqlite-shm"] {
        let _ = std::fs::remove_file(rig.data_dir.join(name));
    }
    std::fs::write(file(&rig), &whole).unwrap();
    assert_eq!(rig.start().await.question(&question).await["state"], "open", "the backup has it");
}

/// An fsync that fails says nothing about what the disk has: nothing is acknowledged until one has worked again.
#[tokio::test]
async fn i1_an_fsync_that_fails_acknowledges_nothing() {
    let mut rig = Rig::started().await;
    let Asking { session, api, mut events, prompt, question } = rig.asking("please ASK").await;

    if !may_trace() {
        return;
    }
    let Some(failing) = fail_fsyncs(rig.daemon().pid.as_raw_nonzero().get()).await else { return };
    let refused = api.vote(&session, &question.request, &selected(BLUE)).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "ledger_unavailable"),
        "{:#}",
        refused.json()
    );
    let refused = api.answer(&question.id, &answers(&question, BLUE, "r")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "ledger_unavailable"),
        "{:#}",
        refused.json()
    );
    let body = json!({ "prompt": [{ "type": "text", "text": "and then" }] });
    let refused = api.post(&format!("/session/{}/prompt", session.id), &body).await;
    assert_eq!(refused.status, 503, "{:#}", refused.json());
    let [open] = api.wait_asked(&session).await;
    assert_eq!(open.id, question.id, "still asked");
    drop(failing);

    // The disk is well again: so is the daemon, without a new start.
    api.answer(&question.id, &answers(&question, BLUE, "r")).await.expect(200);
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    let api = rig.restart().await;
    assert_eq!(api.question(&question.id).await["state"], "answered");
    let queue = api.of(&session.client).load(&session).await;
    assert_eq!(queue["hasActivePrompt"], false, "the prompt that was refused is not there: {queue:#}");
}

/// While it lives every fsync of the process fails.
struct Failing(std::process::Child);

impl Drop for Failing {
    fn drop(&mut self) {
        // Told to end, it lets the process go first.
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = self.0.wait();
    }
}

/// From now on every fsync of the process fails. `None`, with a line that says so, where this user may trace only what
/// it has started.
async fn fail_fsyncs(pid: i32) -> Option<Failing> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let errors = log.reopen().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
    strace.args(["-e", "inject=fsync,fdatasync:error=EIO", "-p", &pid.to_string()]);
    let mut failing = Failing(strace.stdin(Stdio::null()).stderr(errors).spawn().unwrap());
    let attached = crate::support::until("strace has the daemon, or may not", async || {
        let said = std::fs::read_to_string(log.path()).unwrap();
        if said.contains(&format!("Process {pid} attached")) {
            return Some(true);
        }
        failing.0.try_wait().unwrap().map(|_| false)
    })
    .await;
    if !attached {
        skipped("strace may not trace a process that runs already", false);
    }
    attached.then_some(failing)
}
