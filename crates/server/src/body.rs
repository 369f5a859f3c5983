//! Request bodies: JSON objects, with an error that says what is wrong and where.

use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use futures::StreamExt as _;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::MAX_BODY;
use crate::error::ApiError;

/// How long a body may take. The largest one needs 170 kB/s for it.
const MAX_TIME: Duration = Duration::from_secs(60);

/// A body that is longer is parsed on a thread of its own: everybody else is served by the one that would do it.
const APART: usize = 64 * 1024;

/// How much of a body that was refused is still taken, and for how long: as much as a client has under way that sends
/// a few times too much.
const DRAIN: usize = 4 * MAX_BODY;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// A body that must be a JSON object.
pub(crate) struct Object(pub(crate) Map<String, Value>);

/// A body that may be a JSON object; anything else counts as an empty one (WIRE a).
pub(crate) struct MaybeObject(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        match read(request).await? {
            Some(Value::Object(map)) => Ok(Self(clean(map))),
            _ => Err(ApiError::bad("the body must be a JSON object")),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for MaybeObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        match read(request).await? {
            Some(Value::Object(map)) => Ok(Self(clean(map))),
            _ => Ok(Self(Map::new())),
        }
    }
}

async fn read(request: Request) -> Result<Option<Value>, ApiError> {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let too_large =
        announced.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > MAX_BODY as u64);
    let asks_first = request.headers().contains_key(header::EXPECT);
    let body = request.into_body().into_data_stream();
    // One that says so is refused before it comes.
    if too_large {
        if !asks_first {
            drain(body);
        }
        return Err(Unread::TooLarge.into());
    }
    let reading = timeout(MAX_TIME, collect(body));
    let bytes = reading.await.map_err(|_| Unread::TooSlow)??;
    if bytes.is_empty() {
        return Ok(None);
    }
    let parsed = if bytes.len() > APART {
        let parsing = tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes));
        parsing.await.map_err(|_| ApiError::bad("the body could not be read"))?
    } else {
        serde_json::from_slice(&bytes)
    };
    parsed.map(Some).map_err(|error| ApiError::bad(format!("the body is not valid JSON: {error}")))
}

async fn collect(mut body: BodyDataStream) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|_| Unread::Broken)?;
        if bytes.len() + chunk.len() > MAX_BODY {
            drain(body);
            return Err(Unread::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Reads on, and throws away. A connection that is closed with bytes unread is reset, and a client that sends first and
/// listens afterwards never hears why it was refused.
fn drain(mut body: BodyDataStream) {
    tokio::spawn(timeout(DRAIN_TIME, async move {
        let mut left = DRAIN;
        while let Some(Ok(chunk)) = body.next().await
            && chunk.len() <= left
        {
            left -= chunk.len();
        }
    }));
}

/// Why a body was not read.
enum Unread {
    TooLarge,
    TooSlow,
    Broken,
}

impl From<Unread> for ApiError {
    fn from(why: Unread) -> Self {
        match why {
            Unread::TooLarge => {
                let problem = format!("the body is larger than {MAX_BODY} bytes");
                Self::bare(StatusCode::PAYLOAD_TOO_LARGE, problem)
            }
            Unread::TooSlow => {
                let problem = format!("the body did not arrive within {} s", MAX_TIME.as_secs());
                Self::bare(StatusCode::REQUEST_TIMEOUT, problem)
            }
            Unread::Broken => Self::bad("the body could not be read"),
        }
    }
}

/// Keys that do harm in the language of other consumers of what we store are dropped, as the peer does.
pub(crate) fn clean(mut map: Map<String, Value>) -> Map<String, Value> {
    for key in ["__proto__", "constructor", "prototype"] {
        map.remove(key);
    }
    map
}

/// A text field; an error if it is there and no text.
pub(crate) fn text(map: &Map<String, Value>, key: &str) -> Result<Option<String>, ApiError> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ApiError::bad(format!("\"{key}\" must be a text"))),
    }
}
