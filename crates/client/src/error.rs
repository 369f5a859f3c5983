//! What can go wrong, split by what the caller can do about it.

use std::time::Duration;

use holdpoint_model::ids::Generation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::question::AnsweredBy;

/// A call that did not work out.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is no `http://` or `https://` URL.
    #[error("{url:?} is not the address of a daemon: {problem}")]
    InvalidUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nobody listens there. Nothing was sent.
    #[error("no daemon answers at {url} ({reason})")]
    Unreachable {
        /// The address.
        url: String,
        /// The reason of the operating system.
        reason: String,
    },
    /// The connection broke: whether the daemon acted on the call is not known.
    #[error("the connection to the daemon at {url} broke during {call} ({reason})")]
    Broken {
        /// The address.
        url: String,
        /// The call.
        call: &'static str,
        /// Why.
        reason: String,
    },
    /// The daemon took too long: whether it acted on the call is not known.
    #[error("the daemon at {url} did not finish {call} in time")]
    TimedOut {
        /// The address.
        url: String,
        /// The call.
        call: &'static str,
    },
    /// The daemon answered and refused.
    #[error(transparent)]
    Refused(#[from] Box<ApiError>),
    /// The daemon's answer is not what this client reads; most likely something else listens there.
    #[error("{url} answered {call} with something that is not a daemon's answer: {problem}")]
    Unreadable {
        /// The address.
        url: String,
        /// The call.
        call: &'static str,
        /// What was wrong with it.
        problem: String,
    },
}

impl ClientError {
    /// The daemon's refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(api) => Some(&api.refusal),
            _ => None,
        }
    }

    /// Whether the daemon is away or was cut off, so that the same call may work in a moment.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Broken { .. } | Self::TimedOut { .. })
    }
}

/// A refusal of the daemon: `{error, code, …}`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// The stable name of the refusal; some of the peer's have none.
    pub code: Option<String>,
    /// The daemon's own words.
    pub message: String,
    /// How long to wait before a repeat, if the daemon says so.
    pub retry_after: Option<Duration>,
    /// What the caller can do.
    pub refusal: Refusal,
    /// All other fields of the body.
    pub details: Map<String, Value>,
}

/// What a refusal means for the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// 401: a token is needed, or another one.
    Unauthorized {
        /// Whether one was sent.
        sent: bool,
    },
    /// 403: the policy (or a gate before it) does not let this caller do it.
    Forbidden,
    /// 404: there is no such thing, or not any more.
    NotFound,
    /// 409: somebody was first; here is who.
    AlreadyAnswered(Box<Winner>),
    /// 409: the generation is not this question's; here is the right one.
    StaleGeneration {
        /// This question's generation.
        generation: Option<Generation>,
    },
    /// 409: the session would have to be woken, and the daemon runs without its flag (D3).
    RestoreDisabled,
    /// 409: the response id was used for another answer.
    ResponseIdReused,
    /// 410: the question ended without an answer.
    Closed {
        /// Why, as the ledger says.
        cause: Option<String>,
    },
    /// 400, 413, 422: the request itself is wrong; the same one will never work.
    Invalid,
    /// Any other 409: not in this state.
    Conflict,
    /// 429, 503, 504: not now.
    TryLater,
    /// Anything else: the daemon failed.
    Server,
}

/// Who answered, as a late answerer is told (V4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Winner {
    /// Who.
    pub answered_by: Option<AnsweredBy>,
    /// When (ISO 8601).
    pub answered_at: Option<String>,
    /// What.
    pub outcome: Option<Value>,
}

impl ApiError {
    /// Reads a refusal from a response's parts.
    ///
    /// `token`: whether the request carried one. The daemon's own word is the same for none and for a wrong one.
    pub(crate) fn read(status: u16, retry_after: Option<Duration>, token: bool, body: &[u8]) -> Self {
        let mut details = match serde_json::from_slice::<Value>(body) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let code = match details.remove("code") {
            Some(Value::String(code)) => Some(code),
            _ => None,
        };
        let message = match details.remove("error") {
            Some(Value::String(message)) if !message.trim().is_empty() => message,
            _ => format!("the daemon refused with HTTP status {status}"),
        };
        let refusal = refusal(status, code.as_deref(), token, &details);
        let message = match (&refusal, &code) {
            (Refusal::Unauthorized { sent: true }, None) => "the daemon does not take this token".to_owned(),
            (Refusal::Unauthorized { sent: false }, None) => {
                "the daemon wants a token, and none was given".to_owned()
            }
            _ => message,
        };
        Self { status, code, message, retry_after, refusal, details }
    }
}

fn refusal(status: u16, code: Option<&str>, token: bool, details: &Map<String, Value>) -> Refusal {
    match (status, code) {
        (401, _) => Refusal::Unauthorized { sent: token },
        (403, _) => Refusal::Forbidden,
        (404, _) => Refusal::NotFound,
        (409, Some("already_answered")) => Refusal::AlreadyAnswered(Box::new(
            serde_json::from_value(Value::Object(details.clone())).unwrap_or_default(),
        )),
        (409, Some("stale_generation")) => Refusal::StaleGeneration {
            generation: details.get("generation").and_then(Value::as_u64).map(Generation),
        },
        (409, Some("restore_disabled")) => Refusal::RestoreDisabled,
        (409, Some("response_id_reused")) => Refusal::ResponseIdReused,
        (409, _) => Refusal::Conflict,
        (410, _) => {
            Refusal::Closed { cause: details.get("cause").and_then(Value::as_str).map(str::to_owned) }
        }
        (400 | 413 | 422, _) => Refusal::Invalid,
        (429 | 503 | 504, _) => Refusal::TryLater,
        _ => Refusal::Server,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: Value) -> ApiError {
        ApiError::read(status, None, false, body.to_string().as_bytes())
    }

    #[test]
    fn d2_each_refusal_is_typed_by_what_the_caller_can_do() {
        let table = [
            (401, json!({"error": "Unauthorized"}), Refusal::Unauthorized { sent: false }),
            (403, json!({"error": "no", "code": "permission_forbidden"}), Refusal::Forbidden),
            (404, json!({"error": "no", "code": "question_not_found"}), Refusal::NotFound),
            (
                409,
                json!({"error": "no", "code": "stale_generation", "generation": 4}),
                Refusal::StaleGeneration { generation: Some(Generation(4)) },
            ),
            (
                409,
                json!({"error": "no", "code": "stale_generation"}),
                Refusal::StaleGeneration { generation: None },
            ),
            (409, json!({"error": "no", "code": "restore_disabled"}), Refusal::RestoreDisabled),
            (409, json!({"error": "no", "code": "response_id_reused"}), Refusal::ResponseIdReused),
            (409, json!({"error": "no", "code": "restore_in_progress"}), Refusal::Conflict),
            (
                410,
                json!({"error": "no", "code": "closed", "cause": "session_deleted"}),
                Refusal::Closed { cause: Some("session_deleted".into()) },
            ),
            (400, json!({"error": "no"}), Refusal::Invalid),
            (422, json!({"error": "no", "code": "invalid_answers"}), Refusal::Invalid),
            (429, json!({"error": "no", "code": "rate_limit_exceeded"}), Refusal::TryLater),
            (503, json!({"error": "no", "code": "prompt_queue_full"}), Refusal::TryLater),
            (500, json!({"error": "no"}), Refusal::Server),
        ];
        for (status, body, want) in table {
            assert_eq!(read(status, body.clone()).refusal, want, "{status} {body}");
        }
    }

    #[test]
    fn v4_a_late_answerer_learns_who_won() {
        let error = read(
            409,
            json!({"error": "somebody was first", "code": "already_answered", "answeredAt": "2026-03-01T10:00:00Z",
                   "answeredBy": {"surface": "slack", "name": "Ada", "team": "T1"}, "outcome": {"answers": {"0": "Blue"}}}),
        );
        let Refusal::AlreadyAnswered(winner) = &error.refusal else { panic!("{error:?}") };
        assert_eq!(winner.answered_by.as_ref().and_then(|by| by.name.as_deref()), Some("Ada"));
        assert_eq!(winner.answered_at.as_deref(), Some("2026-03-01T10:00:00Z"));
        assert_eq!(winner.outcome, Some(json!({"answers": {"0": "Blue"}})));
        assert_eq!(error.to_string(), "somebody was first");
    }

    #[test]
    fn a_missing_token_and_a_wrong_one_are_told_apart() {
        let body = json!({"error": "Unauthorized"}).to_string();
        let message = |token: bool| ApiError::read(401, None, token, body.as_bytes()).message;
        assert_eq!(message(false), "the daemon wants a token, and none was given");
        assert_eq!(message(true), "the daemon does not take this token");
        let own = read(401, json!({"error": "this needs a token: …", "code": "token_required"}));
        assert_eq!(own.message, "this needs a token: …");
    }

    #[test]
    fn a_refusal_without_a_readable_body_still_says_its_status() {
        for body in ["", "<html>", "[]", "{}", "{\"error\":7}"] {
            let error = ApiError::read(502, None, false, body.as_bytes());
            assert_eq!(error.message, "the daemon refused with HTTP status 502");
            assert_eq!(error.refusal, Refusal::Server);
        }
    }
}
