//! A transcript file that holds anything: every reader copes, none writes, and the writer leaves a file to which a
//! record can be added.

use std::cell::RefCell;
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_model::ids::{RecordId, SessionId};
use holdpoint_transcript::replay::{self, Direction, Finalise, PageRequest, Window};
use holdpoint_transcript::{Durability, Kind, Record, Writer, branch, head, history, tail};
use tempfile::TempDir;

use crate::in_proportion;

thread_local! {
    static PLACE: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// A directory of this thread's own; in memory where the system has such a place.
fn place() -> Utf8PathBuf {
    PLACE.with_borrow_mut(|place| {
        let dir = place.get_or_insert_with(|| {
            let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
            dir.expect("a fuzz target needs a place for its file")
        });
        Utf8Path::from_path(dir.path()).expect("a directory of ours has a plain name").to_owned()
    })
}

/// Opens, scans, reads, replays, pages, copies and appends.
pub fn transcripts(bytes: &[u8]) {
    let dir = place();
    let (path, copy) = (dir.join("session.jsonl"), dir.join("copy.jsonl"));
    fs::write(&path, bytes).expect("the file can be written");
    let readable = read_all(&path, bytes.len());
    assert_eq!(fs::read(&path).expect("the file is there"), bytes, "a reader wrote");

    let _ = fs::remove_file(&copy);
    let session = SessionId::new("copied").expect("letters");
    // Of a file without records there is nothing to copy.
    if branch(&path, &copy, &session).is_ok() && copy.exists() {
        read_all(&copy, 4 * bytes.len());
        let scan = tail::scan(&copy).expect("a copy is whole");
        let open = scan.tail.turn().map(|turn| turn.open()).unwrap_or_default();
        assert!(open.is_empty(), "E7: {open:?} dangle in a copy");
    }

    let Ok(opened) = Writer::open(&path) else { return };
    let mut writer = opened.writer;
    let parent = tail::scan(&path).map(|scan| scan.next_parent);
    let id = RecordId::new("appended").expect("letters");
    let at = jiff::Timestamp::from_second(1_800_000_000).expect("a time");
    let mut record = Record::new(Kind::User, id.clone(), &session, at);
    if let Ok(parent) = parent {
        record.parent = parent;
    }
    writer.append(&record, Durability::Buffered).expect("a file that was opened takes a record");
    drop(writer);
    let again = Writer::open(&path).expect("what was written can be opened");
    assert_eq!(again.torn, None, "the writer left a torn line");
    drop(again);
    if readable {
        read_all(&path, bytes.len() + 1024);
    }
}

/// Whether every reader could read it.
fn read_all(path: &Utf8Path, size: usize) -> bool {
    let scan = tail::scan(path);
    let whole = history::read(path);
    let _ = head::head(path);
    let window = replay::window(path, &Window::default(), &Finalise::all());
    if let Ok(window) = &window {
        let told: usize = window.updates.iter().map(|update| update.to_string().len()).sum();
        assert!(told <= in_proportion(size), "{size} bytes became {told}");
    }
    for direction in [Direction::Forward, Direction::Backward] {
        pages(path, direction, size);
    }
    scan.is_ok() && whole.is_ok() && window.is_ok()
}

/// Pages to the end: there is one, and each page brings something.
fn pages(path: &Utf8Path, direction: Direction, size: usize) {
    let mut cursor = None;
    for _ in 0..=size {
        let request = PageRequest { direction, cursor, limit: 3, max_bytes: 1024 * 1024 };
        let Ok(page) = replay::page(path, &request, &Finalise::all()) else { return };
        match page.next {
            Some(next) => cursor = Some(next),
            None => return,
        }
    }
    panic!("the pages {direction:?} have no end");
}
