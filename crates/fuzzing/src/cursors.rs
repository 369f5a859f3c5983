//! Where a reader says that it was: `Last-Event-ID` and the epoch, over a stream of any length.

use holdpoint_engine::bus::Bus;
use holdpoint_engine::frame::Event;
use holdpoint_model::ids::Micros;
use serde_json::json;
use uuid::Uuid;

use crate::halves;

/// The stream's epoch; a word that an input can hold.
const EPOCH: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

/// Two numbers (how much was told, how much is kept), then the two headers, a line each.
pub fn cursors(bytes: &[u8]) {
    let [told, kept, headers @ ..] = bytes else { return };
    let (last, epoch) = halves(headers);
    let cursor = holdpoint_server::fuzz::cursor(last, epoch);
    let (told, kept) = (u64::from(*told), usize::from(*kept).max(1));
    let mut bus = Bus::new(EPOCH, kept);
    for n in 0..told {
        bus.publish(&Event::new("session_update", json!({ "n": n })), Micros(0));
    }
    let open = vec![Event::new("permission_request", json!({}))];
    let mut stream =
        bus.subscribe(cursor.as_ref(), 16, open, None, Micros(0)).expect("the first reader finds room");
    let first: Vec<_> = stream.first.drain(..).collect();
    let kinds: Vec<_> = first.iter().map(|frame| frame.kind).collect();
    let ids: Vec<_> = first.iter().filter_map(|frame| frame.id).collect();
    let Some(cursor) = cursor else {
        assert_eq!(
            kinds,
            ["permission_request"],
            "R23: one without a cursor is told what is open, and no more"
        );
        return;
    };
    assert_eq!(kinds.last(), Some(&"replay_complete"), "{kinds:?}");
    assert!(ids.len() <= kept, "more is told than is kept: {ids:?}");
    assert!(ids.windows(2).all(|two| two[1] == two[0] + 1), "a gap in what is told: {ids:?}");
    assert!(ids.last().is_none_or(|last| *last == told), "the newest is not told: {ids:?}");
    if kinds[0] == "state_resync_required" {
        return;
    }
    // Nothing is missing, and nothing is told twice.
    assert!(cursor.last <= told && ids.len() as u64 == told - cursor.last, "{cursor:?}: {ids:?} of {told}");
    let known = cursor.epoch.is_none_or(|epoch| epoch == EPOCH.to_string());
    assert!(known, "a cursor of another stream is taken for one of this");
}
