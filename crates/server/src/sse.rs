//! The event stream's bytes (WIRE a.5): `retry`, then frames, with a comment now and then as a sign of life.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::Stream;
use holdpoint_engine::bus::Subscription;
use holdpoint_engine::frame::Frame;
use tokio::time::{Instant, timeout_at};

/// How often a stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a client waits before it connects again, in milliseconds.
const RETRY: &str = "retry: 3000\n\n";

/// The body of a stream.
pub(crate) fn body(subscription: Subscription) -> Body {
    Body::from_stream(stream(subscription))
}

fn stream(subscription: Subscription) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let start = (subscription, true);
    futures::stream::unfold(start, async move |(mut subscription, first)| {
        if first {
            return Some((Ok(Bytes::from_static(RETRY.as_bytes())), (subscription, false)));
        }
        let bytes = match timeout_at(Instant::now() + HEARTBEAT, subscription.next()).await {
            Ok(Some(frame)) => encode(&frame),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": alive\n\n"),
        };
        Some((Ok(bytes), (subscription, false)))
    })
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
