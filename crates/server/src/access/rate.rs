//! `--rate-limit`: token buckets (WIRE e). Off unless asked for.
//!
//! A bucket of our own rather than a crate: the rule for too many keys, the numbers for the headers and the
//! clock that tests can pause would all have to be built around one, and what is left is a few lines.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::ApiError;

/// A bucket is full again after this long without a request.
const WINDOW: Duration = Duration::from_secs(60);
/// Most keys that are remembered. Beyond it requests pass: a limit must not become a way to lock people out.
const MAX_KEYS: usize = 10_000;
/// How often full buckets are looked for when there is no room: the search goes over all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tier {
    /// A prompt: it costs money.
    Prompt,
    /// Anything else that changes something.
    Mutation,
    /// A look.
    Read,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Mutation => "mutation",
            Self::Read => "read",
        }
    }

    /// Requests in a [`WINDOW`].
    fn limit(self) -> u32 {
        match self {
            Self::Prompt => 10,
            Self::Mutation => 30,
            Self::Read => 120,
        }
    }
}

/// The buckets.
#[derive(Default)]
pub(crate) struct RateLimits {
    keys: Mutex<Keys>,
    hits: [AtomicU64; 3],
}

#[derive(Default)]
struct Keys {
    buckets: HashMap<(Tier, String), Bucket>,
    swept: Option<Instant>,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is not counted.
    Untold,
    /// It passes.
    Passed { tier: Tier, remaining: u32, full_in: Duration },
    /// It comes too soon.
    Refused { tier: Tier, retry_after: Duration, full_in: Duration },
}

impl RateLimits {
    /// Takes a token of the key's bucket.
    pub(crate) fn take(&self, tier: Tier, key: &str) -> Verdict {
        let now = Instant::now();
        let full = f64::from(tier.limit());
        let rate = full / WINDOW.as_secs_f64();
        // A bucket is never left half changed, so a panic elsewhere has not harmed it.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bucket) = keys.bucket(tier, key, now) else { return Verdict::Untold };
        let elapsed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * rate).min(full);
        bucket.at = now;
        let until = |tokens: f64, wanted: f64| Duration::from_secs_f64(((wanted - tokens) / rate).max(0.0));
        if bucket.tokens < 1.0 {
            let (retry_after, full_in) = (until(bucket.tokens, 1.0), until(bucket.tokens, full));
            drop(keys);
            self.hits[tier as usize].fetch_add(1, Ordering::Relaxed);
            return Verdict::Refused { tier, retry_after, full_in };
        }
        bucket.tokens -= 1.0;
        Verdict::Passed { tier, remaining: bucket.tokens as u32, full_in: until(bucket.tokens, full) }
    }

    /// Refusals so far, by tier.
    pub(crate) fn hits(&self) -> Value {
        let of = |tier: Tier| self.hits[tier as usize].load(Ordering::Relaxed);
        json!({ "prompt": of(Tier::Prompt), "mutation": of(Tier::Mutation), "read": of(Tier::Read) })
    }
}

impl Keys {
    /// The key's bucket; `None` where there is no room for a new one.
    fn bucket(&mut self, tier: Tier, key: &str, now: Instant) -> Option<&mut Bucket> {
        let key = (tier, key.to_owned());
        if self.buckets.len() >= MAX_KEYS && !self.buckets.contains_key(&key) {
            if self.swept.is_some_and(|swept| now < swept + SWEEP_EVERY) {
                return None;
            }
            self.swept = Some(now);
            // A bucket that has filled up again is as good as none.
            self.buckets.retain(|_, bucket| now < bucket.at + WINDOW);
            if self.buckets.len() >= MAX_KEYS {
                return None;
            }
        }
        let tokens = f64::from(tier.limit());
        Some(self.buckets.entry(key).or_insert(Bucket { tokens, at: now }))
    }
}

impl Verdict {
    /// The 429.
    pub(crate) fn into_refusal(self) -> Response {
        let Self::Refused { tier, retry_after, .. } = self else {
            return StatusCode::TOO_MANY_REQUESTS.into_response();
        };
        let problem = format!("too many requests ({}): at most {} a minute", tier.name(), tier.limit());
        let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", problem)
            .with("tier", tier.name())
            .with("retryAfterMs", retry_after.as_millis() as u64)
            .retry_after(seconds_up(retry_after).max(1))
            .into_response();
        self.mark(response.headers_mut());
        response
    }

    /// `X-RateLimit-*`: the limit, what is left of it, and the seconds until it is whole again.
    pub(crate) fn mark(self, headers: &mut HeaderMap) {
        let (tier, remaining, full_in) = match self {
            Self::Untold => return,
            Self::Passed { tier, remaining, full_in } => (tier, remaining, full_in),
            Self::Refused { tier, full_in, .. } => (tier, 0, full_in),
        };
        let mut set = |name: &'static str, value: u64| {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        };
        set("x-ratelimit-limit", u64::from(tier.limit()));
        set("x-ratelimit-remaining", u64::from(remaining));
        set("x-ratelimit-reset", seconds_up(full_in));
    }
}

fn seconds_up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(limits: &RateLimits, tier: Tier, key: &str) -> bool {
        !matches!(limits.take(tier, key), Verdict::Refused { .. })
    }

    #[tokio::test(start_paused = true)]
    async fn e_each_tier_has_its_bucket_and_each_key_its_own() {
        let limits = RateLimits::default();
        for (tier, limit) in [(Tier::Prompt, 10), (Tier::Mutation, 30), (Tier::Read, 120)] {
            for n in 0..limit {
                assert!(passes(&limits, tier, "a"), "{tier:?} {n}");
            }
            assert!(!passes(&limits, tier, "a"), "{tier:?}");
            assert!(passes(&limits, tier, "b"), "{tier:?}");
        }
        assert_eq!(limits.hits(), json!({ "prompt": 1, "mutation": 1, "read": 1 }));
    }

    #[tokio::test(start_paused = true)]
    async fn e_a_token_is_back_after_the_time_that_was_named() {
        let limits = RateLimits::default();
        while passes(&limits, Tier::Prompt, "a") {}
        let Verdict::Refused { retry_after, .. } = limits.take(Tier::Prompt, "a") else {
            panic!("the bucket is empty");
        };
        assert!(retry_after <= Duration::from_secs(6), "{retry_after:?}");
        tokio::time::advance(retry_after + Duration::from_millis(1)).await;
        assert!(passes(&limits, Tier::Prompt, "a"));
        assert!(!passes(&limits, Tier::Prompt, "a"));
        tokio::time::advance(WINDOW * 10).await;
        for _ in 0..10 {
            assert!(passes(&limits, Tier::Prompt, "a"));
        }
        assert!(!passes(&limits, Tier::Prompt, "a"), "no more than a full bucket");
    }

    #[tokio::test(start_paused = true)]
    async fn e_too_many_keys_pass_and_nothing_grows() {
        let limits = RateLimits::default();
        for n in 0..MAX_KEYS {
            limits.take(Tier::Prompt, &n.to_string());
        }
        for _ in 0..50 {
            assert_eq!(limits.take(Tier::Prompt, "one more"), Verdict::Untold);
        }
        let keys = || limits.keys.lock().unwrap().buckets.len();
        assert_eq!(keys(), MAX_KEYS);
        tokio::time::advance(WINDOW + SWEEP_EVERY).await;
        assert!(matches!(limits.take(Tier::Prompt, "one more"), Verdict::Passed { remaining: 9, .. }));
        assert_eq!(keys(), 1, "what has filled up again is forgotten");
    }
}
