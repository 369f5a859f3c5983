//! The stream by itself (WIRE b.4): what is kept, what one who comes back is told, and who is let go. Nothing here
//! waits: what a reader has not been given yet is not there.

use futures::FutureExt as _;
use serde_json::Value;

use super::*;

const EPOCH: Uuid = Uuid::from_u128(7);
const MIB: usize = 1024 * 1024;

fn bus(ring_size: usize) -> Bus {
    Bus::new(EPOCH, ring_size)
}

/// Publishes an event of about so many bytes.
fn say(bus: &mut Bus, size: usize) -> Arc<Frame> {
    bus.publish(&Event::new("session_update", json!("x".repeat(size))), Micros(0))
}

fn says(bus: &mut Bus, events: u64) {
    for _ in 0..events {
        say(bus, 1);
    }
}

fn at(last: u64) -> Cursor {
    Cursor { last, epoch: None }
}

fn reads(bus: &mut Bus, cursor: Option<Cursor>, max_queued: usize) -> Subscription {
    bus.subscribe(cursor.as_ref(), max_queued, Vec::new(), None, Micros(0)).expect("there is room")
}

/// The next frames, at most so many; and whether the stream has ended.
fn take(stream: &mut Subscription, most: usize) -> (Vec<Arc<Frame>>, bool) {
    let mut frames = Vec::new();
    while frames.len() < most {
        match stream.next().now_or_never() {
            Some(Some(frame)) => frames.push(frame),
            Some(None) => return (frames, true),
            None => break,
        }
    }
    (frames, false)
}

fn all(stream: &mut Subscription) -> (Vec<Arc<Frame>>, bool) {
    take(stream, usize::MAX)
}

fn ids(frames: &[Arc<Frame>]) -> Vec<u64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}

fn kinds(frames: &[Arc<Frame>]) -> Vec<&str> {
    frames.iter().map(|frame| frame.kind).collect()
}

fn data(frame: &Frame) -> Value {
    serde_json::from_slice::<Value>(&frame.json).unwrap()["data"].clone()
}

/// A stream on which so many events were told in a load's response, and so many since, of which the ring keeps some.
fn told(in_response: u64, since: u64, ring_size: usize) -> Bus {
    let mut bus = bus(ring_size);
    bus.skip(in_response);
    says(&mut bus, since);
    bus
}

#[test]
fn b4_ids_begin_at_one_and_have_no_gaps() {
    let mut bus = bus(3);
    assert_eq!((bus.last_id(), bus.earliest()), (0, 1));
    for id in 1..=10 {
        assert_eq!(say(&mut bus, 1).id, Some(id));
    }
    assert_eq!((bus.last_id(), bus.earliest()), (10, 8));
    assert_eq!(bus.since(8).filter_map(|frame| frame.id).collect::<Vec<_>>(), [9, 10]);
    bus.skip(5);
    assert_eq!((bus.last_id(), bus.earliest(), bus.since(0).count()), (15, 16, 0));
    assert_eq!(say(&mut bus, 1).id, Some(16));
}

#[test]
fn b4_a_ring_of_no_size_keeps_one() {
    let bus = told(0, 3, 0);
    assert_eq!(bus.earliest(), 3);
}

#[test]
fn b4_where_a_reader_goes_on() {
    const NONE: &str = "";
    // (in a response, since, ring; the cursor; why it cannot go on there; what is replayed)
    type Row = ((u64, u64, usize), u64, &'static str, &'static [u64]);
    let table: &[Row] = &[
        ((0, 0, 3), 0, NONE, &[]),
        ((0, 0, 3), 1, "epoch_reset", &[]),
        ((0, 5, 8), 0, NONE, &[1, 2, 3, 4, 5]),
        ((0, 5, 8), 3, NONE, &[4, 5]),
        ((0, 5, 8), 5, NONE, &[]),
        ((0, 5, 8), 6, "epoch_reset", &[1, 2, 3, 4, 5]),
        ((0, 5, 8), u64::MAX, "epoch_reset", &[1, 2, 3, 4, 5]),
        // One that has what came just before the ring misses nothing.
        ((0, 5, 3), 2, NONE, &[3, 4, 5]),
        ((0, 5, 3), 1, "ring_evicted", &[3, 4, 5]),
        ((0, 5, 3), 0, "ring_evicted", &[3, 4, 5]),
        // The first ids were told in a response, and are nowhere else.
        ((4, 0, 3), 4, NONE, &[]),
        ((4, 0, 3), 3, "seeded_replay_not_in_ring", &[]),
        ((4, 0, 3), 0, "seeded_replay_not_in_ring", &[]),
        ((4, 0, 3), 5, "epoch_reset", &[]),
        ((4, 1, 3), 4, NONE, &[5]),
        ((4, 1, 3), 3, "ring_evicted", &[5]),
    ];
    for ((in_response, since, ring), cursor, reason, replayed) in table {
        let mut bus = told(*in_response, *since, *ring);
        let what = format!("{in_response} + {since} of {ring}, from {cursor}");
        let (frames, ended) = all(&mut reads(&mut bus, Some(at(*cursor)), 16));
        assert_eq!((ids(&frames), ended), (replayed.to_vec(), false), "{what}");
        let resync: Vec<_> = frames.iter().filter(|frame| frame.kind == "state_resync_required").collect();
        if *reason == NONE {
            assert!(resync.is_empty(), "{what}");
        } else {
            assert_eq!(
                (resync.len(), frames[0].kind, frames[0].id),
                (1, "state_resync_required", None),
                "{what}"
            );
            let expected = json!({
                "reason": reason,
                "lastDeliveredId": cursor,
                "earliestAvailableId": bus.earliest(),
            });
            assert_eq!(data(&frames[0]), expected, "{what}");
        }
        let last = frames.last().unwrap();
        assert_eq!((last.kind, last.id), ("replay_complete", None), "{what}");
        let mut expected = json!({ "replayedCount": replayed.len() });
        if let Some(newest) = replayed.last() {
            expected["lastReplayedEventId"] = json!(newest);
            expected["lastEventId"] = json!(bus.last_id());
        }
        assert_eq!(data(last), expected, "{what}");
    }
}

#[test]
fn b4_an_id_means_something_only_with_its_epoch() {
    let mut bus = told(0, 5, 8);
    for (epoch, reset) in [(EPOCH, false), (Uuid::from_u128(8), true)] {
        let cursor = Cursor { last: 3, epoch: Some(epoch.to_string()) };
        let (frames, _) = all(&mut reads(&mut bus, Some(cursor), 16));
        let expected: &[u64] = if reset { &[1, 2, 3, 4, 5] } else { &[4, 5] };
        assert_eq!(ids(&frames), expected);
        assert_eq!(frames[0].kind == "state_resync_required", reset);
        if reset {
            assert_eq!(data(&frames[0])["reason"], "epoch_reset");
        }
    }
}

#[test]
fn r23_one_without_a_cursor_is_told_what_is_open_and_nothing_else() {
    let mut bus = told(0, 5, 8);
    let open = vec![Event::new("permission_request", json!({ "requestId": "r" }))];
    let mut stream = bus.subscribe(None, 16, open.clone(), None, Micros(0)).unwrap();
    let (frames, ended) = all(&mut stream);
    assert_eq!((kinds(&frames), ids(&frames), ended), (vec!["permission_request"], vec![], false));
    say(&mut bus, 1);
    assert_eq!(ids(&all(&mut stream).0), [6]);
    // One with a cursor finds them in the stream.
    let (frames, _) = all(&mut bus.subscribe(Some(&at(6)), 16, open, None, Micros(0)).unwrap());
    assert_eq!(kinds(&frames), ["replay_complete"]);
}

#[test]
fn b4_no_more_is_replayed_than_the_budget() {
    let frame = say(&mut bus(1), MIB).weight();
    let fit = REPLAY_BUDGET / frame;
    // (events, the cursor's epoch is ours; the reasons that are told, the first id that is replayed)
    let table: [(usize, bool, &[&str], usize); 4] = [
        (fit, true, &[], 1),
        (fit + 1, true, &["replay_budget_exceeded"], 2),
        (fit + 3, true, &["replay_budget_exceeded"], 4),
        // It is told once that something is missing.
        (fit + 3, false, &["epoch_reset"], 4),
    ];
    for (events, known, reasons, first) in table {
        let mut bus = bus(100);
        for _ in 0..events {
            say(&mut bus, MIB);
        }
        let epoch = if known { EPOCH } else { Uuid::nil() };
        let cursor = Cursor { last: 0, epoch: Some(epoch.to_string()) };
        let (frames, _) = all(&mut reads(&mut bus, Some(cursor), 16));
        let resync = frames.iter().filter(|frame| frame.kind == "state_resync_required");
        let told: Vec<_> = resync.map(|frame| data(frame)["reason"].as_str().unwrap().to_owned()).collect();
        assert_eq!(told, reasons, "{events}");
        let expected: Vec<_> = (first as u64..=events as u64).collect();
        assert_eq!(ids(&frames), expected, "the newest, without a gap");
        assert_eq!(data(frames.last().unwrap())["replayedCount"], expected.len());
    }
    let mut bus = bus(2);
    say(&mut bus, REPLAY_BUDGET);
    let (frames, _) = all(&mut reads(&mut bus, Some(at(0)), 16));
    assert_eq!(
        kinds(&frames),
        ["state_resync_required", "replay_complete"],
        "one that is too large by itself"
    );
}

#[test]
fn b4_one_that_lags_behind_by_too_many_is_let_go_and_told_why() {
    let mut bus = bus(100);
    let mut slow = reads(&mut bus, None, 16);
    let mut quick = reads(&mut bus, None, 16);
    for _ in 0..16 {
        say(&mut bus, 1);
        take(&mut quick, 1);
    }
    assert_eq!(bus.readers(), 2);
    say(&mut bus, 1);
    assert_eq!(bus.readers(), 1);
    says(&mut bus, 3);
    let (frames, ended) = all(&mut slow);
    assert!(ended);
    assert_eq!(ids(&frames), (1..=16).collect::<Vec<_>>(), "what was queued is told first");
    let last = frames.last().unwrap();
    assert_eq!((last.kind, last.id), ("client_evicted", None));
    let told = data(last);
    let fields = [
        ("reason", json!("queue_overflow")),
        ("droppedAfter", json!(16)),
        ("queueSize", json!(16)),
        ("maxQueued", json!(16)),
        ("maxQueuedBytes", json!(MAX_QUEUED_BYTES)),
    ];
    for (key, value) in fields {
        assert_eq!(told[key], value, "{told:#}");
    }
    assert!(told["queuedBytes"].as_u64() > Some(0) && told["eventBytes"].as_u64() > Some(0), "{told:#}");
    let (frames, ended) = all(&mut quick);
    assert_eq!((ids(&frames), ended), ((17..=20).collect(), false), "the other one goes on");
}

#[test]
fn b4_one_that_lags_behind_by_too_many_bytes_is_let_go_and_told_why() {
    let mut bus = bus(100);
    let mut stream = reads(&mut bus, None, 256);
    let first = say(&mut bus, MIB).weight();
    let second = say(&mut bus, MAX_QUEUED_BYTES - first - 200).weight();
    assert!(first + second <= MAX_QUEUED_BYTES && bus.readers() == 1);
    let third = say(&mut bus, 1000).weight();
    assert!(first + second + third > MAX_QUEUED_BYTES && bus.readers() == 0);
    let (frames, ended) = all(&mut stream);
    assert!(ended);
    assert_eq!(ids(&frames), [1, 2]);
    let told = data(frames.last().unwrap());
    let fields = [
        ("reason", json!("queue_bytes_overflow")),
        ("droppedAfter", json!(2)),
        ("queueSize", json!(2)),
        ("maxQueued", json!(256)),
        ("queuedBytes", json!(first + second)),
        ("maxQueuedBytes", json!(MAX_QUEUED_BYTES)),
        ("eventBytes", json!(third)),
    ];
    for (key, value) in fields {
        assert_eq!(told[key], value, "{told:#}");
    }
}

#[test]
fn b4_one_that_has_read_all_takes_an_event_of_any_size() {
    let mut bus = bus(1);
    let mut stream = reads(&mut bus, None, 16);
    say(&mut bus, 3 * MAX_QUEUED_BYTES);
    assert_eq!(ids(&all(&mut stream).0), [1]);
    say(&mut bus, 3 * MAX_QUEUED_BYTES);
    say(&mut bus, 1);
    let (frames, ended) = all(&mut stream);
    assert_eq!((ids(&frames), ended), (vec![2], true), "and nothing beside it");
    assert_eq!(data(frames.last().unwrap())["reason"], "queue_bytes_overflow");
}

#[test]
fn b4_what_is_replayed_and_what_has_no_id_takes_no_room() {
    let mut bus = told(0, 40, 100);
    let mut stream = reads(&mut bus, Some(at(0)), 16);
    says(&mut bus, 16);
    assert_eq!(bus.readers(), 1, "40 are replayed, and 16 queued");
    let (frames, ended) = all(&mut stream);
    assert_eq!((ids(&frames), ended), ((1..=56).collect(), false));
    assert_eq!(frames.iter().filter(|frame| frame.kind == "slow_client_warning").count(), 1);
    says(&mut bus, 16);
    assert_eq!(bus.readers(), 1, "what was read is not queued any more");
}

/// The warnings among what has not been read.
fn warnings(frames: &[Arc<Frame>]) -> Vec<Value> {
    frames.iter().filter(|frame| frame.kind == "slow_client_warning").map(|frame| data(frame)).collect()
}

#[test]
fn b4_a_slow_reader_is_warned_at_three_quarters_and_again_only_after_it_was_below_three_eighths() {
    // (how many of twelve are read before as many are said again, how often it is warned in all). When six are read, six
    // of sixteen are left, which is three eighths and not below.
    for (read, expected) in [(0, 1), (6, 1), (7, 2), (8, 2), (12, 2)] {
        let mut bus = bus(100);
        let mut stream = reads(&mut bus, None, 16);
        says(&mut bus, 11);
        assert!(!bus.readers[0].warned, "11 of 16");
        says(&mut bus, 1);
        let (mut frames, _) = take(&mut stream, read);
        says(&mut bus, read as u64);
        assert_eq!(bus.readers[0].queued.frames.load(Ordering::Relaxed), 12, "at three quarters again");
        frames.extend(all(&mut stream).0);
        let warnings = warnings(&frames);
        assert_eq!(warnings.len(), expected, "{read} are read");
        for (warning, last) in warnings.iter().zip([12, 12 + read]) {
            let fields = [
                ("queueSize", json!(12)),
                ("maxQueued", json!(16)),
                ("lastEventId", json!(last)),
                ("maxQueuedBytes", json!(MAX_QUEUED_BYTES)),
                ("threshold", json!(0.75)),
            ];
            for (key, value) in fields {
                assert_eq!(warning[key], value, "{warning:#}");
            }
            assert!(warning["queuedBytes"].as_u64() > Some(0), "{warning:#}");
        }
        assert_eq!(ids(&frames), (1..=12 + read as u64).collect::<Vec<_>>());
    }
}

#[test]
fn b4_a_reader_is_warned_of_bytes_too() {
    let mut bus = bus(100);
    let mut stream = reads(&mut bus, None, 256);
    let half = MAX_QUEUED_BYTES / 2;
    for round in 0..2 {
        say(&mut bus, half);
        say(&mut bus, half / 2 + 1024);
        let (frames, _) = all(&mut stream);
        let warnings = warnings(&frames);
        assert_eq!(warnings.len(), 1, "round {round}");
        assert_eq!(
            (&warnings[0]["queueSize"], &warnings[0]["lastEventId"]),
            (&json!(2), &json!(2 * round + 2))
        );
        let queued = warnings[0]["queuedBytes"].as_u64().unwrap();
        assert!(queued >= 3 * MAX_QUEUED_BYTES as u64 / 4, "{queued}");
    }
}

#[test]
fn b2_the_last_event_ends_the_stream_after_what_was_queued() {
    let mut bus = told(0, 2, 8);
    let mut stream = reads(&mut bus, Some(at(0)), 16);
    says(&mut bus, 2);
    bus.end(&Event::new("session_closed", json!({ "reason": "client_close" })), Micros(0));
    assert_eq!(bus.readers(), 0);
    let (frames, ended) = all(&mut stream);
    assert!(ended);
    assert_eq!(ids(&frames), [1, 2, 3, 4, 5]);
    assert_eq!(frames.last().unwrap().kind, "session_closed");
    assert!(all(&mut stream).1, "and stays ended");
}

#[test]
fn b4_so_many_read_and_no_more_until_one_goes() {
    let mut bus = bus(8);
    let mut streams: Vec<_> = (0..MAX_SUBSCRIBERS).map(|_| reads(&mut bus, None, 16)).collect();
    assert_eq!(bus.subscribe(None, 16, Vec::new(), None, Micros(0)).unwrap_err(), TooManyReaders);
    assert_eq!(bus.readers(), MAX_SUBSCRIBERS);
    streams.pop();
    assert_eq!(bus.readers(), MAX_SUBSCRIBERS - 1);
    streams.push(reads(&mut bus, None, 16));
    assert_eq!(bus.subscribe(None, 16, Vec::new(), None, Micros(0)).unwrap_err(), TooManyReaders);
    say(&mut bus, 1);
    assert!(streams.iter_mut().all(|stream| ids(&all(stream).0) == [1]));
}

#[test]
fn the_ring_is_bounded_in_bytes_too_and_the_newest_always_stays() {
    let mut bus = bus(8000);
    for _ in 0..6 {
        say(&mut bus, MAX_RING_BYTES / 4);
    }
    assert_eq!(bus.since(0).count(), 3, "four of them and what is around them are more than fits");
    let held: usize = bus.since(0).map(|frame| frame.weight()).sum();
    assert_eq!(held, bus.ring_bytes);
    assert!(held <= MAX_RING_BYTES);
    say(&mut bus, MAX_RING_BYTES + 1);
    assert_eq!(bus.since(0).filter_map(|frame| frame.id).collect::<Vec<_>>(), [7]);
    say(&mut bus, 1);
    assert_eq!(bus.since(0).filter_map(|frame| frame.id).collect::<Vec<_>>(), [8]);
    bus.skip(5);
    assert_eq!(bus.ring_bytes, 0);
}
