//! The life of a session (WIRE a.2).

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::frame::Told;
use holdpoint_engine::wire::iso;
use holdpoint_engine::{Attached, CreateRequest, EngineError, LoadAction, LoadRequest, Replay};
use holdpoint_ledger::SessionFilter;
use holdpoint_model::ids::{Micros, SessionId};
use holdpoint_model::session::Rejection;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::body::{MaybeObject, Object, text};
use crate::error::ApiError;
use crate::extract::{Path, Query};
use crate::ids;
use crate::routes::question::{AuditPaging, audit_view};
use crate::state::App;

/// Longest path of a workspace, in bytes.
const MAX_CWD: usize = 4096;
/// Longest title of a session, in characters.
const MAX_TITLE: usize = 256;
/// Longest title of a copy, in characters.
const MAX_BRANCH_NAME: usize = 200;
/// Most records of history that a load may ask for.
const MAX_PAGE: u64 = 500;

pub(crate) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    MaybeObject(body): MaybeObject,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    let session = text(&body, "sessionId")?.map(|id| wanted_session(&id)).transpose()?;
    let scope = text(&body, "sessionScope")?;
    let shared_scope = match scope.as_deref() {
        None | Some("single") => true,
        Some("thread") => false,
        Some(other) => {
            let problem = format!("sessionScope must be single or thread, not {other:?}");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_session_scope", problem));
        }
    };
    let request = CreateRequest {
        session,
        cwd: workspace(&app, &body)?,
        shared_scope,
        approval_mode: approval_mode(&body)?,
        source: (text(&body, "sourceType")?, text(&body, "sourceId")?),
        client,
        presence: ids::presence(&headers),
    };
    let attached = app.engine.create(request).await?;
    Ok(Json(view(&attached)))
}

/// An id that a client chose: a UUID, in lower case.
fn wanted_session(text: &str) -> Result<SessionId, ApiError> {
    let malformed = || {
        let problem = "sessionId must be a UUID of version 1 to 5";
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_session_id", problem)
    };
    let uuid = uuid::Uuid::parse_str(text).map_err(|_| malformed())?;
    if !(1..=5).contains(&uuid.get_version_num()) || text.len() != 36 {
        return Err(malformed());
    }
    SessionId::new(text.to_ascii_lowercase()).map_err(|_| malformed())
}

/// The workspace that a body names, which must be one of ours.
fn workspace(app: &App, body: &Map<String, Value>) -> Result<Option<String>, ApiError> {
    let Some(cwd) = text(body, "cwd")? else { return Ok(None) };
    if !cwd.starts_with('/') {
        return Err(ApiError::bad("\"cwd\" must be an absolute path"));
    }
    if cwd.len() > MAX_CWD || cwd.contains('\0') {
        return Err(ApiError::bad(format!("\"cwd\" must be a path of at most {MAX_CWD} bytes")));
    }
    our_workspace(app, &cwd).map(Some)
}

fn our_workspace(app: &App, cwd: &str) -> Result<String, ApiError> {
    let real = std::fs::canonicalize(cwd).ok().and_then(|path| path.into_os_string().into_string().ok());
    let real = real.unwrap_or_else(|| cwd.trim_end_matches('/').to_owned());
    if app.config.workspaces.contains(&real) {
        return Ok(real);
    }
    Err(EngineError::WorkspaceMismatch { bound: app.primary().to_owned(), requested: cwd.to_owned() }.into())
}

fn approval_mode(body: &Map<String, Value>) -> Result<Option<String>, ApiError> {
    let mode = text(body, "approvalMode")?;
    match mode.as_deref() {
        None | Some("plan" | "default" | "auto-edit" | "yolo") => Ok(mode),
        // The peer's word for what ours calls auto-edit.
        Some("auto") => Ok(Some("auto-edit".to_owned())),
        Some(other) => Err(ApiError::bad(format!(
            "\"approvalMode\" must be plan, default, auto-edit or yolo, not {other:?}"
        ))),
    }
}

fn view(attached: &Attached) -> Value {
    let mut view = json!({
        "sessionId": attached.session,
        "workspaceCwd": attached.workspace_cwd,
        "attached": attached.attached,
        "clientId": attached.client,
        "createdAt": iso(attached.created_at),
    });
    if attached.attached {
        view["hasActivePrompt"] = json!(attached.has_active_prompt);
    }
    if let Some(source) = &attached.source.0 {
        view["sourceType"] = json!(source);
        view["sourcePersisted"] = json!(true);
    }
    if let Some(source) = &attached.source.1 {
        view["sourceId"] = json!(source);
    }
    view
}

pub(crate) async fn load(
    state: State<App>,
    path: Path<String>,
    headers: HeaderMap,
    body: MaybeObject,
) -> Result<Restored, ApiError> {
    restore(state, path, headers, body, LoadAction::Load).await
}

pub(crate) async fn resume(
    state: State<App>,
    path: Path<String>,
    headers: HeaderMap,
    body: MaybeObject,
) -> Result<Restored, ApiError> {
    restore(state, path, headers, body, LoadAction::Resume).await
}

async fn restore(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    MaybeObject(body): MaybeObject,
    action: LoadAction,
) -> Result<Restored, ApiError> {
    let client = ids::client(&headers)?;
    let id = ids::session(&id)?;
    workspace(&app, &body)?;
    let request = LoadRequest {
        action,
        presence: ids::presence(&headers),
        client,
        page_size: page_size(&body)?,
        approval_mode: approval_mode(&body)?,
    };
    for (key, code) in [
        ("compactedReplayMode", "invalid_compacted_replay_mode"),
        ("liveReplayMode", "invalid_live_replay_mode"),
    ] {
        if let Some(mode) = text(&body, key)?
            && !matches!(mode.as_str(), "full" | "summary")
        {
            let problem = format!("\"{key}\" must be full or summary, not {mode:?}");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, code, problem));
        }
    }
    Ok(restored(app.engine.load(&id, request).await?))
}

/// A restore's response: what a create's holds, and more (WIRE a.2). The history is text already.
pub(crate) struct Restored {
    fields: Value,
    replay: Option<Replay>,
}

impl Serialize for Restored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.fields.as_object().into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        if let Some(replay) = &self.replay {
            match &replay.compacted {
                Some(told) => map.serialize_entry("compactedReplay", told)?,
                None => map.serialize_entry("compactedReplay", &[(); 0])?,
            }
            map.serialize_entry("liveJournal", &replay.journal)?;
            if replay.has_more {
                map.serialize_entry("historyHasMore", &true)?;
                map.serialize_entry("historyAnchorRecordId", &replay.anchor)?;
            }
            if let Some(error) = &replay.error {
                map.serialize_entry("partial", &true)?;
                map.serialize_entry("replayError", error)?;
            }
        }
        map.end()
    }
}

impl IntoResponse for Restored {
    fn into_response(self) -> Response {
        const FIELDS: usize = 4096;
        // Megabytes are written once, and not moved again and again as they grow.
        let history = self.replay.as_ref().and_then(|replay| replay.compacted.as_ref());
        let mut body = Vec::with_capacity(FIELDS + history.map_or(0, Told::size_hint));
        serde_json::to_writer(&mut body, &self).expect("a response can be written as JSON");
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

fn restored(attached: Attached) -> Restored {
    let mut view = view(&attached);
    view["hasActivePrompt"] = json!(attached.has_active_prompt);
    view["hasRunningBackgroundTasks"] = json!(false);
    view["state"] = attached.state.clone();
    view["lastEventId"] = json!(attached.last_event_id);
    view["eventEpoch"] = json!(attached.epoch);
    if let Some(lost) = &attached.lost {
        view["promptTerminals"] = json!([lost]);
    }
    if let Some(title) = &attached.title {
        view["displayName"] = json!(title);
    }
    Restored { fields: view, replay: attached.replay }
}

fn page_size(body: &Map<String, Value>) -> Result<Option<usize>, ApiError> {
    match body.get("historyPageSize") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(size @ 1..=MAX_PAGE) => Ok(usize::try_from(size).ok()),
            _ => {
                let problem = format!("\"historyPageSize\" must be a whole number from 1 to {MAX_PAGE}");
                Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_transcript_limit", problem)
                    .with("maxLimit", MAX_PAGE))
            }
        },
    }
}

pub(crate) async fn detach(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    if let (Some(client), Ok(id)) = (ids::client(&headers)?, SessionId::new(id)) {
        app.engine.detach(&id, client).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn close(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let client = ids::client(&headers)?;
    app.engine.close(&ids::session(&id)?, client).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn delete(State(app): State<App>, Object(body): Object) -> Result<Json<Value>, ApiError> {
    let malformed = || {
        let problem = "\"sessionIds\" must be a list of 1 to 100 session ids";
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", problem)
    };
    let list = body.get("sessionIds").and_then(Value::as_array).ok_or_else(malformed)?;
    if list.is_empty() || list.len() > 100 {
        return Err(malformed());
    }
    let ids = list.iter().map(|id| id.as_str().ok_or_else(malformed)).collect::<Result<Vec<_>, _>>()?;
    let (mut removed, mut not_found, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        let Ok(session) = SessionId::new(id) else {
            not_found.push(id);
            continue;
        };
        match app.engine.delete(&session).await {
            Ok(()) => removed.push(id),
            Err(EngineError::NoSession(_) | EngineError::NotLive(_)) => not_found.push(id),
            Err(error) => errors.push(json!({ "sessionId": id, "error": error.to_string() })),
        }
    }
    Ok(Json(json!({ "removed": removed, "notFound": not_found, "errors": errors })))
}

pub(crate) async fn metadata(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Object(body): Object,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    let id = ids::session(&id)?;
    let invalid = |problem: &str| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_metadata", problem).with("field", "displayName")
    };
    let name = match body.get("displayName") {
        Some(Value::String(name)) => name.trim(),
        Some(_) => return Err(invalid("\"displayName\" must be a text")),
        None => return Err(invalid("\"displayName\" is missing")),
    };
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(invalid("\"displayName\" must not be empty, nor hold control characters"));
    }
    let name: String = name.chars().take(MAX_TITLE).collect();
    app.engine.rename(&id, name.clone(), client).await?;
    Ok(Json(json!({ "sessionId": id, "displayName": name })))
}

pub(crate) async fn audit(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(paging): Query<AuditPaging>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    ids::client(&headers)?;
    let id = ids::session(&id)?;
    let list = app.engine.audit(&id, paging.read()?).await?;
    Ok(Json(audit_view("sessionId", id.as_str(), list)))
}

pub(crate) async fn branch(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    MaybeObject(body): MaybeObject,
) -> Result<(StatusCode, Restored), ApiError> {
    // Its grammar is checked; the copy has clients of its own.
    ids::client(&headers)?;
    let id = ids::session(&id)?;
    if body.get("atRecordId").is_some_and(|record| !record.is_null()) {
        let problem =
            "branching at a record is not supported; leave \"atRecordId\" out to copy the whole session";
        return Err(ApiError::new(StatusCode::CONFLICT, "branch_point_invalid", problem));
    }
    let name = text(&body, "name")?.map(|name| name.trim().chars().take(MAX_BRANCH_NAME).collect::<String>());
    let name = name.filter(|name| !name.is_empty());
    let branched =
        app.engine.branch(&id, name, ids::presence(&headers)).await.map_err(|error| match error {
            EngineError::Rejected(Rejection::Busy) => {
                let problem = "a turn runs or waits in the session; answer or cancel it first";
                ApiError::new(StatusCode::CONFLICT, "branch_while_prompt_active", problem)
            }
            other => other.into(),
        })?;
    let mut view = restored(branched.attached);
    view.fields["displayName"] = json!(branched.name);
    view.fields["forkedFrom"] = json!({ "sessionId": branched.from.0, "displayName": branched.from.1 });
    Ok((StatusCode::CREATED, view))
}

pub(crate) async fn status(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    Ok(Json(app.engine.status(&ids::session(&id)?, client).await?))
}

pub(crate) async fn context(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    Ok(Json(app.engine.context(&ids::session(&id)?, client).await?))
}

pub(crate) async fn heartbeat(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let client = ids::client(&headers)?;
    let id = ids::session(&id)?;
    let seen = app.engine.heartbeat(&id, client.clone()).await?;
    let mut view = json!({ "sessionId": id, "lastSeenAt": seen.0 / 1000 });
    if let Some(client) = client {
        view["clientId"] = json!(client);
    }
    Ok(Json(view))
}

#[derive(Debug, Deserialize)]
pub(crate) struct List {
    size: Option<String>,
    cursor: Option<String>,
    #[serde(rename = "archiveState")]
    archive_state: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    Path(cwd): Path<String>,
    Query(query): Query<List>,
) -> Result<Json<Value>, ApiError> {
    let cwd = our_workspace(&app, &cwd)?;
    match query.archive_state.as_deref() {
        None | Some("active" | "all") => {}
        Some("archived") => return Ok(Json(json!({ "sessions": [] }))),
        Some(other) => {
            let problem = format!("archiveState must be active, archived or all, not {other:?}");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_archive_state", problem));
        }
    }
    let size = query.size.as_deref().map_or(Some(20), |size| size.parse::<usize>().ok());
    let limit =
        size.filter(|size| *size > 0).ok_or_else(|| ApiError::bad("size must be a whole number from 1"))?;
    let before = query.cursor.as_deref().map(read_cursor).transpose()?;
    let filter = SessionFilter { workspace_cwd: Some(cwd), before, limit: limit.min(100) };
    let list = app.engine.sessions(filter).await?;
    let mut view = json!({ "sessions": list.rows });
    if let Some((at, id)) = list.next {
        view["nextCursor"] = json!(format!("{}.{id}", at.0));
    }
    Ok(Json(view))
}

fn read_cursor(text: &str) -> Result<(Micros, SessionId), ApiError> {
    let parsed =
        text.split_once('.').and_then(|(at, id)| Some((Micros(at.parse().ok()?), SessionId::new(id).ok()?)));
    parsed.ok_or_else(|| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_cursor", "cursor is not one that this daemon gave")
    })
}
