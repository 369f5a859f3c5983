//! Which session's messages go where.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdpoint_engine::port::FromAgent;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::wire;

/// Updates of a session whose id we do not know yet: some agents speak of a session before they have answered
/// the request that made it, but only a few lines.
const PARKED: usize = 64;

/// Sessions that were closed, so that a late request of theirs is left unanswered instead of refused. The agent
/// holds far more for each; past this many the oldest memory is not worth keeping.
const CLOSED: usize = 10_000;

/// The routes of one agent process.
pub(crate) struct Routes {
    inner: Mutex<Inner>,
    max_replay: usize,
}

#[derive(Default)]
struct Inner {
    routes: HashMap<String, Route>,
    closed: HashSet<String>,
    next: u64,
    making: usize,
    parked: VecDeque<(String, FromAgent)>,
}

struct Route {
    /// Tells a session that was closed and taken up again from its former self.
    incarnation: u64,
    /// The newest take-up: an older one that ends late changes nothing any more.
    take_up: u64,
    sink: mpsc::Sender<FromAgent>,
    /// Cancelled when the sink is no longer this route's: whoever waits for room in it looks again.
    moved: CancellationToken,
    /// While the session is being taken up: what the agent says of it meanwhile.
    loading: Option<Loading>,
}

#[derive(Default)]
struct Loading {
    items: VecDeque<FromAgent>,
    weight: usize,
    dropped: usize,
}

/// What becomes of a message.
pub(crate) enum Place {
    /// It is kept, or nobody wants it.
    Done,
    /// It goes to this sink.
    Send { message: FromAgent, sink: mpsc::Sender<FromAgent>, moved: CancellationToken, incarnation: u64 },
}

/// What is known of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It has a route.
    Routed,
    /// It had one.
    Closed,
    /// It never had one.
    No,
}

/// A take-up that has begun.
pub(crate) struct Ticket {
    session: String,
    take_up: u64,
    previous: Option<mpsc::Sender<FromAgent>>,
}

impl Ticket {
    /// Whether the session had no route before.
    pub(crate) fn is_fresh(&self) -> bool {
        self.previous.is_none()
    }
}

impl Routes {
    pub(crate) fn new(max_replay: usize) -> Self {
        Self { inner: Mutex::default(), max_replay }
    }

    /// No code under the lock can panic halfway through a change, so a poisoned lock still guards whole data.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A `session/new` is on its way: updates of unknown sessions are parked until [`Self::made`].
    pub(crate) fn making(&self) {
        self.lock().making += 1;
    }

    /// A `session/new` came to its end.
    pub(crate) fn made(&self) {
        let mut inner = self.lock();
        inner.making = inner.making.saturating_sub(1);
        if inner.making == 0 {
            inner.parked.clear();
        }
    }

    /// A new session: from now on it has a route. Returns what came for it before.
    pub(crate) fn open(&self, session: &str, sink: mpsc::Sender<FromAgent>) -> Vec<FromAgent> {
        let mut inner = self.lock();
        let route = inner.route(sink, None);
        inner.insert(session, route);
        let parked = std::mem::take(&mut inner.parked);
        let (mine, others): (Vec<_>, Vec<_>) = parked.into_iter().partition(|(of, _)| of == session);
        inner.parked = others.into();
        mine.into_iter().map(|(_, message)| message).collect()
    }

    /// A take-up begins: what the agent says of the session is kept until it ends, because it may be a replay,
    /// and because the one who waits for the end may not be reading its sink.
    pub(crate) fn begin(&self, session: &str, sink: mpsc::Sender<FromAgent>) -> Ticket {
        let mut inner = self.lock();
        inner.next += 1;
        let take_up = inner.next;
        let session = session.to_owned();
        if let Some(route) = inner.routes.get_mut(&session) {
            let previous = std::mem::replace(&mut route.sink, sink);
            route.take_up = take_up;
            route.moved.cancel();
            route.moved = CancellationToken::new();
            route.loading.get_or_insert_default();
            return Ticket { session, take_up, previous: Some(previous) };
        }
        let mut route = inner.route(sink, Some(Loading::default()));
        route.take_up = take_up;
        inner.insert(&session, route);
        Ticket { session, take_up, previous: None }
    }

    /// The take-up succeeded. Returns what was kept, in order; `None` if the session was closed or taken up
    /// again meanwhile.
    pub(crate) fn commit(&self, ticket: &Ticket) -> Option<Vec<FromAgent>> {
        let mut inner = self.lock();
        let route = inner.of(ticket)?;
        Some(route.loading.take().map(Loading::into_items).unwrap_or_default())
    }

    /// The take-up failed: the session is where it was before. Returns what was kept for the sink that it had.
    pub(crate) fn roll_back(&self, ticket: Ticket) -> Vec<FromAgent> {
        let mut inner = self.lock();
        let Some(route) = inner.of(&ticket) else { return Vec::new() };
        let Some(previous) = ticket.previous else {
            inner.routes.remove(&ticket.session);
            return Vec::new();
        };
        route.sink = previous;
        route.moved.cancel();
        route.moved = CancellationToken::new();
        route.loading.take().map(Loading::into_items).unwrap_or_default()
    }

    /// Says where a message goes, and keeps it where it has to wait.
    pub(crate) fn place(&self, session: &str, message: FromAgent) -> Place {
        let mut inner = self.lock();
        let Some(route) = inner.routes.get_mut(session) else {
            if inner.making > 0 && inner.parked.len() < PARKED && !inner.closed.contains(session) {
                inner.parked.push_back((session.to_owned(), message));
            }
            return Place::Done;
        };
        match &mut route.loading {
            Some(loading) => {
                loading.push(message, self.max_replay);
                Place::Done
            }
            None => Place::Send {
                message,
                sink: route.sink.clone(),
                moved: route.moved.clone(),
                incarnation: route.incarnation,
            },
        }
    }

    /// What is known of a session.
    pub(crate) fn known(&self, session: &str) -> Known {
        let inner = self.lock();
        if inner.routes.contains_key(session) {
            Known::Routed
        } else if inner.closed.contains(session) {
            Known::Closed
        } else {
            Known::No
        }
    }

    /// Closes a session's route: nothing comes to its sink any more.
    pub(crate) fn close(&self, session: &str) {
        let mut inner = self.lock();
        if let Some(route) = inner.routes.remove(session) {
            route.moved.cancel();
        }
        if inner.closed.len() >= CLOSED {
            inner.closed.clear();
        }
        inner.closed.insert(session.to_owned());
    }

    /// Closes a session's route if it is still the one whose sink was found to be gone.
    pub(crate) fn sink_gone(&self, session: &str, incarnation: u64) {
        let same = self.lock().routes.get(session).is_some_and(|route| {
            // A re-take-up may have given it a new sink since.
            route.incarnation == incarnation && route.sink.is_closed()
        });
        if same {
            self.close(session);
        }
    }

    /// The process is gone: every sink, once, and with it what is still kept for it.
    pub(crate) fn take_all(&self) -> Vec<(mpsc::Sender<FromAgent>, Vec<FromAgent>)> {
        let routes = std::mem::take(&mut self.lock().routes);
        routes
            .into_values()
            .map(|route| (route.sink, route.loading.map(Loading::into_items).unwrap_or_default()))
            .collect()
    }
}

impl Inner {
    fn route(&mut self, sink: mpsc::Sender<FromAgent>, loading: Option<Loading>) -> Route {
        self.next += 1;
        Route { incarnation: self.next, take_up: 0, sink, moved: CancellationToken::new(), loading }
    }

    fn insert(&mut self, session: &str, route: Route) {
        self.closed.remove(session);
        if let Some(old) = self.routes.insert(session.to_owned(), route) {
            old.moved.cancel();
        }
    }

    fn of(&mut self, ticket: &Ticket) -> Option<&mut Route> {
        self.routes.get_mut(&ticket.session).filter(|route| route.take_up == ticket.take_up)
    }
}

impl Loading {
    fn push(&mut self, message: FromAgent, max: usize) {
        self.weight += weight(&message);
        self.items.push_back(message);
        while self.weight > max {
            // Only updates are dropped: a request waits for its answer, and a prompt's end is awaited.
            let Some(oldest) = self.items.iter().position(|item| matches!(item, FromAgent::Update(_))) else {
                break;
            };
            if let Some(item) = self.items.remove(oldest) {
                self.weight -= weight(&item);
                self.dropped += 1;
            }
        }
    }

    fn into_items(self) -> Vec<FromAgent> {
        if self.dropped > 0 {
            tracing::warn!(
                dropped = self.dropped,
                "a replay was longer than what is kept; its oldest updates are lost"
            );
        }
        self.items.into()
    }
}

fn weight(message: &FromAgent) -> usize {
    match message {
        FromAgent::Update(update) => wire::weight(update),
        FromAgent::Ask { params, .. } => wire::weight(params),
        FromAgent::PromptEnded { .. } | FromAgent::Gone(_) => 0,
    }
}

/// Takes the updates of a streamed replay out of what was kept.
pub(crate) fn split_replay(items: Vec<FromAgent>) -> (Vec<Value>, Vec<FromAgent>) {
    let mut replay = Vec::new();
    let mut rest = Vec::new();
    for item in items {
        match item {
            FromAgent::Update(update) => replay.push(update),
            other => rest.push(other),
        }
    }
    (replay, rest)
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
