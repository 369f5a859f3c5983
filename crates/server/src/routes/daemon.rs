//! The daemon itself: health, capabilities, status, metrics (WIRE a.1).

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::wire::iso;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Value, json};

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

#[derive(Debug, Deserialize)]
pub(crate) struct Health {
    deep: Option<String>,
}

pub(crate) async fn health(
    State(app): State<App>,
    Query(query): Query<Health>,
) -> Result<Json<Value>, ApiError> {
    let deep = query.deep.is_some_and(|deep| matches!(deep.as_str(), "" | "1" | "true"));
    if !deep {
        return Ok(Json(json!({ "status": "ok" })));
    }
    let activity = app.engine.activity().await.map_err(|error| {
        ApiError::bare(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            .with("status", "degraded")
            .with("reason", "aggregation_failed")
    })?;
    let mut view = json!({
        "status": "ok",
        "workspaceCount": app.config.workspaces.len(),
        "sessions": activity.sessions,
        "pendingPermissions": activity.open,
        "activePrompts": activity.running,
        "activeWork": activity.running > 0,
        "activeWorkReporting": "full",
        "connectedClients": activity.clients,
        "channelAlive": activity.agents > 0,
    });
    if let Some(rates) = &app.gate.rates {
        view["rateLimitHits"] = rates.hits();
    }
    Ok(Json(view))
}

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
    json!({
        "maxRegisteredWorkspaces": app.config.workspaces.len(),
        "maxPendingPromptsPerSession": engine.max_prompts,
        "sessionRestoreTimeoutMs": engine.take_up_timeout.as_millis() as u64,
        "maxSessions": engine.max_sessions,
        "maxSessionsPerWorkspace": Value::Null,
        "maxTotalSessions": engine.max_sessions,
        "listenerMaxConnections": app.config.connections.connections,
        "eventRingSize": engine.ring_size,
        "sessionIdleTimeoutMs": engine.idle_timeout.as_millis() as u64,
        "permissionResponseTimeoutMs": engine.ask_timeout.map_or(0, |limit| limit.as_millis() as u64),
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
    let activity = app.engine.activity().await.map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "daemon_status_failed", error.to_string())
    })?;
    let engine = app.engine.config();
    let mut issues = Vec::new();
    if !engine.restore {
        issues.push(json!({
            "code": "restore_disabled",
            "severity": "info",
            "message": "Questions are kept, but not asked again after a restart: start with --restore-ask-user-question.",
        }));
    }
    Ok(Json(json!({
        "v": 1,
        "detail": detail,
        "generatedAt": iso(app.engine.now()),
        "status": "ok",
        "issues": issues,
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
                "policy": engine.strategy.as_str(),
            },
            "channel": { "live": activity.agents > 0, "processes": activity.agents },
            "rateLimit": {
                "enabled": app.config.rate_limit,
                "hits": app.gate.rates.as_ref().map(RateLimits::hits),
            },
            "activity": { "activePrompts": activity.running, "connectedClients": activity.clients },
        },
    })))
}

pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let activity = app.engine.activity().await?;
    metrics::gauge!("holdpoint_questions_open").set(activity.open as f64);
    let age = activity.oldest.map_or(0.0, |oldest| (app.engine.now().0 - oldest.0).max(0) as f64 / 1e6);
    metrics::gauge!("holdpoint_questions_oldest_age_seconds").set(age);
    metrics::gauge!("holdpoint_sessions_live").set(activity.sessions as f64);
    metrics::gauge!("holdpoint_turns_active").set(activity.running as f64);
    metrics::gauge!("holdpoint_agent_processes").set(activity.agents as f64);
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((content_type, app.metrics.render()).into_response())
}

pub(crate) async fn openapi() -> Json<Value> {
    Json(api::document())
}

pub(crate) async fn not_found(uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing at {}", uri.path()))
}

pub(crate) async fn method_not_allowed(uri: Uri) -> ApiError {
    let problem = format!("{} does not take this method", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", problem)
}
