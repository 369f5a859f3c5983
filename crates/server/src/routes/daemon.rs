//! The daemon itself: what it can do, how it is set, and its state (WIRE a.1).

use std::sync::LazyLock;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse;
use holdpoint_engine::wire::iso;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::health;
use crate::access::RateLimits;
use crate::api;
use crate::error::ApiError;
use crate::extract::Query;
use crate::state::App;

/// What is served, by the names that clients look for. Only what really is.
const FEATURES: &[&str] = &[
    "health",
    "daemon_status",
    "capabilities",
    "session_create",
    "session_id_override",
    "session_scope_override",
    "session_source_metadata",
    "session_load",
    "session_resume",
    "unstable_session_resume",
    "session_list",
    "session_prompt",
    "session_cancel",
    "session_events",
    "slow_client_warning",
    "typed_event_schema",
    "client_identity",
    "client_heartbeat",
    "session_permission_vote",
    "permission_vote",
    "session_status",
    "session_close",
    "session_branch",
    "session_metadata",
    "session_transcript",
    "session_transcript_pagination",
    "session_context",
    "permission_mediation",
    "non_blocking_prompt",
    "durable_questions",
];

fn features(app: &App) -> Vec<&'static str> {
    let mut features = FEATURES.to_vec();
    if app.config.require_auth {
        features.push("require_auth");
    }
    if !app.config.origins.is_empty() {
        features.push("allow_origin");
    }
    if app.config.rate_limit {
        features.push("rate_limit");
    }
    if app.engine.config().prompt_deadline_ms.is_some() {
        features.push("prompt_absolute_deadline");
    }
    if app.config.connections.writer_idle.is_some() {
        features.push("writer_idle_timeout");
    }
    features
}

pub(crate) async fn capabilities(State(app): State<App>) -> Json<Value> {
    let engine = app.engine.config();
    let workspaces: Vec<_> = app
        .config
        .workspaces
        .iter()
        .enumerate()
        .map(|(i, cwd)| {
            json!({ "id": cwd, "cwd": cwd, "primary": i == 0, "trusted": true, "workflowsEnabled": false })
        })
        .collect();
    Json(json!({
        "v": 1,
        "protocolVersions": { "current": "v1", "supported": ["v1"] },
        "holdpointVersion": app.config.version,
        "mode": "http-bridge",
        "features": features(&app),
        "sessionLiveStatePollIntervalMs": 5000,
        "modelServices": [],
        "workspaceCwd": app.primary(),
        "transports": ["rest"],
        "policy": { "permission": engine.strategy.as_str() },
        "limits": limits(&app),
        "workspaces": workspaces,
        "supportedLanguages": ["en"],
        "restoreAskUserQuestion": engine.restore,
    }))
}

fn limits(app: &App) -> Value {
    let engine = app.engine.config();
    let connections = app.config.connections.connections;
    // Of a limit that may be off: `null` where the peer says so, 0 where its flag does.
    let ms = |limit: Option<Duration>| limit.map(|limit| limit.as_millis() as u64);
    json!({
        "maxRegisteredWorkspaces": app.config.workspaces.len(),
        "maxPendingPromptsPerSession": engine.max_prompts,
        "sessionRestoreTimeoutMs": engine.take_up_timeout.as_millis() as u64,
        "maxSessions": engine.max_sessions,
        "maxSessionsPerWorkspace": Value::Null,
        "maxTotalSessions": engine.max_sessions,
        "listenerMaxConnections": Some(connections).filter(|limit| *limit < Semaphore::MAX_PERMITS),
        "eventRingSize": engine.ring_size,
        "promptDeadlineMs": engine.prompt_deadline_ms,
        "writerIdleTimeoutMs": ms(app.config.connections.writer_idle),
        "sessionIdleTimeoutMs": ms(engine.idle_timeout).unwrap_or(0),
        "permissionResponseTimeoutMs": ms(engine.ask_timeout).unwrap_or(0),
        "unseenQuestionAfterMs": ms(engine.unseen_after).unwrap_or(0),
    })
}

#[derive(Debug, Deserialize)]
pub(crate) struct Detail {
    detail: Option<String>,
}

pub(crate) async fn status(
    State(app): State<App>,
    Query(query): Query<Detail>,
) -> Result<Json<Value>, ApiError> {
    let detail = query.detail.as_deref().unwrap_or("summary");
    if !matches!(detail, "summary" | "full") {
        let problem = format!("detail must be summary or full, not {detail:?}");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_detail", problem));
    }
    let activity = app.engine.activity().await;
    let undelivered = app.engine.undelivered().await.unwrap_or_default();
    let issues = health::issues(&app, &activity, undelivered);
    // What the ledger would say is left out where it cannot be read; the issues say so.
    let activity = activity.unwrap_or_default();
    let engine = app.engine.config();
    Ok(Json(json!({
        "v": 1,
        "detail": detail,
        "generatedAt": iso(app.engine.now()),
        "status": health::word(&issues),
        "issues": issues.iter().map(health::Issue::view).collect::<Vec<_>>(),
        "daemon": {
            "pid": std::process::id(),
            "uptimeMs": app.started.elapsed().as_millis() as u64,
            "mode": "http-bridge",
            "workspaceCwd": app.primary(),
            "dataDir": engine.data_dir,
            "holdpointVersion": app.config.version,
            "model": app.config.model,
            "restoreAskUserQuestion": engine.restore,
            "daemonId": app.daemon_id.to_string(),
        },
        "security": {
            "tokenConfigured": app.config.token.as_ref().is_some_and(|token| !token.expose_secret().is_empty()),
            "requireAuth": app.config.require_auth,
            "loopbackBind": app.config.address.ip().is_loopback(),
            "allowOriginConfigured": !app.config.origins.is_empty(),
            "allowOriginMode": app.config.origins.mode(),
            "sessionShellCommandEnabled": false,
        },
        "limits": limits(&app),
        "capabilities": { "protocolVersions": { "current": "v1", "supported": ["v1"] }, "features": features(&app) },
        "runtime": {
            "sessions": { "active": activity.sessions },
            "permissions": {
                "pending": activity.open,
                "oldestAskedAt": activity.oldest.map(iso),
                "unseen": activity.unseen,
                "policy": engine.strategy.as_str(),
            },
            "ledger": health::ledger(&app),
            "channel": { "live": activity.agents > 0, "processes": activity.agents },
            "rateLimit": {
                "enabled": app.config.rate_limit,
                "hits": app.gate.rates.as_ref().map(RateLimits::hits),
            },
            "activity": { "activePrompts": activity.running, "connectedClients": activity.clients },
        },
    })))
}

pub(crate) async fn openapi() -> impl IntoResponse {
    // It never changes while the program runs, and making it takes milliseconds.
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| api::document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}

pub(crate) async fn not_found(uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing at {}", uri.path()))
}

pub(crate) async fn method_not_allowed(uri: Uri) -> ApiError {
    let problem = format!("{} does not take this method", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", problem)
}
