//! The peer's vote routes (WIRE a.6, c.2).

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use holdpoint_engine::wire::question::add_verdict;
use holdpoint_engine::{EngineError, VoteRequest};
use holdpoint_model::ids::{RequestId, SessionId};
use holdpoint_model::policy::Voter;
use holdpoint_model::session::{Answerer, Rejection};
use serde_json::{Map, Value, json};

use crate::access::is_proxied;
use crate::body::Object;
use crate::error::ApiError;
use crate::extract::Path;
use crate::ids;
use crate::state::App;

pub(crate) async fn vote(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path((id, request)): Path<(String, String)>,
    headers: HeaderMap,
    Object(body): Object,
) -> Result<Json<Value>, ApiError> {
    let vote = read(&body, &headers, peer)?;
    let id = ids::session(&id)?;
    cast(&app, Some(&id), &request, vote).await
}

pub(crate) async fn vote_anywhere(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(request): Path<String>,
    headers: HeaderMap,
    Object(body): Object,
) -> Result<Json<Value>, ApiError> {
    let vote = read(&body, &headers, peer)?;
    cast(&app, None, &request, vote).await
}

async fn cast(
    app: &App,
    session: Option<&SessionId>,
    request: &str,
    vote: VoteRequest,
) -> Result<Json<Value>, ApiError> {
    let not_pending = || missing("no such request", session, request);
    let id = RequestId::new(request).map_err(|_| not_pending())?;
    let option = vote.option.clone();
    let outcome = app.engine.vote(session, id, vote).await;
    match outcome {
        Ok(outcome) if outcome.dropped.is_empty() => Ok(Json(json!({}))),
        Ok(outcome) => Ok(Json(json!({ "droppedAnswers": outcome.dropped }))),
        Err(EngineError::Rejected(rejection)) => {
            Err(refused(&rejection, session, request, option.as_deref()))
        }
        // The legacy route names no session, so it cannot say that one is missing.
        Err(EngineError::NotLive(_) | EngineError::NoSession(_)) if session.is_none() => Err(not_pending()),
        Err(error) => Err(error.into()),
    }
}

/// A refused vote, with the peer's statuses; who decided is added (V4).
fn refused(
    rejection: &Rejection,
    session: Option<&SessionId>,
    request: &str,
    option: Option<&str>,
) -> ApiError {
    let text = rejection.to_string();
    match rejection {
        Rejection::UnknownQuestion | Rejection::StaleRequest => missing(&text, session, request),
        Rejection::AlreadySettled(question) | Rejection::Closed { question, .. } => {
            let mut verdict = json!({ "questionId": question.id, "generation": question.generation });
            add_verdict(&mut verdict, question);
            verdict["outcome"] = holdpoint_engine::wire::question::outcome(question);
            let mut error = missing(&text, session, request);
            if let Value::Object(fields) = verdict {
                for (key, value) in fields {
                    error = error.with(&key, value);
                }
            }
            error
        }
        Rejection::InvalidOption { .. } => ApiError::new(StatusCode::BAD_REQUEST, "invalid_option_id", text)
            .with("requestId", request)
            .with("optionId", option.unwrap_or_default()),
        Rejection::InvalidAnswers(_) => {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_answers", text).with("requestId", request)
        }
        Rejection::Forbidden { reason, .. } => {
            let error = ApiError::new(StatusCode::FORBIDDEN, "permission_forbidden", text)
                .with("reason", reason.as_str())
                .with("requestId", request);
            match session {
                Some(session) => error.with("sessionId", session.as_str()),
                None => error,
            }
        }
        other => EngineError::Rejected(other.clone()).into(),
    }
}

/// 404, to which the wire gives no code.
fn missing(text: &str, session: Option<&SessionId>, request: &str) -> ApiError {
    let error = ApiError::bare(StatusCode::NOT_FOUND, text).with("requestId", request);
    match session {
        Some(session) => error.with("sessionId", session.as_str()),
        None => error,
    }
}

/// Reads the body of a vote.
pub(crate) fn read(
    body: &Map<String, Value>,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<VoteRequest, ApiError> {
    let outcome = body.get("outcome").and_then(Value::as_object);
    let outcome = outcome.ok_or_else(|| ApiError::bad("\"outcome\" must be an object"))?;
    let option = match outcome.get("outcome").and_then(Value::as_str) {
        Some("cancelled") => None,
        Some("selected") => match outcome.get("optionId").and_then(Value::as_str) {
            Some(option) if !option.is_empty() => Some(option.to_owned()),
            _ => return Err(ApiError::bad("\"outcome.optionId\" must be a text")),
        },
        _ => return Err(ApiError::bad("\"outcome.outcome\" must be selected or cancelled")),
    };
    let voter = voter(headers, peer)?;
    let by = answerer(&voter, headers);
    Ok(VoteRequest { voter, by, option, answers: body.get("answers").cloned() })
}

/// Who votes, and from where.
pub(crate) fn voter(headers: &HeaderMap, peer: SocketAddr) -> Result<Voter, ApiError> {
    let proxied = is_proxied(headers);
    let loopback = peer.ip().to_canonical().is_loopback();
    Ok(Voter { client: ids::client(headers)?, loopback, proxied })
}

/// How an answer names the one who gave it.
pub(crate) fn answerer(voter: &Voter, headers: &HeaderMap) -> Answerer {
    Answerer { client_id: voter.client.clone(), name: ids::name(headers), surface: ids::surface(headers) }
}
