//! A server on loopback that notes what it is asked.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Path and query.
    pub(crate) path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Seen {
    /// A header's text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// The server. It stops with the test's runtime.
pub(crate) struct Server {
    /// Its address.
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts a server whose `n`-th request (from 0) gets this answer; `None` cuts the connection.
    pub(crate) async fn start(answer: impl Fn(usize) -> Option<Response> + Send + Sync + 'static) -> Self {
        Self::start_with(move |n, _| answer(n)).await
    }

    /// As [`Server::start`], with the request at hand.
    pub(crate) async fn start_with(
        answer: impl Fn(usize, &Seen) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::<Seen>::new()));
        let notes = seen.clone();
        let answer = Arc::new(answer);
        let app = axum::Router::new().fallback(move |request: Request<Body>| {
            let (notes, answer) = (notes.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let path = parts.uri.path_and_query().unwrap().to_string();
                let (n, request) = {
                    let mut notes = notes.lock().unwrap();
                    notes.push(Seen { path, headers: parts.headers, body });
                    (notes.len() - 1, notes[notes.len() - 1].clone())
                };
                // A body that fails before its first byte resets the connection.
                answer(n, &request).unwrap_or_else(cut)
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, seen }
    }

    /// What was asked so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn cut() -> Response {
    let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
    Body::from_stream(broken).into_response()
}

/// A JSON answer.
pub(crate) fn reply(status: u16, body: Value) -> Option<Response> {
    let status = StatusCode::from_u16(status).unwrap();
    Some((status, [("content-type", "application/json")], body.to_string()).into_response())
}

/// An address where nobody listens.
pub(crate) async fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}
