//! A session's events over many connections: reconnects with the cursor, and wakes the session again when the
//! daemon was restarted.

use std::time::Duration;

use futures::StreamExt;
use holdpoint_model::ids::SessionId;
use reqwest::Method;
use tokio::time::Instant;

use crate::daemon::{Daemon, session, with_query};
use crate::error::{ClientError, Refusal};
use crate::event::{Event, EventKind};
use crate::session::Attached;
use crate::sse::{Frames, frames};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const CONNECT_TIME: Duration = Duration::from_secs(30);
/// How long a daemon may be away before a subscription gives up. An upgrade fits in.
const OUTAGE: Duration = Duration::from_secs(120);

/// A place on a session's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The last event that was seen; `None`: only what comes from now on, and the open questions (R23).
    pub id: Option<u64>,
    /// The epoch that the id belongs to.
    pub epoch: Option<String>,
}

impl Cursor {
    /// After this event of this epoch.
    pub fn after(id: u64, epoch: Option<String>) -> Self {
        Self { id: Some(id), epoch }
    }
}

/// What a subscription has to say.
#[derive(Debug)]
pub enum Signal {
    /// An event. Never the same one twice.
    Event(Box<Event>),
    /// The connection is gone; the next call tries again. Told once per outage.
    Lost {
        /// Why.
        reason: String,
    },
    /// The connection is back.
    Back,
    /// The daemon did not have the session any more (it was restarted, most likely); it was resumed.
    Resumed(Box<Attached>),
}

/// A session's events. Drop it to unsubscribe.
pub struct Subscription {
    daemon: Daemon,
    session: SessionId,
    cursor: Cursor,
    frames: Option<Frames>,
    stream_id: Option<String>,
    /// Since when nothing is connected, with the number of tries since.
    outage: Option<(Instant, u32)>,
    retry_at: Option<Instant>,
    limit: Duration,
    revive: bool,
    /// Whether a connection ever was: the first failure is the caller's to hear.
    started: bool,
}

impl Subscription {
    pub(crate) fn new(daemon: Daemon, session: SessionId, cursor: Cursor) -> Self {
        Self {
            daemon,
            session,
            cursor,
            frames: None,
            stream_id: None,
            outage: None,
            retry_at: None,
            limit: OUTAGE,
            revive: true,
            started: false,
        }
    }

    /// Gives up after the daemon was away for so long.
    #[must_use]
    pub fn give_up_after(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Does not resume a session that the daemon hasn't any more; then that is an error.
    #[must_use]
    pub fn without_resume(mut self) -> Self {
        self.revive = false;
        self
    }

    /// The last event that was seen.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Connects, if that is not done yet: what happens after this returned is seen, without a cursor too.
    ///
    /// # Errors
    /// The daemon refused, or is away.
    pub async fn connect(&mut self) -> Result<(), ClientError> {
        if self.frames.is_none() {
            self.frames = Some(self.open().await?);
            self.started = true;
        }
        Ok(())
    }

    /// Waits for the next signal. Nothing is lost if the future is dropped before it is ready.
    ///
    /// # Errors
    /// The daemon refused (for good), or was away for too long. The subscription can be asked again.
    pub async fn next(&mut self) -> Result<Signal, ClientError> {
        loop {
            let Some(frames) = &mut self.frames else {
                match self.reconnect().await? {
                    Some(signal) => return Ok(signal),
                    None => continue,
                }
            };
            let reason = match frames.next().await {
                Some(Ok(event)) if event.kind == "alive" => {
                    if !self.lacks(&event) {
                        continue;
                    }
                    "an event never came".to_owned()
                }
                Some(Ok(event)) => match self.note(event) {
                    Some(event) => return Ok(Signal::Event(event)),
                    None => continue,
                },
                Some(Err(ended)) => ended.0,
                None => "the stream ended".to_owned(),
            };
            self.frames = None;
            if self.outage.is_none() {
                self.outage = Some((Instant::now(), 0));
                self.retry_at = Some(Instant::now() + FIRST_PAUSE);
                return Ok(Signal::Lost { reason });
            }
        }
    }

    /// Whether a sign of life names an event that never came (H12): it is asked for anew, from the cursor.
    fn lacks(&self, alive: &Event) -> bool {
        let newest = alive.data.get("lastEventId").and_then(serde_json::Value::as_u64);
        // Without a cursor it is not known where the stream was entered.
        self.cursor.id.zip(newest).is_some_and(|(seen, newest)| newest > seen)
    }

    /// Moves the cursor. `None`: the event was seen before.
    fn note(&mut self, event: Event) -> Option<Box<Event>> {
        if let EventKind::Resync(resync) = event.parse()
            && resync.reason == "epoch_reset"
        {
            // Ids start again: what follows is new, whatever its number.
            self.cursor.id = Some(0);
        }
        if let Some(id) = event.id {
            if self.cursor.id.is_some_and(|seen| id <= seen) {
                return None;
            }
            self.cursor.id = Some(id);
        }
        Some(Box::new(event))
    }

    /// Tries once to connect. `None`: try again.
    async fn reconnect(&mut self) -> Result<Option<Signal>, ClientError> {
        if let Some(at) = self.retry_at {
            tokio::time::sleep_until(at).await;
        }
        let error = match self.open().await {
            Ok(frames) => {
                self.frames = Some(frames);
                self.started = true;
                self.retry_at = None;
                return Ok(self.outage.take().map(|_| Signal::Back));
            }
            Err(error) => error,
        };
        if let Some(Refusal::NotFound) = error.refusal()
            && self.revive
        {
            match self.daemon.resume(&self.session).await {
                Ok(attached) => {
                    // The client's id is kept over restarts (R16); a daemon that lost it gave another one.
                    self.daemon = self.daemon.with_client_id(attached.client_id.clone());
                    self.retry_at = None;
                    return Ok(Some(Signal::Resumed(Box::new(attached))));
                }
                Err(error) => return self.failed(error),
            }
        }
        self.failed(error)
    }

    /// Whether a failed try is the end. If not, sets the time of the next one.
    fn failed(&mut self, error: ClientError) -> Result<Option<Signal>, ClientError> {
        let later =
            error.is_outage() || matches!(error.refusal(), Some(Refusal::TryLater | Refusal::Conflict));
        if !self.started || !later {
            return Err(error);
        }
        let now = Instant::now();
        let told = self.outage.is_some();
        let (since, tries) = self.outage.unwrap_or((now, 0));
        if now.duration_since(since) >= self.limit {
            return Err(error);
        }
        let asked = match &error {
            ClientError::Refused(api) => api.retry_after,
            _ => None,
        };
        let pause = asked.unwrap_or_else(|| (FIRST_PAUSE * 2u32.saturating_pow(tries)).min(LONGEST_PAUSE));
        self.outage = Some((since, tries.saturating_add(1).min(16)));
        self.retry_at = Some(now + pause.min(self.limit));
        Ok((!told).then(|| Signal::Lost { reason: error.to_string() }))
    }

    async fn open(&mut self) -> Result<Frames, ClientError> {
        const CALL: &str = "opening the event stream";
        let mut query = Vec::new();
        if self.started {
            query.push(("connectReason", "resume".to_owned()));
            query.extend(self.stream_id.as_ref().map(|stream| ("previousStreamId", stream.clone())));
        }
        let path = with_query(&session(&self.session, "events"), &query);
        let mut request = self.daemon.open_ended(Method::GET, &path).header("Accept", "text/event-stream");
        if let Some(id) = self.daemon.client_id() {
            request = request.header("X-Qwen-Client-Id", id.as_str());
        }
        if let Some(id) = self.cursor.id {
            request = request.header("Last-Event-ID", id.to_string());
        }
        if let Some(epoch) = &self.cursor.epoch {
            request = request.header("X-Qwen-Event-Epoch", epoch);
        }
        let response = match tokio::time::timeout(CONNECT_TIME, self.daemon.send(CALL, request)).await {
            Ok(response) => response?,
            Err(_) => return Err(ClientError::TimedOut { url: self.daemon.url().to_owned(), call: CALL }),
        };
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        if !header("content-type").is_some_and(|kind| kind.contains("text/event-stream")) {
            return Err(self.daemon.unreadable(CALL, "not an event stream".to_owned()));
        }
        self.stream_id = header("X-Qwen-SSE-Stream-Id").or(self.stream_id.take());
        if let Some(epoch) = header("X-Qwen-Event-Epoch") {
            if self.cursor.epoch.as_ref().is_some_and(|ours| *ours != epoch) {
                self.cursor.id = Some(0);
            }
            self.cursor.epoch = Some(epoch);
        }
        Ok(frames(response))
    }
}
