//! Request bodies: JSON objects, with an error that says what is wrong and where.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::MAX_BODY;
use crate::error::ApiError;

/// How long a body may take. The largest one needs 170 kB/s for it.
const MAX_TIME: Duration = Duration::from_secs(60);

/// A body that must be a JSON object.
pub(crate) struct Object(pub(crate) Map<String, Value>);

/// A body that may be a JSON object; anything else counts as an empty one (WIRE a).
pub(crate) struct MaybeObject(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match read(request, state).await? {
            Some(Value::Object(map)) => Ok(Self(clean(map))),
            _ => Err(ApiError::bad("the body must be a JSON object")),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for MaybeObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match read(request, state).await? {
            Some(Value::Object(map)) => Ok(Self(clean(map))),
            _ => Ok(Self(Map::new())),
        }
    }
}

async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Option<Value>, ApiError> {
    let too_large = || {
        let problem = format!("the body is larger than {MAX_BODY} bytes");
        ApiError::bare(StatusCode::PAYLOAD_TOO_LARGE, problem)
    };
    // One that says so is refused before it comes.
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > MAX_BODY as u64) {
        return Err(too_large());
    }
    let reading = timeout(MAX_TIME, Bytes::from_request(request, state)).await;
    let bytes = reading.map_err(|_| {
        let problem = format!("the body did not arrive within {} s", MAX_TIME.as_secs());
        ApiError::bare(StatusCode::REQUEST_TIMEOUT, problem)
    })?;
    let bytes = bytes.map_err(|rejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            too_large()
        } else {
            ApiError::bad("the body could not be read")
        }
    })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| ApiError::bad(format!("the body is not valid JSON: {error}")))
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
