//! `GET /session/:id/transcript` (WIRE a.4).

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::TranscriptOrEngine;
use holdpoint_model::ids::RecordId;
use holdpoint_transcript::ReadError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{ApiError, TRANSCRIPT_FORMAT_NEWER};
use crate::extract::{Path, Query};
use crate::ids;
use crate::state::App;

const MAX_LIMIT: usize = 500;

/// From the oldest record to the newest.
const FORWARD: &str = "forward";
/// From the newest record to the oldest.
const BACKWARD: &str = "backward";

/// The direction that a cursor says, as those that we give do (clients follow them with nothing beside), and its record.
fn read_cursor(text: &str) -> (Option<&'static str>, &str) {
    for way in [FORWARD, BACKWARD] {
        if let Some(record) = text.strip_prefix(way).and_then(|rest| rest.strip_prefix(':')) {
            return (Some(way), record);
        }
    }
    (None, text)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Paging {
    limit: Option<String>,
    cursor: Option<String>,
    direction: Option<String>,
    before_record_id: Option<String>,
}

pub(crate) async fn transcript(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<Paging>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // A stored session knows its clients, and anybody may read it: only the grammar is checked.
    ids::client(&headers)?;
    let id = ids::session(&id)?;
    let limit = match &query.limit {
        None => 100,
        Some(text) => text.parse().ok().filter(|n| (1..=MAX_LIMIT).contains(n)).ok_or_else(|| {
            let problem = format!("limit must be a whole number from 1 to {MAX_LIMIT}");
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_transcript_limit", problem)
                .with("maxLimit", MAX_LIMIT)
        })?,
    };
    let bad_cursor =
        |problem: &str| ApiError::new(StatusCode::BAD_REQUEST, "invalid_transcript_cursor", problem);
    let way = match query.direction.as_deref() {
        None => query.before_record_id.as_ref().map(|_| BACKWARD),
        Some(way @ (FORWARD | BACKWARD)) => Some(way),
        Some(_) => return Err(bad_cursor("direction must be forward or backward")),
    };
    let cursor = query.cursor.as_deref().map(read_cursor);
    // A cursor goes on in the direction of its page, whatever else is said.
    let backward = cursor.and_then(|(way, _)| way).or(way) == Some(BACKWARD);
    let cursor = cursor.map(|(_, record)| record).or(query.before_record_id.as_deref());
    let cursor = cursor
        .map(|cursor| RecordId::new(cursor).map_err(|_| bad_cursor("cursor is not a record id")))
        .transpose()?;
    let page = app.engine.transcript(&id, cursor, backward, limit).await.map_err(|error| match error {
        TranscriptOrEngine::Engine(error) => error.into(),
        TranscriptOrEngine::Transcript(error @ ReadError::UnknownCursor { .. }) => {
            bad_cursor(&error.to_string())
        }
        TranscriptOrEngine::Transcript(error @ ReadError::Newer { .. }) => {
            ApiError::new(StatusCode::CONFLICT, TRANSCRIPT_FORMAT_NEWER, error.to_string())
        }
        TranscriptOrEngine::Transcript(error) => {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "storage_error", error.to_string())
        }
    })?;
    let events: Vec<_> = page
        .updates
        .into_iter()
        .map(|update| json!({ "v": 1, "type": "session_update", "data": update }))
        .collect();
    let mut view = json!({
        "v": 1,
        "sessionId": id,
        "events": events,
        "hasMore": page.next.is_some(),
        "startTime": page.started,
        "lastUpdated": page.updated,
    });
    if let Some(next) = page.next {
        let way = if backward { BACKWARD } else { FORWARD };
        view["nextCursor"] = json!(format!("{way}:{next}"));
        if backward {
            view["hasOlder"] = Value::Bool(true);
        }
    }
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(view)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a4_a_cursor_says_which_way_it_goes() {
        assert_eq!(read_cursor("backward:r1"), (Some(BACKWARD), "r1"));
        assert_eq!(read_cursor("forward:backward:x"), (Some(FORWARD), "backward:x"));
        assert_eq!(read_cursor("r1"), (None, "r1"));
    }
}
