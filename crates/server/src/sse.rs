//! The event stream's bytes (WIRE a.5): `retry`, then frames, with a comment now and then as a sign of life.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::Stream;
use holdpoint_engine::bus::Subscription;
use holdpoint_engine::frame::{Event, Frame};
use holdpoint_engine::{SystemWorld, World as _};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::stall::Stalled;

/// How often a stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a client waits before it connects again, in milliseconds.
const RETRY: &str = "retry: 3000\n\n";

/// A stream that is being sent.
struct Sending {
    subscription: Subscription,
    stalled: Stalled,
    /// Of the newest event that was sent.
    last: Option<u64>,
    at: Place,
}

/// How far it is.
enum Place {
    Start,
    Middle,
    End,
}

/// The body of a stream. One whose reader stalled ends as soon as it can be told so (WIRE b.2).
pub(crate) fn body(subscription: Subscription, stalled: Stalled) -> Body {
    stalled.forget();
    Body::from_stream(stream(Sending { subscription, stalled, last: None, at: Place::Start }))
}

fn stream(start: Sending) -> impl Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::unfold(start, async move |mut sending| {
        let bytes = match sending.at {
            Place::Start => {
                sending.at = Place::Middle;
                Bytes::from_static(RETRY.as_bytes())
            }
            Place::Middle if sending.stalled.is_set() => {
                sending.at = Place::End;
                encode(&evicted(sending.last))
            }
            Place::Middle => {
                match timeout_at(Instant::now() + HEARTBEAT, sending.subscription.next()).await {
                    Ok(Some(frame)) => {
                        sending.last = frame.id.or(sending.last);
                        encode(&frame)
                    }
                    Ok(None) => return None,
                    Err(_) => Bytes::from_static(b": alive\n\n"),
                }
            }
            Place::End => return None,
        };
        Some((Ok(bytes), sending))
    })
}

/// The last word to one that read nothing for too long.
fn evicted(last: Option<u64>) -> Frame {
    let data = json!({
        "reason": "writer_idle_timeout",
        "errorKind": "writer_idle_timeout",
        "droppedAfter": last,
    });
    Event::new("client_evicted", data).frame(None, SystemWorld.now())
}

fn encode(frame: &Frame) -> Bytes {
    let mut head = String::with_capacity(64);
    if let Some(id) = frame.id {
        // Writing to a string does not fail.
        let _ = writeln!(head, "id: {id}");
    }
    let _ = write!(head, "event: {}\ndata: ", frame.kind);
    let mut bytes = Vec::with_capacity(head.len() + frame.json.len() + 2);
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(&frame.json);
    bytes.extend_from_slice(b"\n\n");
    Bytes::from(bytes)
}
