//! Time and identities of one life of the daemon: tokio's paused clock, and numbers from the seed.

use std::sync::{Mutex, PoisonError};

use holdpoint_engine::{Read, Summary, Transcripts, Wanted, World};
use holdpoint_model::ids::{CallId, Micros, SessionId};
use holdpoint_model::restore::{assess, interruption};
use holdpoint_transcript::ReadError;
use holdpoint_transcript::replay::{Finalise, Page, PageRequest};
use tokio::time::Instant;
use uuid::Uuid;

use crate::rng::Rng;
use crate::store::Shared;

/// Where simulated time begins, in microseconds since 1970.
const EPOCH: i64 = 1_800_000_000_000_000;
/// How far lives are apart, in microseconds.
const LIFE: i64 = 1_000_000_000_000;

/// A world.
pub(crate) struct SimWorld {
    base: i64,
    since: Instant,
    rng: Mutex<Rng>,
}

impl SimWorld {
    /// The world of one life. To be made inside its runtime.
    pub(crate) fn new(seed: u64, life: u64) -> Self {
        let base = EPOCH + LIFE * i64::try_from(life).unwrap_or(0);
        let rng = Rng::new(crate::rng::mix(&[seed, life, 0x1D5]));
        Self { base, since: Instant::now(), rng: Mutex::new(rng) }
    }

    fn bytes(&self) -> [u8; 16] {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&rng.next().to_be_bytes());
        bytes[8..].copy_from_slice(&rng.next().to_be_bytes());
        bytes
    }
}

impl World for SimWorld {
    fn now(&self) -> Micros {
        let elapsed = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX - self.base);
        Micros(self.base + elapsed)
    }

    fn uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    fn ordered_uuid(&self) -> Uuid {
        let millis = u64::try_from(self.now().0 / 1000).unwrap_or(0);
        let mut random = [0; 10];
        random.copy_from_slice(&self.bytes()[..10]);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

/// The simulated agent's transcripts, as the engine reads them.
pub(crate) struct SimTranscripts(pub(crate) Shared);

fn ready<T: Send + 'static>(value: T) -> holdpoint_engine::port::Reply<T> {
    Box::pin(std::future::ready(value))
}

impl Transcripts for SimTranscripts {
    fn window(&self, _: &SessionId, _: Wanted) -> holdpoint_engine::port::Reply<Result<Read, String>> {
        ready(Ok(Read::default()))
    }

    fn page(
        &self,
        session: &SessionId,
        _: PageRequest,
        _: Finalise,
    ) -> holdpoint_engine::port::Reply<Result<Option<Page>, ReadError>> {
        let known = self.0.lock().histories.contains_key(session);
        ready(Ok(known.then(Page::default)))
    }

    fn interruption(
        &self,
        session: &SessionId,
    ) -> holdpoint_engine::port::Reply<Result<&'static str, String>> {
        let tail = self.0.lock().histories.get(session).map(|history| history.tail());
        ready(Ok(tail.map_or("none", |tail| interruption(&tail).as_str())))
    }

    fn dangling(
        &self,
        session: &SessionId,
    ) -> holdpoint_engine::port::Reply<Result<std::collections::BTreeSet<CallId>, String>> {
        let tail = self.0.lock().histories.get(session).map(|history| history.tail());
        let restore = tail.and_then(|tail| assess(&tail).ok());
        ready(Ok(restore.map(|restore| restore.spared()).unwrap_or_default()))
    }

    fn summary(
        &self,
        session: &SessionId,
    ) -> holdpoint_engine::port::Reply<Result<Option<Summary>, ReadError>> {
        ready(Ok(self.0.lock().histories.contains_key(session).then(Summary::default)))
    }

    fn len(&self, session: &SessionId) -> u64 {
        self.0.lock().histories.get(session).map_or(0, |history| history.0.len() as u64)
    }

    fn branch(&self, from: &SessionId, to: &SessionId) -> holdpoint_engine::port::Reply<Result<(), String>> {
        let mut store = self.0.lock();
        if let Some(history) = store.histories.get(from).cloned() {
            store.histories.insert(to.clone(), history);
        }
        ready(Ok(()))
    }

    fn remove(&self, session: &SessionId) -> Result<(), String> {
        self.0.lock().histories.remove(session);
        Ok(())
    }
}
