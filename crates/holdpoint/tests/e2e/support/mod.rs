//! What the tests are made of.

mod acp;
mod api;
mod daemon;
mod http;
mod judge;
mod model;
mod rig;
mod skip;
mod stream;

pub(crate) use acp::Acp;
pub(crate) use api::{Api, Question, Session, answers, selected};
pub(crate) use http::Response;
pub(crate) use judge::{Story, same, tool_results};
pub(crate) use model::part;
pub(crate) use rig::{Asking, Rig, undisturbed};
pub(crate) use skip::{may_mount, may_trace, skipped};
pub(crate) use stream::Stream;

use std::time::Duration;

use tokio::time::Instant;

/// How long anything may take before a test gives up. Machines that run tests are slow and busy; nothing is
/// measured by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again and again until there is something to see.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
