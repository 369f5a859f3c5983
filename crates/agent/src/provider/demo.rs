//! The built-in scripted model: offline, deterministic, and honest about being one.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Delta, Finish, ModelTurn, Provider, ProviderError, Request};

/// The demo model. A pure function of the history.
#[derive(Clone, Copy, Debug)]
pub struct Demo;

impl Provider for Demo {
    fn stream<'a>(
        &'a self,
        _request: Request<'a>,
        _deltas: mpsc::Sender<Delta>,
        _cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<ModelTurn, ProviderError>> {
        async { Ok(ModelTurn { parts: Vec::new(), finish: Finish::Stop, usage: None }) }.boxed()
    }

    fn model(&self) -> &str {
        "demo"
    }

    fn describe(&self) -> String {
        "demo".to_owned()
    }
}
