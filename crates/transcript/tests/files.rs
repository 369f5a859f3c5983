//! The file itself: its mode, its lock, its format.

#[cfg(test)]
mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{place, record, user, write};
use holdpoint_transcript::replay::{self, Finalise, Window};
use holdpoint_transcript::{Durability, Kind, OpenError, ReadError, Writer, head, history, tail};
use serde_json::json;

/// Set in the child that [`a_second_process_is_refused_and_told_who_writes`] starts: the file to hold.
const HOLD: &str = "HOLDPOINT_TEST_HOLD";

#[test]
fn the_file_comes_with_the_first_record_and_is_private() {
    let (dir, path) = place();
    let mut opened = Writer::open(&path).unwrap();
    assert!(!opened.existed && !opened.writer.exists() && !path.exists());
    opened.writer.append(&user("a", None, "hi"), Durability::Fsync).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(opened);
    assert!(Writer::open(&path).unwrap().existed);
    // Also where the directory is not there yet.
    let deep = camino::Utf8PathBuf::from_path_buf(dir.path().join("x/sessions/s.jsonl")).unwrap();
    let mut writer = Writer::open(&deep).unwrap().writer;
    writer.append(&user("a", None, "hi"), Durability::Fsync).unwrap();
    assert!(deep.exists());
}

#[test]
fn a_second_writer_waits_and_gets_the_file_when_the_first_lets_go() {
    let (_dir, path) = place();
    write(&path, &[user("a", None, "hi")]);
    let first = Writer::open(&path).unwrap();
    let refused = Writer::open_within(&path, Duration::from_millis(20));
    assert!(matches!(refused, Err(OpenError::Locked { .. })));
    // A reader needs no lock (I7).
    assert_eq!(history::read(&path).unwrap().entries.len(), 1);
    let path_of_second = path.clone();
    let second = std::thread::spawn(move || Writer::open_within(&path_of_second, Duration::from_secs(60)));
    drop(first);
    assert!(second.join().unwrap().is_ok());
}

#[test]
fn a_second_process_is_refused_and_told_who_writes() {
    if let Ok(path) = std::env::var(HOLD) {
        // The child: holds the file until its standard input ends.
        let _held = Writer::open(camino::Utf8Path::new(&path)).unwrap();
        println!("held");
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        return;
    }
    let (_dir, path) = place();
    write(&path, &[user("a", None, "hi")]);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_second_process_is_refused_and_told_who_writes", "--exact", "--nocapture"])
        .env(HOLD, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("held")));
    match Writer::open_within(&path, Duration::from_millis(20)) {
        Err(OpenError::Locked { holder, .. }) => {
            if cfg!(target_os = "linux") {
                assert_eq!(holder, Some(child.id()));
            }
        }
        other => panic!("not refused: {other:?}"),
    }
    // The lock goes with its process, however that ends.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(Writer::open_within(&path, Duration::from_secs(60)).is_ok());
}

#[test]
fn a_newer_format_is_refused_by_every_reader_and_by_the_writer() {
    let newer = json!({"uuid": "n", "parentUuid": "a", "type": "user", "holdpoint": {"v": 2},
        "message": {"role": "user", "parts": [{"text": "from the future"}]}});
    for first in [true, false] {
        let (_dir, path) = place();
        let mut lines = vec![newer.clone()];
        if !first {
            let line = String::from_utf8(user("a", None, "hi").to_line()).unwrap();
            lines.insert(0, serde_json::from_str(&line).unwrap());
        }
        common::write_lines(&path, &lines);
        let before = std::fs::read(&path).unwrap();
        let is_newer = |error: &ReadError| matches!(error, ReadError::Newer { found: 2, .. });
        assert!(is_newer(&history::read(&path).unwrap_err()));
        assert!(is_newer(&tail::scan(&path).unwrap_err()));
        assert!(is_newer(&replay::window(&path, &Window::default(), &Finalise::all()).unwrap_err()));
        let refused = Writer::open(&path).unwrap_err();
        assert!(matches!(&refused, OpenError::Read(error) if is_newer(error)), "{refused}");
        assert!(refused.to_string().contains("format 2"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        if first {
            assert!(is_newer(&head::head(&path).unwrap_err()));
        }
    }
}

#[test]
fn a_list_shows_where_when_and_what() {
    let (dir, path) = place();
    let mut first = record(Kind::System, "s", None);
    first.subtype = Some("session_source".to_owned());
    write(
        &path,
        &[first, user("a", Some("s"), "\n  Plan the trip\nin detail"), user("b", Some("a"), "later")],
    );
    std::fs::write(dir.path().join("notes.txt"), "x").unwrap();
    std::fs::write(dir.path().join("bad name.jsonl"), "x").unwrap();
    std::fs::write(dir.path().join("empty.jsonl"), "").unwrap();
    let directory = camino::Utf8Path::from_path(dir.path()).unwrap();
    let heads = head::list(directory).unwrap();
    assert_eq!(heads.len(), 2);
    let head = heads.iter().find(|head| head.session == common::session()).unwrap();
    assert_eq!(head.title.as_deref(), Some("Plan the trip"));
    assert_eq!(head.cwd.as_deref(), Some("/work"));
    assert_eq!(head.created.as_deref(), Some("2026-01-02T03:04:05.678Z"));
    assert!(head::list(&directory.join("nowhere")).unwrap().is_empty());
    assert!(matches!(head::head(&directory.join("gone.jsonl")), Err(ReadError::NotFound { .. })));
}
