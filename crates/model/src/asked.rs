//! How one asking of a question ended, as the agent that asked learns it: the answer to
//! `session/request_permission` (WIRE d.5), read and written by one piece of code.

use serde_json::{Value, json};

use crate::answers::Answers;
use crate::question::{OPTION_SUBMIT, Question};

/// `_meta` key under which a daemon says why it cancelled a request.
pub const CANCEL_REASON_KEY: &str = "qwen.daemon.permissionCancelReason";
/// `_meta` key under which our daemon names the cause exactly (additive).
pub const CAUSE_KEY: &str = "holdpoint.cause";

/// The end of one asking. The four ends that write something to the history have four texts (Q7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A person answered.
    Answered(Answers),
    /// A person declined.
    Declined,
    /// The turn was cancelled by a person before the question was answered (R13, H9).
    CancelledBeforeAnswer,
    /// The time-out ran out, and with the flag off that is a result (S3).
    TimedOut,
    /// A person or a client stopped the turn, and the question stays open (R10, R13, H6). Nothing is written now; the
    /// repair that comes once something else is sent says that it was cancelled (H9).
    Halted,
    /// Nobody decided anything: a time-out, a close, a lost connection. Nothing is written (R10).
    Unattended,
}

impl Asked {
    /// The answer to the request.
    pub fn to_response(&self) -> Value {
        match self {
            Self::Answered(answers) => json!({
                "outcome": { "outcome": "selected", "optionId": OPTION_SUBMIT },
                "answers": answers,
            }),
            Self::Declined => cancelled("declined", None),
            Self::CancelledBeforeAnswer => cancelled("cancelled_before_answer", Some("session_closed")),
            Self::TimedOut => cancelled("timed_out", Some("timeout")),
            Self::Halted => cancelled("halted", Some("session_closed")),
            Self::Unattended => cancelled("unattended", Some("session_closed")),
        }
    }

    /// Reads the answer to a request. `keep_open` says what a bare reason of the peer's means: with the
    /// flag on (or on a restored question) an unattended end, else what the peer makes of it (R10, S3).
    ///
    /// # Errors
    /// The frame is no answer to a permission request; the text says what is wrong.
    pub fn from_response(value: &Value, questions: &[Question], keep_open: bool) -> Result<Self, String> {
        let outcome = value.get("outcome").ok_or("the answer has no \"outcome\"")?;
        let meta = |key: &str| value.get("_meta").and_then(|meta| meta.get(key)).and_then(Value::as_str);
        match outcome.get("outcome").and_then(Value::as_str) {
            Some("selected") => match outcome.get("optionId").and_then(Value::as_str) {
                Some(OPTION_SUBMIT) => Answers::lenient(value.get("answers"), questions)
                    .map(|lenient| Self::Answered(lenient.answers))
                    .map_err(|error| error.to_string()),
                Some(_) => Ok(Self::Declined),
                None => Err("the outcome \"selected\" has no \"optionId\"".to_owned()),
            },
            Some("cancelled") => Ok(match (meta(CAUSE_KEY), meta(CANCEL_REASON_KEY)) {
                (Some("declined"), _) | (None, None) => Self::Declined,
                (Some("cancelled_before_answer"), _) => Self::CancelledBeforeAnswer,
                (Some("timed_out"), _) => Self::TimedOut,
                (Some("halted"), _) => Self::Halted,
                (Some(_), _) => Self::Unattended,
                (None, Some(_)) if keep_open => Self::Unattended,
                (None, Some("timeout")) => Self::TimedOut,
                (None, Some(_)) => Self::CancelledBeforeAnswer,
            }),
            _ => Err("the outcome is neither \"selected\" nor \"cancelled\"".to_owned()),
        }
    }

    /// What the model reads as the result of the call, and whether it is an error; `None` where nothing may
    /// be written.
    pub fn result(&self, questions: &[Question]) -> Option<(String, bool)> {
        Some(match self {
            Self::Answered(answers) => (answers.model_text(questions), false),
            Self::Declined => (texts::DECLINED.to_owned(), true),
            Self::CancelledBeforeAnswer => (texts::CANCELLED_BEFORE_ANSWER.to_owned(), true),
            Self::TimedOut => (texts::TIMED_OUT.to_owned(), true),
            Self::Halted | Self::Unattended => return None,
        })
    }
}

fn cancelled(cause: &str, reason: Option<&str>) -> Value {
    let mut meta = json!({ CAUSE_KEY: cause });
    if let Some(reason) = reason {
        meta[CANCEL_REASON_KEY] = json!(reason);
    }
    json!({ "outcome": { "outcome": "cancelled" }, "_meta": meta })
}

/// The texts that the model reads where no answer is: each names its author (I3, Q7).
pub mod texts {
    /// A person declined.
    pub const DECLINED: &str =
        "The person declined to answer this question. Nothing was chosen; do not assume an answer.";
    /// The turn was cancelled while the question was open.
    pub const CANCELLED_BEFORE_ANSWER: &str = "Cancelled before the user answered: the turn was stopped while this question was open. Nothing was chosen.";
    /// Nobody answered in time.
    pub const TIMED_OUT: &str =
        "Timed out: nobody answered this question in the time that was set for it. Nothing was chosen.";
    /// Orphan repair of a question.
    pub const REPAIRED_QUESTION: &str =
        "Not answered: the session went on without an answer to this question. Nothing was chosen.";
    /// Orphan repair of a call that may have had effects (R21).
    pub const REPAIRED_CALL: &str = "Interrupted: no result of this call was recorded. It may have run, in part or whole; check before you repeat it.";
    /// Orphan repair of a call that only reads.
    pub const REPAIRED_READ: &str =
        "Interrupted: no result of this call was recorded. It only reads, and can be repeated.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::parse_questions;

    fn questions() -> Vec<Question> {
        parse_questions(&json!({"questions": [{"question": "Which?", "header": "Pick", "options": [
            {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]}))
        .unwrap()
    }

    #[test]
    fn q7_each_end_survives_the_wire_and_has_a_text_of_its_own() {
        let questions = questions();
        let answers = Answers::from_pairs([(0, "A".to_owned())]).unwrap();
        let ends = [
            Asked::Answered(answers),
            Asked::Declined,
            Asked::CancelledBeforeAnswer,
            Asked::TimedOut,
            Asked::Halted,
            Asked::Unattended,
        ];
        let mut seen = std::collections::BTreeSet::new();
        for end in ends {
            assert_eq!(Asked::from_response(&end.to_response(), &questions, true), Ok(end.clone()));
            // What leaves the question open has no text.
            let text = end.result(&questions);
            assert_eq!(text.is_none(), matches!(end, Asked::Halted | Asked::Unattended));
            assert!(text.is_none() || seen.insert(text), "two ends share a text");
        }
    }

    #[test]
    fn r10_a_bare_reason_of_the_peer_is_unattended_only_where_the_question_is_kept() {
        let frame =
            |reason: &str| json!({"outcome": {"outcome": "cancelled"}, "_meta": {CANCEL_REASON_KEY: reason}});
        let read = |frame: &Value, keep| Asked::from_response(frame, &questions(), keep).unwrap();
        assert_eq!(read(&frame("timeout"), true), Asked::Unattended);
        assert_eq!(read(&frame("timeout"), false), Asked::TimedOut);
        assert_eq!(read(&frame("session_closed"), false), Asked::CancelledBeforeAnswer);
        assert_eq!(read(&json!({"outcome": {"outcome": "cancelled"}}), true), Asked::Declined);
    }
}
