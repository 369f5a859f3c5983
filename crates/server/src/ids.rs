//! Reading identities from paths and headers.

use axum::http::{HeaderMap, StatusCode};
use holdpoint_model::ids::{ClientId, SessionId};

use crate::error::ApiError;

/// A session id from a path. What is not one names no session.
pub(crate) fn session(text: &str) -> Result<SessionId, ApiError> {
    SessionId::new(text).map_err(|error| {
        ApiError::new(StatusCode::NOT_FOUND, "session_not_found", error.to_string()).with("sessionId", text)
    })
}

/// The client id that a request names in `X-Qwen-Client-Id`.
pub(crate) fn client(headers: &HeaderMap) -> Result<Option<ClientId>, ApiError> {
    let Some(value) = headers.get("x-qwen-client-id") else { return Ok(None) };
    let malformed = |problem: &str| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_client_id", format!("X-Qwen-Client-Id: {problem}"))
    };
    let text = value.to_str().map_err(|_| malformed("client id: must be plain ASCII"))?;
    ClientId::new(text).map(Some).map_err(|error| malformed(&error.to_string()))
}

/// Where a request says it comes from: `X-Holdpoint-Surface`, a short word, else `http`.
pub(crate) fn surface(headers: &HeaderMap) -> String {
    let named = headers.get("x-holdpoint-surface").and_then(|value| value.to_str().ok());
    named.filter(|name| is_surface(name)).unwrap_or("http").to_owned()
}

/// Whether a text can name a surface.
pub(crate) fn is_surface(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
