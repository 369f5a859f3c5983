//! Prompts, their queue, cancel and continue (WIRE a.3).

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use holdpoint_engine::PromptRequest;
use holdpoint_model::ids::PromptId;
use serde_json::{Map, Value, json};

use crate::blocks;
use crate::body::{MaybeObject, Object};
use crate::error::ApiError;
use crate::extract::Path;
use crate::ids;
use crate::state::App;

/// Longest time that a prompt may set for its turn: a day.
const MAX_DEADLINE_MS: u64 = 24 * 60 * 60 * 1000;

pub(crate) async fn prompt(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Object(body): Object,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let client = ids::client(&headers)?;
    let id = ids::session(&id)?;
    // `_meta` of the request goes no further: what it could hold for the agent is the daemon's own (R6).
    let blocks = blocks::read(body.get("prompt"))?;
    check_detail_mode(&body)?;
    let request = PromptRequest { id: prompt_id(&body)?, blocks, deadline_ms: deadline(&body)?, client };
    let accepted = app.engine.prompt(&id, request).await.map_err(|error| {
        let error = ApiError::from(error);
        error.with("sessionId", id.as_str())
    })?;
    let mut view = json!({
        "promptId": accepted.prompt,
        "lastEventId": accepted.last_event_id,
        "eventEpoch": accepted.epoch,
    });
    if let Some(state) = accepted.repeated {
        view["repeated"] = json!(true);
        view["state"] = json!(state);
    }
    Ok((StatusCode::ACCEPTED, Json(view)))
}

/// `eventDetailMode`: what is told is always whole, which is more than `summary` asks for. Anything else is a mistake.
fn check_detail_mode(body: &Map<String, Value>) -> Result<(), ApiError> {
    match body.get("eventDetailMode") {
        None => Ok(()),
        Some(Value::String(mode)) if matches!(mode.as_str(), "full" | "summary") => Ok(()),
        Some(_) => {
            let problem = "\"eventDetailMode\" must be \"full\" or \"summary\"";
            Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_event_detail_mode", problem))
        }
    }
}

/// `promptId`: the sender's own id, by which the same prompt again is known (D5).
fn prompt_id(body: &Map<String, Value>) -> Result<Option<PromptId>, ApiError> {
    let malformed = |problem: &str| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_prompt_id", format!("\"promptId\": {problem}"))
    };
    match body.get("promptId") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => {
            PromptId::new(id.as_str()).map(Some).map_err(|error| malformed(&error.to_string()))
        }
        Some(_) => Err(malformed("must be a text")),
    }
}

/// `deadlineMs`: how long the turn may take.
fn deadline(body: &Map<String, Value>) -> Result<Option<u64>, ApiError> {
    match body.get("deadlineMs") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(ms @ 1..=MAX_DEADLINE_MS) => Ok(Some(ms)),
            _ => {
                let problem = format!("\"deadlineMs\" must be a whole number from 1 to {MAX_DEADLINE_MS}");
                Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_deadline_ms", problem))
            }
        },
    }
}

pub(crate) async fn pending(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    let prompts = app.engine.prompts(&ids::session(&id)?, client).await?;
    let rows: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            let texts: Vec<_> =
                prompt.blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
            let mut row = json!({
                "promptId": prompt.prompt,
                "text": texts.join("\n"),
                "content": prompt.blocks,
                "queuedAt": prompt.at.0 / 1000,
                "state": if prompt.running { "running" } else { "queued" },
            });
            if let Some(client) = &prompt.client {
                row["originatorClientId"] = json!(client);
            }
            row
        })
        .collect();
    Ok(Json(json!({ "pendingPrompts": rows })))
}

pub(crate) async fn remove(
    State(app): State<App>,
    Path((id, prompt)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    let id = ids::session(&id)?;
    let removed = match PromptId::new(prompt) {
        Ok(prompt) => app.engine.remove_prompt(&id, prompt, client).await?,
        Err(_) => false,
    };
    Ok(Json(json!({ "removed": removed })))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    MaybeObject(body): MaybeObject,
) -> Result<StatusCode, ApiError> {
    let client = ids::client(&headers)?;
    let unreachable = body.get("cause").and_then(Value::as_str) == Some("unreachable_question");
    app.engine.cancel(&ids::session(&id)?, unreachable, client).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn go_on(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    let outcome = app.engine.go_on(&ids::session(&id)?, client).await?;
    Ok(Json(match outcome {
        None => json!({ "accepted": false, "interruption": "none" }),
        Some((interruption, accepted)) => json!({
            "accepted": true,
            "interruption": interruption,
            "promptId": accepted.prompt,
            "lastEventId": accepted.last_event_id,
            "eventEpoch": accepted.epoch,
        }),
    }))
}
