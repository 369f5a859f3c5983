//! `GET /session/:id/events` (WIRE a.5).

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::bus::{Cursor, DEFAULT_MAX_QUEUED};
use serde::Deserialize;

use crate::error::ApiError;
use crate::extract::{Path, Query};
use crate::stall::Stalled;
use crate::state::App;
use crate::{ids, sse};

#[derive(Debug, Deserialize)]
pub(crate) struct Options {
    #[serde(rename = "maxQueued")]
    max_queued: Option<String>,
}

pub(crate) async fn events(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(options): Query<Options>,
    stalled: Option<Extension<Stalled>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = ids::session(&id)?;
    let max_queued = match &options.max_queued {
        None => DEFAULT_MAX_QUEUED,
        Some(text) => text.parse().ok().filter(|n| (16..=2048).contains(n)).ok_or_else(|| {
            let problem = "maxQueued must be a whole number from 16 to 2048";
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_max_queued", problem)
        })?,
    };
    // Who reads without a client id, or with one that is not known here, reads all the same.
    let client = ids::client(&headers).ok().flatten();
    let subscription = app.engine.subscribe(&id, cursor(&headers), max_queued, client).await?;
    let stream_id = uuid::Uuid::new_v4().to_string();
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream".to_owned()),
        (header::CACHE_CONTROL.as_str(), "no-cache, no-transform".to_owned()),
        ("x-accel-buffering", "no".to_owned()),
        ("x-qwen-event-epoch", subscription.epoch.to_string()),
        ("x-qwen-sse-stream-id", stream_id),
    ];
    let stalled = stalled.map(|Extension(stalled)| stalled).unwrap_or_default();
    Ok((headers, sse::body(subscription, stalled)).into_response())
}

/// `Last-Event-ID` and the epoch that it is of. What cannot be read counts as none (WIRE a.5).
pub(crate) fn cursor(headers: &HeaderMap) -> Option<Cursor> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let last = text("last-event-id")?.trim().parse().ok()?;
    let epoch = text("x-qwen-event-epoch").filter(|epoch| {
        (1..=64).contains(&epoch.len())
            && epoch.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    });
    Some(Cursor { last, epoch: epoch.map(str::to_owned) })
}
