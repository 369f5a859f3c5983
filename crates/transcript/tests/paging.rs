//! Windows and pages: what is cut off is said, and pages together are the whole.

#[cfg(test)]
mod common;

use common::{calls, id, place, result, says, user, write};
use holdpoint_model::ids::RecordId;
use holdpoint_transcript::replay::{self, Direction, Finalise, PageRequest, Window};
use holdpoint_transcript::{Cause, ReadError, Record};
use serde_json::Value;

fn long() -> Vec<Record> {
    let mut records = vec![user("u0", None, "go")];
    let mut parent = "u0".to_owned();
    for i in 0..12 {
        let names = [format!("a{i}"), format!("t{i}"), format!("s{i}"), format!("u{}", i + 1)];
        let call = format!("c{i}");
        records.push(calls(&names[0], &parent, &[(&call, "glob")]));
        records.push(result(&names[1], &names[0], &call, "glob", Cause::Ran));
        records.push(says(&names[2], &names[1], "done"));
        records.push(user(&names[3], Some(&names[2]), "next"));
        parent = names[3].clone();
    }
    records
}

#[cfg(test)]
fn ids(updates: &[Value]) -> Vec<String> {
    updates.iter().map(|u| u["_meta"]["qwen.session.recordId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_window_ends_where_its_limit_says_and_never_starts_with_a_result() {
    let (_dir, path) = place();
    let records = long();
    write(&path, &records);
    let whole = replay::window(&path, &Window::default(), &Finalise::all()).unwrap();
    assert_eq!((whole.records, whole.cut.clone()), (records.len(), None));
    for max_records in 1..=records.len() {
        let window = Window { max_records, ..Window::default() };
        let replay = replay::window(&path, &window, &Finalise::all()).unwrap();
        assert!(replay.records <= max_records && replay.records > 0);
        assert!(!ids(&replay.updates)[0].starts_with('t'), "{max_records}: starts with a result");
        assert!(whole.updates.ends_with(&replay.updates));
        assert_eq!(replay.cut.is_some(), replay.records < records.len());
        if let Some(cut) = replay.cut {
            let bytes = std::fs::read_to_string(&path).unwrap();
            let rest = &bytes[usize::try_from(cut.bytes_before).unwrap()..];
            assert!(rest.starts_with(&format!(r#"{{"uuid":"{}""#, cut.before.unwrap())));
            assert!((1..=bytes.len() as u64).contains(&cut.updates_before));
        }
    }
    let small = Window { max_bytes: 1, ..Window::default() };
    assert_eq!(replay::window(&path, &small, &Finalise::all()).unwrap().records, 1);
}

#[test]
fn pages_both_ways_together_are_the_whole() {
    let (_dir, path) = place();
    write(&path, &long());
    let whole = replay::window(&path, &Window::default(), &Finalise::all()).unwrap().updates;
    for limit in [1, 3, 7, 100] {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor: Option<RecordId> = None;
            let mut all: Vec<Value> = Vec::new();
            loop {
                let request = PageRequest { direction, cursor, limit, max_bytes: u64::MAX };
                let page = replay::page(&path, &request, &Finalise::all()).unwrap();
                assert!(page.records <= limit);
                for update in &page.updates {
                    let meta = &update["_meta"];
                    let from = &meta["qwenTranscript"]["sourceRecordIds"];
                    assert_eq!(*from, serde_json::json!([meta["qwen.session.recordId"]]));
                }
                match direction {
                    Direction::Forward => all.extend(page.updates),
                    Direction::Backward => all.splice(0..0, page.updates).for_each(drop),
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(ids(&all), ids(&whole), "{direction:?} by {limit}");
        }
    }
}

#[test]
fn a_cursor_of_another_session_is_told_so() {
    let (_dir, path) = place();
    write(&path, &long());
    for direction in [Direction::Forward, Direction::Backward] {
        let request = PageRequest { direction, cursor: Some(id("nobody")), limit: 5, max_bytes: u64::MAX };
        let error = replay::page(&path, &request, &Finalise::all()).unwrap_err();
        assert!(matches!(error, ReadError::UnknownCursor { .. }));
    }
}
