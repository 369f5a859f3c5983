//! Connections: how many, and how long one may take to say what it wants (WIRE e).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::stall::{Impatient, Stalled};

/// Connections that are told why they are turned away, at a time; more are closed without a word.
const FAREWELLS: usize = 32;
/// How long turning one away may take.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
/// Longest head of a request, in bytes: headers and path together. Twice what a workspace's path can need.
const MAX_HEAD: usize = 64 * 1024;

/// What connections may do.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at a time (WIRE e). One more gets a 503 and is closed.
    pub connections: usize,
    /// How long a request's head may take, and how long a connection may be idle between two.
    pub head: Duration,
    /// How long the other side may read nothing of what is sent to it; `None` is until TCP gives up.
    pub writer_idle: Option<Duration>,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { connections: 256, head: Duration::from_secs(30), writer_idle: Some(Duration::from_secs(60)) }
    }
}

/// Serves until `stop` is ready; then takes no more, and waits for the requests that are under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let farewells = Arc::new(Semaphore::new(FAREWELLS));
    let stopping = CancellationToken::new();
    let tasks = TaskTracker::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, peer) = tokio::select! {
            connection = accept(&listener) => connection,
            () = &mut stop => break,
        };
        // An event must not wait for the next one; a connection that refuses the option is only a little slower.
        let _ = stream.set_nodelay(true);
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            let (router, stopping) = (router.clone(), stopping.clone());
            tasks.spawn(async move {
                connection(stream, peer, router, limits, &stopping).await;
                drop(slot);
            });
        } else if let Ok(farewell) = Arc::clone(&farewells).try_acquire_owned() {
            tasks.spawn(async move {
                let _ = timeout(FAREWELL_TIME, turn_away(stream)).await;
                drop(farewell);
            });
        }
    }
    drop(listener);
    stopping.cancel();
    tasks.close();
    tasks.wait().await;
}

/// The next connection. What goes wrong with one is its own affair; what goes wrong with all (no file
/// descriptors, mostly) passes.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok(connection) => return connection,
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {
            }
            Err(error) => {
                tracing::error!(%error, "cannot take connections");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ConnectionLimits,
    stopping: &CancellationToken,
) {
    let stalled = Stalled::default();
    let stream = Impatient::new(stream, limits.writer_idle, stalled.clone());
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(stalled.clone());
        request.map(Body::new)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

/// Says why, and reads what comes until the other side has read it too: a close with unread bytes would be a
/// reset, and the answer lost.
async fn turn_away(mut stream: TcpStream) -> std::io::Result<()> {
    const BODY: &str = r#"{"error":"too many connections","code":"connection_limit_exceeded"}"#;
    let response = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 5\r\nconnection: close\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}
