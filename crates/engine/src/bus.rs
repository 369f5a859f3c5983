//! A session's stream of events: ids, a ring for those who come back, and bounded queues for those who read
//! (WIRE b.4).
//!
//! The bus belongs to the session's actor, so that what a subscriber is told first and what follows it have
//! no gap between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use holdpoint_model::ids::{ClientId, Micros};
use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

use crate::frame::{Event, Frame};

/// Frames that one reader may lag behind unless it asks for another number.
pub const DEFAULT_MAX_QUEUED: usize = 256;
/// Bytes that one reader may lag behind.
pub const MAX_QUEUED_BYTES: usize = 2 * 1024 * 1024;
/// Readers of one session.
pub const MAX_SUBSCRIBERS: usize = 64;
/// Bytes that are kept for those who come back, however few frames they are.
pub const MAX_RING_BYTES: usize = 32 * 1024 * 1024;
/// Bytes that are replayed to one who comes back.
const REPLAY_BUDGET: usize = 8 * 1024 * 1024;
/// Room in a reader's queue for frames of its own (a warning, the last word), which do not count.
const OWN_FRAMES: usize = 8;

/// The stream of one session, in one life of the daemon.
#[derive(Debug)]
pub struct Bus {
    epoch: Uuid,
    next: u64,
    ring: VecDeque<Arc<Frame>>,
    ring_size: usize,
    /// What the ring holds, in bytes.
    ring_bytes: usize,
    readers: Vec<Reader>,
    /// The newest id, set when every reader's queue has had its frame.
    newest: Arc<AtomicU64>,
    /// Rung when a reader's end is dropped.
    left: Arc<Notify>,
}

#[derive(Debug)]
struct Reader {
    client: Option<ClientId>,
    frames: mpsc::Sender<Arc<Frame>>,
    last: Option<oneshot::Sender<Arc<Frame>>>,
    queued: Arc<Queued>,
    max_queued: usize,
    warned: bool,
}

/// What waits in one reader's queue.
#[derive(Debug, Default)]
struct Queued {
    frames: AtomicUsize,
    bytes: AtomicUsize,
}

/// Where a reader wants to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The last id that it has.
    pub last: u64,
    /// The epoch that the id is of, if it says.
    pub epoch: Option<String>,
}

/// A reader's end of the stream.
#[derive(Debug)]
pub struct Subscription {
    /// The stream's epoch.
    pub epoch: Uuid,
    /// What is told first.
    pub first: VecDeque<Arc<Frame>>,
    frames: mpsc::Receiver<Arc<Frame>>,
    last: oneshot::Receiver<Arc<Frame>>,
    queued: Arc<Queued>,
    newest: Arc<AtomicU64>,
    /// Last: it rings once the queue is closed.
    _left: Leaving,
}

/// Rings when it is dropped.
#[derive(Debug)]
struct Leaving(Arc<Notify>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Subscription {
    /// The next frame; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Arc<Frame>> {
        if let Some(frame) = self.first.pop_front() {
            return Some(frame);
        }
        match self.frames.recv().await {
            Some(frame) => Some(self.taken(frame)),
            // The queue is empty and closed: what is left is the last word, if one was left.
            None => self.last.try_recv().ok(),
        }
    }

    /// A sign of life (H12): a frame without id that names the newest event, so that a reader who lacks one learns it.
    /// Of a queue that is not empty it is the next frame instead, since what the sign names goes before it; `None` where
    /// the stream has ended.
    pub fn sign_of_life(&mut self, now: Micros) -> Option<Arc<Frame>> {
        if let Some(frame) = self.first.pop_front() {
            return Some(frame);
        }
        // Read before the queue is: up to this id everything was put into it.
        let newest = self.newest.load(Ordering::Acquire);
        match self.frames.try_recv() {
            Ok(frame) => Some(self.taken(frame)),
            Err(mpsc::error::TryRecvError::Empty) => {
                let data = json!({ "lastEventId": newest, "eventEpoch": self.epoch });
                Some(Arc::new(Event::new("alive", data).frame(None, now)))
            }
            Err(mpsc::error::TryRecvError::Disconnected) => None,
        }
    }

    /// A frame left the queue.
    fn taken(&self, frame: Arc<Frame>) -> Arc<Frame> {
        if frame.id.is_some() {
            self.queued.frames.fetch_sub(1, Ordering::Relaxed);
            self.queued.bytes.fetch_sub(frame.weight(), Ordering::Relaxed);
        }
        frame
    }
}

/// The stream has all the readers that it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has {MAX_SUBSCRIBERS} readers, and takes no more")]
pub struct TooManyReaders;

impl Bus {
    /// A new stream. `ring_size` frames are kept for those who come back.
    pub fn new(epoch: Uuid, ring_size: usize) -> Self {
        Self {
            epoch,
            next: 1,
            ring: VecDeque::new(),
            ring_size: ring_size.max(1),
            ring_bytes: 0,
            readers: Vec::new(),
            newest: Arc::default(),
            left: Arc::default(),
        }
    }

    /// The stream's identity: an id means something only together with it.
    pub fn epoch(&self) -> Uuid {
        self.epoch
    }

    /// The id of the newest frame; 0 where there is none.
    pub fn last_id(&self) -> u64 {
        self.next - 1
    }

    /// How many read.
    pub fn readers(&self) -> usize {
        self.readers.iter().filter(|reader| !reader.frames.is_closed()).count()
    }

    /// Whether this client reads.
    pub fn is_read_by(&self, client: &ClientId) -> bool {
        self.readers.iter().any(|reader| reader.client.as_ref() == Some(client) && !reader.frames.is_closed())
    }

    /// Rings when a reader goes away.
    pub fn reader_left(&self) -> Arc<Notify> {
        Arc::clone(&self.left)
    }

    /// Uses up ids for events that exist only in a load's response, and forgets the ring.
    pub fn skip(&mut self, ids: u64) {
        self.next += ids;
        self.newest.store(self.last_id(), Ordering::Release);
        self.ring.clear();
        self.ring_bytes = 0;
    }

    /// Frames with an id above `after` that the ring still has.
    pub fn since(&self, after: u64) -> impl Iterator<Item = &Arc<Frame>> {
        self.ring.iter().filter(move |frame| frame.id.is_some_and(|id| id > after))
    }

    /// The lowest id in the ring, or the next one.
    pub fn earliest(&self) -> u64 {
        self.ring.front().and_then(|frame| frame.id).unwrap_or(self.next)
    }

    /// Publishes an event to all. Never fails: who cannot keep up is let go.
    pub fn publish(&mut self, event: &Event, now: Micros) -> Arc<Frame> {
        let frame = Arc::new(event.frame(Some(self.next), now));
        self.next += 1;
        self.keep(Arc::clone(&frame));
        self.readers.retain_mut(|reader| reader.take(&frame, now));
        self.newest.store(self.last_id(), Ordering::Release);
        frame
    }

    /// Puts a frame into the ring. The newest always stays.
    fn keep(&mut self, frame: Arc<Frame>) {
        self.ring_bytes += frame.weight();
        self.ring.push_back(frame);
        while self.ring.len() > self.ring_size || (self.ring_bytes > MAX_RING_BYTES && self.ring.len() > 1) {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.ring_bytes -= oldest.weight();
        }
    }

    /// Tells all who read something that is no event of the stream: it has no id, and nobody gets it later. A reader who
    /// lags behind does without.
    pub fn hint(&mut self, event: &Event, now: Micros) {
        if !self.readers.is_empty() {
            let frame = Arc::new(event.frame(None, now));
            for reader in &self.readers {
                reader.hint(&frame);
            }
        }
    }

    /// Publishes a last event to all, and ends the stream for them.
    pub fn end(&mut self, event: &Event, now: Micros) {
        self.publish(event, now);
        self.readers.clear();
    }

    /// Adds a reader. `open` are the session's open questions, told to one that comes without a cursor (R23).
    ///
    /// # Errors
    /// There are [`MAX_SUBSCRIBERS`] readers.
    pub fn subscribe(
        &mut self,
        cursor: Option<&Cursor>,
        max_queued: usize,
        open: Vec<Event>,
        client: Option<ClientId>,
        now: Micros,
    ) -> Result<Subscription, TooManyReaders> {
        self.readers.retain(|reader| !reader.frames.is_closed());
        if self.readers.len() >= MAX_SUBSCRIBERS {
            return Err(TooManyReaders);
        }
        let mut first = VecDeque::new();
        match cursor {
            None => first.extend(open.iter().map(|event| Arc::new(event.frame(None, now)))),
            Some(cursor) => self.catch_up(cursor, &mut first, now),
        }
        let (frames, receiver) = mpsc::channel(max_queued + OWN_FRAMES);
        let (last, last_receiver) = oneshot::channel();
        let queued = Arc::new(Queued::default());
        self.readers.push(Reader {
            client,
            frames,
            last: Some(last),
            queued: Arc::clone(&queued),
            max_queued,
            warned: false,
        });
        Ok(Subscription {
            epoch: self.epoch,
            first,
            frames: receiver,
            last: last_receiver,
            queued,
            newest: Arc::clone(&self.newest),
            _left: Leaving(Arc::clone(&self.left)),
        })
    }

    fn catch_up(&self, cursor: &Cursor, first: &mut VecDeque<Arc<Frame>>, now: Micros) {
        let other_epoch = cursor.epoch.as_ref().is_some_and(|epoch| *epoch != self.epoch.to_string());
        let (reason, after) = if other_epoch || cursor.last >= self.next {
            (Some("epoch_reset"), 0)
        } else if cursor.last + 1 < self.earliest() {
            if self.ring.is_empty() {
                (Some("seeded_replay_not_in_ring"), 0)
            } else {
                (Some("ring_evicted"), 0)
            }
        } else {
            (None, cursor.last)
        };
        let mut resync = |reason: &str| {
            let data = json!({
                "reason": reason,
                "lastDeliveredId": cursor.last,
                "earliestAvailableId": self.earliest(),
            });
            first.push_back(Arc::new(Event::new("state_resync_required", data).frame(None, now)));
        };
        if let Some(reason) = reason {
            resync(reason);
        }
        let mut frames: Vec<_> = self.since(after).cloned().collect();
        if frames.iter().map(|frame| frame.weight()).sum::<usize>() > REPLAY_BUDGET {
            if reason.is_none() {
                resync("replay_budget_exceeded");
            }
            let mut left = REPLAY_BUDGET;
            let keep = frames.iter().rev().take_while(|frame| {
                let fits = frame.weight() <= left;
                left = left.saturating_sub(frame.weight());
                fits
            });
            let keep = keep.count();
            frames.drain(..frames.len() - keep);
        }
        let mut done = json!({ "replayedCount": frames.len() });
        if let Some(last) = frames.last().and_then(|frame| frame.id) {
            done["lastReplayedEventId"] = json!(last);
            done["lastEventId"] = json!(self.last_id());
        }
        first.extend(frames);
        first.push_back(Arc::new(Event::new("replay_complete", done).frame(None, now)));
    }
}

impl Reader {
    /// Queues a frame of its own, unless several wait.
    fn hint(&self, frame: &Arc<Frame>) {
        let all = self.max_queued + OWN_FRAMES - self.frames.capacity();
        let own = all.saturating_sub(self.queued.frames.load(Ordering::Relaxed));
        if own < OWN_FRAMES / 2 {
            let _ = self.frames.try_send(Arc::clone(frame));
        }
    }

    /// Queues a frame; `false` lets the reader go.
    fn take(&mut self, frame: &Arc<Frame>, now: Micros) -> bool {
        let frames = self.queued.frames.load(Ordering::Relaxed);
        let bytes = self.queued.bytes.load(Ordering::Relaxed);
        let over = if frames >= self.max_queued {
            Some("queue_overflow")
        } else if frames > 0 && bytes + frame.weight() > MAX_QUEUED_BYTES {
            Some("queue_bytes_overflow")
        } else {
            None
        };
        if let Some(reason) = over {
            self.evict(reason, frame, frames, bytes, now);
            return false;
        }
        // By what it has left: one event may be as large as the room that it was warned of.
        if self.fullness(frames, bytes) < 375 {
            self.warned = false;
        }
        self.queued.frames.fetch_add(1, Ordering::Relaxed);
        self.queued.bytes.fetch_add(frame.weight(), Ordering::Relaxed);
        if self.frames.try_send(Arc::clone(frame)).is_err() {
            return false;
        }
        self.warn(frames + 1, bytes + frame.weight(), frame.id, now);
        true
    }

    fn evict(&mut self, reason: &str, frame: &Frame, frames: usize, bytes: usize, now: Micros) {
        let data = json!({
            "reason": reason,
            "droppedAfter": frame.id.map(|id| id - 1),
            "queueSize": frames,
            "maxQueued": self.max_queued,
            "queuedBytes": bytes,
            "maxQueuedBytes": MAX_QUEUED_BYTES,
            "eventBytes": frame.weight(),
        });
        if let Some(last) = self.last.take() {
            let _ = last.send(Arc::new(Event::new("client_evicted", data).frame(None, now)));
        }
        tracing::warn!(reason, frames, bytes, "a reader that could not keep up was let go");
    }

    /// How full a queue of this is, in thousandths.
    fn fullness(&self, frames: usize, bytes: usize) -> usize {
        (frames * 1000 / self.max_queued).max(bytes * 1000 / MAX_QUEUED_BYTES)
    }

    /// Warns at three quarters, once until the queue is below three eighths again.
    fn warn(&mut self, frames: usize, bytes: usize, last: Option<u64>, now: Micros) {
        if self.fullness(frames, bytes) < 750 || self.warned {
            return;
        }
        self.warned = true;
        let data = json!({
            "queueSize": frames,
            "maxQueued": self.max_queued,
            "lastEventId": last,
            "queuedBytes": bytes,
            "maxQueuedBytes": MAX_QUEUED_BYTES,
            "threshold": 0.75,
        });
        let _ = self.frames.try_send(Arc::new(Event::new("slow_client_warning", data).frame(None, now)));
    }
}

#[cfg(test)]
mod tests;
