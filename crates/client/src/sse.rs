//! One connection to a session's stream, from its first byte to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures::{Stream, StreamExt};

use crate::daemon::reason;
use crate::event::Event;

/// The daemon sends a sign of life every few seconds, and one that is older a comment every 15 s; after four times that
/// nobody is there.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest single frame, in bytes, as the peer's own client has it.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) String);

pub(crate) type Frames = Pin<Box<dyn Stream<Item = Result<Event, Ended>> + Send>>;

/// The events of a response's body. Frames that are no event of version 1 are left out.
pub(crate) fn frames(response: reqwest::Response) -> Frames {
    // Bytes since the last frame: the parser itself would collect an endless line without a limit.
    let pending = Arc::new(AtomicUsize::new(0));
    let counted = pending.clone();
    let body = Box::pin(response.bytes_stream());
    let bytes = futures::stream::unfold(Some(body), move |body| {
        let counted = counted.clone();
        async move {
            let mut body = body?;
            let chunk: Result<Bytes, Ended> = match tokio::time::timeout(SILENCE, body.next()).await {
                Err(_) => Err(Ended(format!("nothing came for {} s", SILENCE.as_secs()))),
                Ok(None) => return None,
                Ok(Some(Err(error))) => Err(Ended(reason(&error))),
                Ok(Some(Ok(chunk))) => {
                    // Comments come outside frames; only what can belong to one is counted against it.
                    let total = counted.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
                    if chunk.starts_with(b":") {
                        counted.store(0, Ordering::Relaxed);
                    }
                    if total > MAX_FRAME {
                        Err(Ended(format!("a frame was longer than {MAX_FRAME} bytes")))
                    } else {
                        Ok(chunk)
                    }
                }
            };
            let rest = chunk.is_ok().then_some(body);
            Some((chunk, rest))
        }
    });
    Box::pin(bytes.eventsource().filter_map(move |frame| {
        pending.store(0, Ordering::Relaxed);
        let event = match frame {
            Ok(frame) => serde_json::from_str::<Event>(&frame.data).ok().filter(|event| event.v == 1).map(Ok),
            Err(eventsource_stream::EventStreamError::Transport(ended)) => Some(Err(ended)),
            Err(error) => Some(Err(Ended(error.to_string()))),
        };
        std::future::ready(event)
    }))
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
