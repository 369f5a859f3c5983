//! The event stream's bytes (WIRE a.5): `retry`, then frames, and every few seconds a sign of life (H12).

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::Stream;
use holdpoint_engine::bus::Subscription;
use holdpoint_engine::frame::{Event, Frame};
use holdpoint_engine::{SystemWorld, World as _};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::stall::Stalled;

/// How often a stream shows that it lives, and names its newest event.
const ALIVE: Duration = Duration::from_secs(3);

/// What a client waits before it connects again, in milliseconds.
const RETRY: &str = "retry: 3000\n\n";

/// A stream that is being sent.
struct Sending {
    subscription: Subscription,
    stalled: Stalled,
    /// Of the newest event that was sent.
    last: Option<u64>,
    /// When the next sign of life is due.
    alive_at: Instant,
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
    let alive_at = Instant::now() + ALIVE;
    Body::from_stream(stream(Sending { subscription, stalled, last: None, alive_at, at: Place::Start }))
}

impl Sending {
    /// The next frame, or a sign of life where one is due; `None` at the end.
    async fn next(&mut self) -> Option<Arc<Frame>> {
        if let Ok(frame) = timeout_at(self.alive_at, self.subscription.next()).await {
            return frame;
        }
        self.alive_at = Instant::now() + ALIVE;
        match self.subscription.sign_of_life(SystemWorld.now()) {
            Some(frame) => Some(frame),
            None => self.subscription.next().await,
        }
    }
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
                let frame = sending.next().await?;
                sending.last = frame.id.or(sending.last);
                encode(&frame)
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

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, TryStreamExt as _};
    use holdpoint_engine::bus::{Bus, Cursor, DEFAULT_MAX_QUEUED};
    use holdpoint_model::ids::Micros;
    use serde_json::Value;

    use super::*;

    fn bus() -> Bus {
        Bus::new(uuid::Uuid::new_v4(), 16)
    }

    /// The frames of a stream, without what is no frame.
    fn frames(subscription: Subscription) -> impl Stream<Item = Value> + Unpin {
        let body = body(subscription, Stalled::default()).into_data_stream();
        let frames = body.map_err(|_| ()).filter_map(async |bytes| {
            let text = String::from_utf8(bytes.unwrap().to_vec()).unwrap();
            let data = text.lines().find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
            assert!(data.is_none() || text.contains("id: ") == text.contains("\"id\":"), "{text}");
            data.map(|data| serde_json::from_str(&data).unwrap())
        });
        Box::pin(frames)
    }

    fn event(text: &str) -> Event {
        Event::new("session_update", json!({ "text": text }))
    }

    #[tokio::test(start_paused = true)]
    async fn h12_a_quiet_stream_names_its_newest_event_every_three_seconds() {
        let mut bus = bus();
        bus.publish(&event("one"), Micros(0));
        let cursor = Cursor { last: 1, epoch: None };
        let subscription =
            bus.subscribe(Some(&cursor), DEFAULT_MAX_QUEUED, Vec::new(), None, Micros(0)).unwrap();
        let mut frames = frames(subscription);
        let since = Instant::now();
        assert_eq!(frames.next().await.unwrap()["type"], "replay_complete");
        for n in 1..=3 {
            let alive = frames.next().await.unwrap();
            assert_eq!(alive["type"], "alive", "{alive}");
            assert_eq!(alive["data"], json!({ "lastEventId": 1, "eventEpoch": bus.epoch() }));
            assert!(alive.get("id").is_none(), "it is no event of the session: {alive}");
            assert_eq!(since.elapsed(), ALIVE * n);
        }
        bus.end(&event("last"), Micros(0));
        assert_eq!(frames.next().await.unwrap()["data"]["text"], "last");
        assert!(frames.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn h12_a_sign_of_life_never_names_what_is_still_on_its_way() {
        let mut bus = bus();
        let subscription = bus.subscribe(None, DEFAULT_MAX_QUEUED, Vec::new(), None, Micros(0)).unwrap();
        let mut frames = frames(subscription);
        assert_eq!(frames.next().await.unwrap()["data"]["lastEventId"], 0);
        // It is due again, and so is what was published meanwhile.
        tokio::time::advance(ALIVE * 2).await;
        for n in 1..=4 {
            bus.publish(&event(&n.to_string()), Micros(0));
        }
        for n in 1..=4 {
            let frame = frames.next().await.unwrap();
            assert_eq!((&frame["id"], &frame["type"]), (&json!(n), &json!("session_update")), "{frame}");
        }
        assert_eq!(frames.next().await.unwrap()["data"]["lastEventId"], 4);
    }
}
