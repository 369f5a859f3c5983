//! How a command ends: exit codes, and errors for people and for scripts.

use std::process::ExitCode;

use holdpoint_client::{ApiError, ClientError, QuestionView, Refusal, State};
use serde_json::{Map, Value, json};

use crate::render::{Paint, answered_by, closed_because, one_line, plain};

/// Exit codes. They are part of the command line's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// It failed.
    Error = 1,
    /// The command was not understood.
    Usage = 2,
    /// A question waits for a person.
    Waits = 3,
    /// The answer was refused: somebody was first, it is closed, or it is not allowed.
    Refused = 4,
    /// No daemon.
    Unreachable = 5,
    /// SIGHUP: the terminal is gone.
    HungUp = 129,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A stable name, the daemon's where it has one.
    pub(crate) code: String,
    /// What happened, and where.
    pub(crate) message: String,
    /// What else is true, a line each.
    pub(crate) facts: Vec<String>,
    /// What to do next, a line each.
    pub(crate) hints: Vec<String>,
    /// Further fields for scripts. Boxed, since most failures have none and all are moved about.
    pub(crate) details: Box<Map<String, Value>>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.to_owned(),
            message: message.into(),
            facts: Vec::new(),
            hints: Vec::new(),
            details: Box::default(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// For scripts: one JSON document.
    pub(crate) fn json(&self) -> Value {
        let mut body = Map::new();
        body.insert("error".into(), self.message.as_str().into());
        body.insert("code".into(), self.code.as_str().into());
        if !self.hints.is_empty() {
            body.insert("hints".into(), json!(self.hints));
        }
        for (key, value) in self.details.iter() {
            body.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(body)
    }

    /// For people: what happened, then what to do.
    pub(crate) fn human(&self, paint: Paint) -> String {
        let mut text = format!("{} {}\n", paint.red("error:"), plain(&self.message));
        for fact in &self.facts {
            text.push_str(&format!("  {}\n", plain(fact)));
        }
        for hint in &self.hints {
            text.push_str(&format!("  {} {}\n", paint.dim("next:"), plain(hint)));
        }
        text
    }
}

/// Writes the failure to stderr and gives its exit code.
pub(crate) fn report(failure: &Failure, as_json: bool, color: bool) -> ExitCode {
    use std::io::Write as _;
    let text = if as_json { format!("{}\n", failure.json()) } else { failure.human(Paint::new(color)) };
    // Nobody is left to be told if stderr is closed.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    failure.exit.into()
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::InvalidUrl { .. } => Self::new(Exit::Usage, "invalid_url", message),
            ClientError::Unreachable { .. } => Self::new(Exit::Unreachable, "daemon_unreachable", message)
                .hint("start one with `holdpoint serve --restore-ask-user-question`")
                .hint("or name another with --url or HOLDPOINT_URL; `holdpoint doctor` looks closer"),
            ClientError::Broken { .. } => Self::new(Exit::Unreachable, "connection_lost", message)
                .hint("try again; nothing that was acknowledged is lost"),
            ClientError::TimedOut { .. } => Self::new(Exit::Unreachable, "timed_out", message)
                .hint("try again; `holdpoint doctor` shows whether the daemon is well"),
            ClientError::Unreadable { .. } => Self::new(Exit::Error, "not_a_daemon", message)
                .hint("check --url: something else seems to listen there"),
            ClientError::Refused(api) => refused(*api),
        }
    }
}

/// That a question has ended, and how, as the daemon would say it to an answer. `None`: it has not.
pub(crate) fn has_ended(view: &QuestionView) -> Option<Failure> {
    let details = view.outcome.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let (status, code, message, refusal) = match view.state {
        State::Answered | State::Declined => {
            let winner = serde_json::from_value(Value::Object(details.clone())).unwrap_or_default();
            (409, "already_answered", "has been answered", Refusal::AlreadyAnswered(Box::new(winner)))
        }
        State::Closed => {
            let cause = details.get("cause").and_then(Value::as_str).map(str::to_owned);
            (410, "closed", "was closed", Refusal::Closed { cause })
        }
        State::Open | State::Other(_) => return None,
    };
    let message = format!("the question {} {message}", view.question_id);
    Some(refused(ApiError {
        status,
        code: Some(code.to_owned()),
        message,
        retry_after: None,
        refusal,
        details,
    }))
}

fn refused(api: ApiError) -> Failure {
    let code = |fallback: &str| api.code.clone().unwrap_or_else(|| fallback.to_owned());
    let mut facts = Vec::new();
    let mut message = api.message.clone();
    let (exit, code, hints): (Exit, String, Vec<String>) = match &api.refusal {
        Refusal::Unauthorized { sent } => {
            let hint = if *sent {
                "give the token that the daemon was started with: --token, HOLDPOINT_TOKEN or QWEN_SERVER_TOKEN, in this order"
            } else {
                "give the daemon's token with --token, HOLDPOINT_TOKEN or QWEN_SERVER_TOKEN"
            };
            (Exit::Error, code("unauthorized"), vec![hint.into()])
        }
        Refusal::Forbidden => (Exit::Refused, code("forbidden"), Vec::new()),
        Refusal::NotFound => (Exit::Error, code("not_found"), Vec::new()),
        Refusal::AlreadyAnswered(winner) => {
            if let Some(by) = &winner.answered_by {
                let at = winner.answered_at.as_deref().map(|at| format!(" at {}", one_line(at, 40)));
                let what = api.details.get("answers").and_then(Value::as_object).map(|answers| {
                    let texts: Vec<_> = answers.values().filter_map(Value::as_str).collect();
                    format!(": {}", one_line(&texts.join("; "), 200))
                });
                let what = match api.details.get("state").and_then(Value::as_str) {
                    Some("declined") => " with a no".to_owned(),
                    _ => what.unwrap_or_default(),
                };
                facts.push(format!("by {}{}{what}", answered_by(by), at.unwrap_or_default()));
            }
            (Exit::Refused, code("already_answered"), Vec::new())
        }
        Refusal::StaleGeneration { generation } => (
            Exit::Refused,
            code("stale_generation"),
            generation
                .map(|g| format!("this question's generation is {g}; look at it again"))
                .into_iter()
                .collect(),
        ),
        Refusal::RestoreDisabled => (
            Exit::Refused,
            code("restore_disabled"),
            // The daemon's own words say what to do.
            Vec::new(),
        ),
        Refusal::ResponseIdReused => (
            Exit::Refused,
            code("response_id_reused"),
            vec!["leave --response-id out, or give another one for another answer".into()],
        ),
        Refusal::Closed { cause } => {
            // The daemon says it with the word that programs read; people get the words for it.
            if let Some(words) = cause.as_deref().and_then(closed_because) {
                message = format!("the question was closed without an answer: {words}");
            }
            (Exit::Refused, code("closed"), Vec::new())
        }
        Refusal::Invalid if api.status == 422 => (Exit::Usage, code("invalid"), Vec::new()),
        Refusal::Invalid => (Exit::Error, code("invalid_request"), Vec::new()),
        Refusal::Conflict => (Exit::Error, code("conflict"), Vec::new()),
        Refusal::TryLater => (
            Exit::Error,
            code("try_later"),
            vec![match api.retry_after {
                Some(after) => format!("try again in {} s", after.as_secs()),
                None => "try again in a moment".to_owned(),
            }],
        ),
        Refusal::Server => (Exit::Error, code("daemon_failed"), vec!["the daemon's log says more".into()]),
    };
    let mut details = api.details;
    details.insert("status".into(), api.status.into());
    Failure { exit, code, message, facts, hints, details: Box::new(details) }
}

#[cfg(test)]
mod tests {
    use holdpoint_client::{AnsweredBy, Winner};
    use holdpoint_model::ids::Generation;

    use super::*;

    fn api(status: u16, refusal: Refusal) -> Failure {
        let error = ApiError {
            status,
            code: None,
            message: "the daemon's words".into(),
            retry_after: None,
            refusal,
            details: Map::new(),
        };
        ClientError::from(Box::new(error)).into()
    }

    #[test]
    fn exit_codes_by_what_the_person_can_do() {
        let table = [
            (api(401, Refusal::Unauthorized { sent: true }), Exit::Error),
            (api(403, Refusal::Forbidden), Exit::Refused),
            (api(404, Refusal::NotFound), Exit::Error),
            (api(409, Refusal::AlreadyAnswered(Box::default())), Exit::Refused),
            (api(409, Refusal::StaleGeneration { generation: Some(Generation(2)) }), Exit::Refused),
            (api(409, Refusal::RestoreDisabled), Exit::Refused),
            (api(409, Refusal::ResponseIdReused), Exit::Refused),
            (api(410, Refusal::Closed { cause: None }), Exit::Refused),
            (api(422, Refusal::Invalid), Exit::Usage),
            (api(400, Refusal::Invalid), Exit::Error),
            (api(503, Refusal::TryLater), Exit::Error),
            (api(500, Refusal::Server), Exit::Error),
            (ClientError::Unreachable { url: "u".into(), reason: "r".into() }.into(), Exit::Unreachable),
        ];
        for (failure, exit) in table {
            assert_eq!(failure.exit, exit, "{failure:?}");
        }
    }

    #[test]
    fn v4_what_a_late_answerer_sees() {
        let winner = Winner {
            answered_by: Some(AnsweredBy {
                name: Some("Ada\u{1b}[31m".into()),
                surface: Some("slack".into()),
                client_id: None,
            }),
            answered_at: Some("2026-03-01T10:00:00Z".into()),
            outcome: None,
        };
        let failure = api(409, Refusal::AlreadyAnswered(Box::new(winner)));
        insta::assert_snapshot!(failure.human(Paint::new(false)), @"
        error: the daemon's words
          by Ada␛[31m (slack) at 2026-03-01T10:00:00Z
        ");
    }

    #[test]
    fn d2_why_a_question_was_closed_is_said_in_words() {
        let cause = |cause: &str| Refusal::Closed { cause: Some(cause.to_owned()) };
        let human = |failure: Failure| failure.human(Paint::new(false));
        insta::assert_snapshot!(human(api(410, cause("cancelled_before_answer"))), @"error: the question was closed without an answer: its turn was cancelled");
        insta::assert_snapshot!(human(api(410, cause("something_new"))), @"error: the daemon's words");
    }

    #[test]
    fn nobody_there_says_how_to_start_a_daemon() {
        let failure = Failure::from(ClientError::Unreachable {
            url: "http://127.0.0.1:4170".into(),
            reason: "Connection refused".into(),
        });
        insta::assert_snapshot!(failure.human(Paint::new(false)), @"
        error: no daemon answers at http://127.0.0.1:4170 (Connection refused)
          next: start one with `holdpoint serve --restore-ask-user-question`
          next: or name another with --url or HOLDPOINT_URL; `holdpoint doctor` looks closer
        ");
        insta::assert_snapshot!(failure.json(), @r#"{"error":"no daemon answers at http://127.0.0.1:4170 (Connection refused)","code":"daemon_unreachable","hints":["start one with `holdpoint serve --restore-ask-user-question`","or name another with --url or HOLDPOINT_URL; `holdpoint doctor` looks closer"]}"#);
    }
}
