//! The inbox, and answers by a question's durable identity (RULES D2, D3).

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::wire::audit::{AuditList, AuditPage};
use holdpoint_engine::{AnswerRequest, EngineError, Receipt};
use holdpoint_ledger::{QuestionCursor, QuestionFilter, StateFilter};
use holdpoint_model::ids::{Generation, Micros, QuestionId, ResponseId};
use holdpoint_model::session::{Choice, CloseCause, Rejection};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::vote::{answerer, voter};
use crate::body::{Object, text};
use crate::error::ApiError;
use crate::extract::{Path, Query};
use crate::ids;
use crate::state::App;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
/// Entries of an audit in one response.
const AUDIT_LIMIT: usize = 200;
const MAX_AUDIT_LIMIT: usize = 1000;

#[derive(Debug, Deserialize)]
pub(crate) struct Filter {
    state: Option<String>,
    session: Option<String>,
    cwd: Option<String>,
    kind: Option<String>,
    ending: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let list = app.engine.questions(filter(query)?).await?;
    let mut view = json!({ "questions": list.rows });
    if let Some((at, id)) = list.next {
        view["nextCursor"] = json!(format!("{}.{id}", at.0));
    }
    Ok(Json(view))
}

fn filter(query: Filter) -> Result<QuestionFilter, ApiError> {
    let invalid = |problem: String| ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", problem);
    let state = match query.state.as_deref() {
        None | Some("open") => StateFilter::Open,
        Some("settled" | "answered" | "declined") => StateFilter::Settled,
        Some("undelivered") => StateFilter::Undelivered,
        Some("closed") => StateFilter::Closed,
        Some("all" | "any") => StateFilter::Any,
        Some(other) => {
            return Err(invalid(format!(
                "state must be open, settled, undelivered, closed or all, not {other:?}"
            )));
        }
    };
    let user_questions = match query.kind.as_deref() {
        None => None,
        Some("user_question") => Some(true),
        Some("permission") => Some(false),
        Some(other) => {
            return Err(invalid(format!("kind must be user_question or permission, not {other:?}")));
        }
    };
    let limit = match query.limit.as_deref() {
        None => DEFAULT_LIMIT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|n| (1..=MAX_LIMIT).contains(n))
            .ok_or_else(|| invalid(format!("limit must be a whole number from 1 to {MAX_LIMIT}")))?,
    };
    let session = query.session.as_deref().map(ids::session).transpose()?;
    let after = query.cursor.as_deref().map(read_cursor).transpose()?;
    Ok(QuestionFilter {
        state,
        session,
        workspace_cwd: query.cwd,
        user_questions,
        ending: query.ending,
        after,
        limit,
    })
}

fn read_cursor(text: &str) -> Result<QuestionCursor, ApiError> {
    let parsed = text.split_once('.').and_then(|(at, id)| {
        Some(QuestionCursor { asked_at: Micros(at.parse().ok()?), id: QuestionId::new(id).ok()? })
    });
    parsed.ok_or_else(bad_cursor)
}

fn bad_cursor() -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_cursor", "cursor is not one that this daemon gave")
}

fn question_id(text: &str) -> Result<QuestionId, ApiError> {
    QuestionId::new(text).map_err(|error| not_found(&error.to_string(), text))
}

fn not_found(problem: &str, id: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "question_not_found", problem).with("questionId", id)
}

pub(crate) async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let question = app.engine.question(&question_id(&id)?).await?;
    question.map(Json).ok_or_else(|| not_found("no such question", &id))
}

pub(crate) async fn answer(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Object(body): Object,
) -> Result<Response, ApiError> {
    let id = question_id(&id)?;
    let request = read_answer(&body, &headers, peer)?;
    match app.engine.answer(&id, request).await {
        Ok(Receipt::Settled(receipt)) => Ok(Json(receipt).into_response()),
        Ok(Receipt::Recorded(mut receipt)) => {
            receipt["status"] = json!("recorded");
            Ok((StatusCode::ACCEPTED, Json(receipt)).into_response())
        }
        Err(EngineError::Rejected(Rejection::UnknownQuestion)) => {
            Err(not_found("no such question", id.as_str()))
        }
        // On this route an option that is not offered is an invalid answer, and the question stays open.
        Err(error @ EngineError::Rejected(Rejection::InvalidOption { .. })) => {
            Err(ApiError::from(error).status(StatusCode::UNPROCESSABLE_ENTITY))
        }
        Err(error) => Err(refused(error, &id)),
    }
}

/// Reads the body of an answer (D2).
pub(crate) fn read_answer(
    body: &Map<String, Value>,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<AnswerRequest, ApiError> {
    let voter = voter(headers, peer)?;
    let by = answerer(&voter, headers);
    let (generation, choice, response) = (generation(body)?, choice(body)?, response(body)?);
    Ok(AnswerRequest { generation, voter, by, choice, response })
}

/// The questions of a deleted session are closed (D6), also where the deletion overtakes the request.
fn refused(error: EngineError, id: &QuestionId) -> ApiError {
    match error {
        EngineError::NoSession(_) => {
            ApiError::new(StatusCode::GONE, "closed", "the question's session was deleted")
                .with("questionId", id.as_str())
                .with("cause", json!(CloseCause::SessionDeleted))
        }
        other => other.into(),
    }
}

pub(crate) async fn shown(
    State(app): State<App>,
    Path(id): Path<String>,
    Object(body): Object,
) -> Result<StatusCode, ApiError> {
    let id = question_id(&id)?;
    let surface = text(&body, "surface")?.filter(|surface| ids::is_surface(surface));
    let surface = surface.ok_or_else(|| {
        ApiError::bad("\"surface\" must be 1 to 32 letters, digits, - and _: cli, web, slack")
    })?;
    let shown = app.engine.shown(&id, generation(&body)?, surface).await;
    shown.map_err(|error| refused(error, &id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which part of an audit is wanted.
#[derive(Debug, Deserialize)]
pub(crate) struct AuditPaging {
    limit: Option<String>,
    cursor: Option<String>,
}

impl AuditPaging {
    pub(crate) fn read(&self) -> Result<AuditPage, ApiError> {
        let limit = self.limit.as_deref().map_or(Some(AUDIT_LIMIT), |text| text.parse().ok());
        let limit = limit.filter(|n| (1..=MAX_AUDIT_LIMIT).contains(n)).ok_or_else(|| {
            let problem = format!("limit must be a whole number from 1 to {MAX_AUDIT_LIMIT}");
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", problem)
        })?;
        let from = self.cursor.as_deref().map_or(Ok(0), |text| text.parse().map_err(|_| bad_cursor()))?;
        Ok(AuditPage { from, limit })
    }
}

pub(crate) fn audit_view(key: &str, id: &str, list: AuditList) -> Value {
    let mut view = json!({ key: id, "entries": list.entries });
    if let Some(next) = list.next {
        view["nextCursor"] = json!(next.to_string());
    }
    view
}

pub(crate) async fn audit(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(paging): Query<AuditPaging>,
) -> Result<Json<Value>, ApiError> {
    let list = app.engine.question_audit(&question_id(&id)?, paging.read()?).await?;
    let list = list.ok_or_else(|| not_found("no such question", &id))?;
    Ok(Json(audit_view("questionId", &id, list)))
}

fn invalid(problem: &str) -> ApiError {
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_answers", problem)
}

fn generation(body: &Map<String, Value>) -> Result<Generation, ApiError> {
    let generation = body.get("generation").and_then(Value::as_u64);
    generation
        .map(Generation)
        .ok_or_else(|| invalid("\"generation\" must be the question's generation, a whole number"))
}

fn choice(body: &Map<String, Value>) -> Result<Choice, ApiError> {
    let decline = match body.get("decline") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(invalid("\"decline\" must be true or false")),
    };
    let answers = body.get("answers").filter(|answers| !answers.is_null());
    let option = text(body, "optionId")?;
    match (decline, answers, option) {
        (true, None, None) => Ok(Choice::Decline),
        (false, Some(answers), None) => Ok(Choice::Answers(answers.clone())),
        (false, None, Some(option)) => Ok(Choice::Option(option)),
        (false, None, None) => Err(invalid("give \"answers\", \"optionId\" or \"decline\": true")),
        _ => Err(invalid("give only one of \"answers\", \"optionId\" and \"decline\"")),
    }
}

fn response(body: &Map<String, Value>) -> Result<Option<ResponseId>, ApiError> {
    text(body, "responseId")?
        .map(|id| ResponseId::new(id).map_err(|error| invalid(&format!("\"responseId\": {error}"))))
        .transpose()
}
