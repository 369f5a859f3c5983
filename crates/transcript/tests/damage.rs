//! Crashes and damage: whatever happens to a file, no whole record before the damage is lost, nothing panics,
//! and the next append is well-formed.

#[cfg(test)]
mod common;

use common::{calls, place, result, says, user, visible, write};
use holdpoint_transcript::replay::{self, Finalise, Window};
use holdpoint_transcript::{Cause, Durability, ReadError, Record, Writer, history, tail};

fn sample() -> Vec<Record> {
    vec![
        user("r0", None, "go \u{1F600} \"quoted\" \\ and \n lines"),
        calls("r1", "r0", &[("c1", "ask_user_question"), ("c2", "glob")]),
        result("r2", "r1", "c2", "glob", Cause::Ran),
        result("r3", "r2", "c1", "ask_user_question", Cause::Answered),
        says("r4", "r3", "done"),
    ]
}

/// Where each record's line ends.
fn ends(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect()
}

/// Everything reads, and what was appended last is on a line of its own.
#[cfg(test)]
fn all_readers_agree(path: &camino::Utf8PathBuf, last: &str) {
    let scan = tail::scan(path).unwrap();
    assert_eq!(scan.next_parent, holdpoint_transcript::Parent::Of(common::id(last)));
    assert_eq!(history::read(path).unwrap().next_parent, Some(scan.next_parent));
    replay::window(path, &Window::default(), &Finalise::all()).unwrap();
}

#[test]
fn a_file_cut_at_any_byte_keeps_its_whole_records_and_can_be_appended_to() {
    let (_dir, path) = place();
    write(&path, &sample());
    let bytes = std::fs::read(&path).unwrap();
    let ends = ends(&bytes);
    for cut in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        // A record is whole when only its newline is missing.
        let whole = ends.iter().filter(|end| **end <= cut + 1).count();
        let terminated = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(visible(&path).len(), whole, "read only, cut at {cut}");
        assert_eq!(std::fs::read(&path).unwrap(), &bytes[..cut], "a reader wrote, cut at {cut}");

        let opened = Writer::open(&path).unwrap();
        let start = if terminated == 0 { 0 } else { ends[terminated - 1] };
        let torn = opened.torn.map(|torn| (torn.offset, torn.bytes));
        let expected = (whole == terminated && cut > start).then(|| (start as u64, (cut - start) as u64));
        assert_eq!(torn, expected, "cut at {cut}");
        let mut writer = opened.writer;
        let parent = (whole > 0).then(|| format!("r{}", whole - 1));
        writer.append(&user("new", parent.as_deref(), "again"), Durability::Fsync).unwrap();
        let mut names: Vec<_> = (0..whole).map(|i| format!("r{i}")).collect();
        names.push("new".to_owned());
        assert_eq!(visible(&path), names, "cut at {cut}");
        all_readers_agree(&path, "new");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), whole + 1);
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }
}

#[test]
fn a_flipped_bit_loses_at_most_the_record_that_it_hits() {
    let (_dir, path) = place();
    write(&path, &sample());
    let bytes = std::fs::read(&path).unwrap();
    let ends = ends(&bytes);
    // The lowest bit makes another letter, the sixth another case or a newline of it, the highest no UTF-8.
    for (at, bit) in (0..bytes.len()).flat_map(|at| [(at, 0), (at, 5), (at, 7)]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        std::fs::write(&path, &damaged).unwrap();
        let hit = ends.iter().position(|end| at < *end).unwrap();
        match history::read(&path) {
            // A flip may make another valid record: another parent, another kind. A line that became
            // unreadable hides no other.
            Ok(read) if read.damaged > 0 => {
                for record in sample().iter().enumerate().filter(|(i, _)| *i != hit).map(|(_, record)| record)
                {
                    let found = read.entries.iter().any(|entry| entry.record == record.uuid);
                    assert!(found, "{:?} lost to a flip of bit {bit} at {at} in record {hit}", record.uuid);
                }
            }
            Ok(_) | Err(ReadError::Newer { .. }) => {}
            Err(error) => panic!("flip of bit {bit} at {at}: {error}"),
        }
        let newer = |error: &ReadError| matches!(error, ReadError::Newer { .. });
        assert!(tail::scan(&path).as_ref().err().is_none_or(newer));
        let window = replay::window(&path, &Window::default(), &Finalise::all());
        assert!(window.as_ref().err().is_none_or(newer));
        let Ok(opened) = Writer::open(&path) else { continue };
        let mut writer = opened.writer;
        writer.append(&user("new", Some("r4"), "again"), Durability::Buffered).unwrap();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let last = text.lines().last().unwrap();
        assert!(last.starts_with(r#"{"uuid":"new""#), "glued: {last}");
    }
}

#[test]
fn zeros_that_a_power_cut_leaves_are_cut_off() {
    let (_dir, path) = place();
    write(&path, &sample());
    let length = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(length + 4096).unwrap();
    drop(file);
    assert_eq!(visible(&path).len(), 5);
    let opened = Writer::open(&path).unwrap();
    assert_eq!(opened.torn.map(|torn| (torn.offset, torn.bytes)), Some((length, 4096)));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
}
