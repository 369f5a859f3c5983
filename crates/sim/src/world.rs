//! Time and identities of one life of the daemon: tokio's paused clock, and numbers from the seed.

use std::sync::{Mutex, PoisonError};

use holdpoint_engine::World;
use holdpoint_model::ids::Micros;
use tokio::time::Instant;
use uuid::Uuid;

use crate::rng::{Rng, mix};

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
        // Now and then somebody has set the clock back between two lives.
        let back = if mix(&[seed, life, 0xC10C]).is_multiple_of(8) { 3 } else { 0 };
        let base = EPOCH + LIFE * (i64::try_from(life).unwrap_or(0) - back);
        let rng = Rng::new(mix(&[seed, life, 0x1D5]));
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
