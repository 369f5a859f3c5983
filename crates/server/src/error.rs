//! Errors on the wire: `{error, code?, …details}` (WIRE a, a.8). The text says what happened and what to do;
//! programs read the status and the code.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::EngineError;
use holdpoint_engine::port::AgentError;
use holdpoint_engine::wire::question::add_verdict;
use holdpoint_model::session::Rejection;
use serde_json::{Value, json};

/// A transcript was written by a newer version.
pub(crate) const TRANSCRIPT_FORMAT_NEWER: &str = "transcript_format_newer";
/// Another process writes the session (WIRE a.2).
const SESSION_WRITER_CONFLICT: &str = "session_writer_conflict";

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: Value,
    retry_after: Option<u64>,
}

impl ApiError {
    /// An error with a code.
    pub(crate) fn new(status: StatusCode, code: &str, error: impl Into<String>) -> Self {
        Self { status, body: json!({ "error": error.into(), "code": code }), retry_after: None }
    }

    /// An error to which the wire gives no code.
    pub(crate) fn bare(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, body: json!({ "error": error.into() }), retry_after: None }
    }

    /// A malformed request.
    pub(crate) fn bad(error: impl Into<String>) -> Self {
        Self::bare(StatusCode::BAD_REQUEST, error)
    }

    /// With another detail.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.body[key] = value.into();
        self
    }

    /// With a `Retry-After`, in seconds.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// With another status.
    #[must_use]
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let text = error.to_string();
        match error {
            EngineError::NoSession(id) | EngineError::NotLive(id) => {
                Self::new(StatusCode::NOT_FOUND, "session_not_found", text).with("sessionId", id.as_str())
            }
            EngineError::SessionExists(id) => Self::new(StatusCode::CONFLICT, "session_id_conflict", text)
                .with("sessionId", id.as_str())
                .with("conflict", "exists"),
            EngineError::Closing(id) => {
                Self::new(StatusCode::NOT_FOUND, "session_closing", text).with("sessionId", id.as_str())
            }
            EngineError::RestoreInProgress { session, active, requested } => {
                Self::new(StatusCode::CONFLICT, "restore_in_progress", text)
                    .with("sessionId", session.as_str())
                    .with("reason", "restore_in_progress")
                    .with("activeAction", active)
                    .with("requestedAction", requested)
                    .with("retryable", true)
                    .retry_after(5)
            }
            EngineError::RestoreTimedOut { session, action, seconds } => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "session_restore_timeout", text)
                    .with("errorKind", "restore_timeout")
                    .with("retryable", true)
                    .with("sessionId", session.as_str())
                    .with("action", action)
                    .with("timeoutMs", seconds * 1000)
                    .retry_after(5)
            }
            EngineError::UnknownClient { session, client } => {
                Self::new(StatusCode::BAD_REQUEST, "invalid_client_id", text)
                    .with("sessionId", session.as_str())
                    .with("clientId", client.as_str())
            }
            EngineError::WorkspaceMismatch { bound, requested } => {
                Self::new(StatusCode::BAD_REQUEST, "workspace_mismatch", text)
                    .with("boundWorkspace", bound)
                    .with("requestedWorkspace", requested)
            }
            EngineError::TooManySessions { limit } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "session_limit_exceeded", text)
                    .with("limit", limit)
                    .with("scope", "total")
                    .retry_after(5)
            }
            EngineError::Rejected(rejection) => rejected(&rejection),
            EngineError::LedgerUnavailable(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "ledger_unavailable", text)
                    .with("retryable", true)
                    .retry_after(5)
            }
            EngineError::Agent(error) => {
                if let Some(code) = conflict_of(&error) {
                    return Self::new(StatusCode::CONFLICT, code, text);
                }
                if let AgentError::StartTimedOut { seconds, .. } | AgentError::TimedOut(seconds) = error {
                    return Self::new(StatusCode::GATEWAY_TIMEOUT, "init_timeout", text)
                        .with("errorKind", "init_timeout")
                        .with("retryable", true)
                        .with("timeoutMs", seconds * 1000)
                        .retry_after(5);
                }
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "acp_channel_unavailable", text.clone())
                    .with("reason", text)
                    .with("retryAfterSeconds", 5)
                    .retry_after(5)
            }
            EngineError::Unreadable(_) | EngineError::Damaged(_) | EngineError::Transcript(_) => {
                tracing::error!(error = text, "a stored session cannot be read");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "storage_error", text)
            }
            EngineError::TranscriptNewer(_) => Self::new(StatusCode::CONFLICT, TRANSCRIPT_FORMAT_NEWER, text),
            EngineError::TooManyReaders(_) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "subscriber_limit_exceeded", text)
                    .with("limit", holdpoint_engine::bus::MAX_SUBSCRIBERS)
                    .retry_after(5)
            }
            EngineError::Stopping => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "daemon_stopping", text).retry_after(1)
            }
        }
    }
}

/// What an agent cannot do however often it is asked: its word for it, if it is one of ours.
fn conflict_of(error: &AgentError) -> Option<&'static str> {
    let AgentError::Refused { data: Some(data), .. } = error else { return None };
    let code = data.get("code").and_then(Value::as_str)?;
    [TRANSCRIPT_FORMAT_NEWER, SESSION_WRITER_CONFLICT].into_iter().find(|known| *known == code)
}

/// What the core refused, as our own routes say it (D2).
fn rejected(rejection: &Rejection) -> ApiError {
    let text = rejection.to_string();
    let new = |status, code: &str| ApiError::new(status, code, text.clone());
    match rejection {
        Rejection::AlreadySettled(question) => {
            let mut error = new(StatusCode::CONFLICT, "already_answered")
                .with("questionId", question.id.as_str())
                .with("state", holdpoint_engine::wire::question::state_word(question));
            add_verdict(&mut error.body, question);
            error.body["outcome"] = holdpoint_engine::wire::question::outcome(question);
            error
        }
        Rejection::Closed { question, .. } => {
            let mut error = new(StatusCode::GONE, "closed").with("questionId", question.id.as_str());
            add_verdict(&mut error.body, question);
            if error.body.get("cause").is_none()
                && let Rejection::Closed { cause, .. } = rejection
            {
                error.body["cause"] = json!(cause);
            }
            error
        }
        Rejection::StaleGeneration { actual } => {
            new(StatusCode::CONFLICT, "stale_generation").with("generation", actual.0)
        }
        Rejection::RestoreDisabled => new(StatusCode::CONFLICT, "restore_disabled"),
        Rejection::ResponseIdReused => new(StatusCode::CONFLICT, "response_id_reused"),
        Rejection::NotAsked => new(StatusCode::CONFLICT, "not_asked").retry_after(1),
        Rejection::UnknownQuestion | Rejection::StaleRequest => {
            new(StatusCode::NOT_FOUND, "question_not_found")
        }
        Rejection::Forbidden { reason, question } => new(StatusCode::FORBIDDEN, "permission_forbidden")
            .with("reason", reason.as_str())
            .with("questionId", question.id.as_str()),
        Rejection::InvalidOption { option, .. } => {
            new(StatusCode::BAD_REQUEST, "invalid_option_id").with("optionId", option.as_str())
        }
        Rejection::InvalidAnswers(_) | Rejection::WrongKind(_) => {
            new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_answers")
        }
        Rejection::QueueFull { limit, pending } => new(StatusCode::SERVICE_UNAVAILABLE, "prompt_queue_full")
            .with("limit", *limit)
            .with("pendingCount", *pending)
            .retry_after(5),
        Rejection::UnknownPrompt(_) => new(StatusCode::NOT_FOUND, "prompt_not_found"),
        Rejection::PromptIdReused(id) => {
            new(StatusCode::CONFLICT, "prompt_id_reused").with("promptId", id.as_str())
        }
        Rejection::Busy => new(StatusCode::CONFLICT, "session_busy").retry_after(5),
        Rejection::AlreadyOpen => new(StatusCode::CONFLICT, "session_id_conflict"),
        Rejection::NotOpen | Rejection::Deleted => new(StatusCode::NOT_FOUND, "session_not_found"),
        Rejection::TooManyPending(_) => new(StatusCode::CONFLICT, "too_many_questions"),
        Rejection::StaleLife => new(StatusCode::CONFLICT, "stale_agent"),
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_model::ids::SessionId;

    use super::*;

    #[test]
    fn a2_a_session_that_is_put_away_is_a_404_with_a_code_of_its_own() {
        let error = ApiError::from(EngineError::Closing(SessionId::new("s").unwrap()));
        assert_eq!(error.status, StatusCode::NOT_FOUND);
        assert_eq!(
            error.body,
            json!({
                "error": "session s is being closed; load or resume it to go on",
                "code": "session_closing",
                "sessionId": "s",
            })
        );
    }
}
