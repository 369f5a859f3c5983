//! Runs the agent over stdio, until the client is gone or the process is told to end.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{Builder, UntypedRole};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::AgentConfig;
use crate::provider::Provider;
use crate::rpc::{LinkEnd, link};
use crate::server::Server;

/// How long the end waits for tools' processes to be killed and the last lines to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How the agent ended. The caller ends the process with it at once (`std::process::exit`): a read of standard
/// input cannot be broken off, and would hold the runtime (trap 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The client closed the connection.
    Closed,
    /// The process was told to end by this signal.
    Signal(i32),
    /// The connection failed.
    Failed,
}

impl Exit {
    /// The exit code of the process.
    pub fn code(self) -> i32 {
        match self {
            Self::Closed => 0,
            Self::Signal(number) => 128 + number,
            Self::Failed => 1,
        }
    }
}

/// Serves ACP on standard input and output until the input ends or a signal comes. Nothing else may write to
/// standard output. Nothing is written for open questions at the end (I12).
pub async fn run_stdio(config: AgentConfig) -> Exit {
    let provider: Arc<dyn Provider> = Arc::from(config.model.provider());
    let shutdown = CancellationToken::new();
    let serving = serve(config, provider, tokio::io::stdin(), tokio::io::stdout(), shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        exit = &mut serving => exit,
        signal = signalled() => {
            tracing::info!(signal, "told to end");
            shutdown.cancel();
            serving.await;
            Exit::Signal(signal)
        }
    }
}

/// The first signal that ends the process.
async fn signalled() -> i32 {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let waits = kinds.into_iter().filter_map(|kind| match signal(kind) {
        Ok(mut stream) => Some(Box::pin(async move {
            stream.recv().await;
            kind.as_raw_value()
        })),
        Err(error) => {
            tracing::warn!(%error, "a signal cannot be caught");
            None
        }
    });
    let waits: Vec<_> = waits.collect();
    if waits.is_empty() {
        return std::future::pending().await;
    }
    futures::future::select_all(waits).await.0
}

/// Serves ACP on two byte streams until the source ends or `shutdown` is cancelled. Every running tool is
/// killed before this returns.
pub async fn serve<R, W>(
    config: AgentConfig,
    provider: Arc<dyn Provider>,
    source: R,
    sink: W,
    shutdown: CancellationToken,
) -> Exit
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let mut link = link(source, sink);
    let tasks = TaskTracker::new();
    // Sessions end after the connection, whichever way it ends: a prompt that is dropped before would be answered with
    // an error, and a client would take that for the end of a turn that only stops with its process (I12).
    let ending = CancellationToken::new();
    let _end = ending.clone().drop_guard();
    let server = Server::new(Arc::new(config), provider, &link, tasks.clone(), ending.clone());
    // At the end of the source the SDK sees the channel close behind what was read before it.
    let serving = Builder::new_with(UntypedRole, server).name("holdpoint").connect_with(
        link.channel,
        async move |connection| {
            connection.incoming_closed().await;
            Ok(())
        },
    );
    let exit = tokio::select! {
        result = serving => match result {
            Ok(()) => Exit::Closed,
            Err(error) => {
                tracing::error!(message = %error.message, "the connection failed");
                Exit::Failed
            }
        },
        error = failure(&mut link.reader) => {
            tracing::error!(%error, "what the client sends cannot be read");
            Exit::Failed
        }
        error = failure(&mut link.writer) => {
            tracing::info!(%error, "the client no longer reads");
            Exit::Closed
        }
        () = shutdown.cancelled() => Exit::Closed,
    };
    if shutdown.is_cancelled() {
        link.writer.abort();
    }
    ending.cancel();
    tasks.close();
    let last_words = async {
        tasks.wait().await;
        if !link.writer.is_finished() {
            let _ = (&mut link.writer).await;
        }
    };
    if tokio::time::timeout(LAST_WORDS, last_words).await.is_err() {
        tracing::warn!("some work had not ended when the agent did");
    }
    link.reader.abort();
    link.writer.abort();
    exit
}

/// Completes only when a direction of the link fails.
async fn failure(task: &mut tokio::task::JoinHandle<LinkEnd>) -> std::io::Error {
    match task.await {
        Ok(LinkEnd::Failed(error)) => error,
        _ => std::future::pending().await,
    }
}
