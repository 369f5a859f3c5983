//! How the daemon is: for probes, for people who run it, and for Prometheus (WIRE a.1).

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::wire::iso;
use holdpoint_engine::{Activity, EngineError, Trouble};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::extract::Query;
use crate::state::App;

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
    let degraded = |reason: &str, problem: String| {
        ApiError::bare(StatusCode::SERVICE_UNAVAILABLE, problem)
            .with("status", "degraded")
            .with("reason", reason)
    };
    let activity =
        app.engine.activity().await.map_err(|error| degraded("aggregation_failed", error.to_string()))?;
    if let Some(trouble) = app.engine.ledger_health().refusing {
        return Err(degraded("ledger_unavailable", refusing(&trouble)));
    }
    let now = app.engine.now();
    let mut view = json!({
        "status": "ok",
        "workspaceCount": app.config.workspaces.len(),
        "sessions": activity.sessions,
        "pendingPermissions": activity.open,
        "activePrompts": activity.running,
        "activeWork": activity.running > 0,
        "activeWorkReporting": "full",
        "activeWorkStaleMs": 0,
        "connectedClients": activity.clients,
        "channelAlive": activity.agents > 0,
        "lastActivityAt": activity.last.map(iso),
        "idleSinceMs": activity.last.map(|last| (now.0 - last.0).max(0) / 1000),
    });
    if let Some(rates) = &app.gate.rates {
        view["rateLimitHits"] = rates.hits();
    }
    Ok(Json(view))
}

fn refusing(trouble: &Trouble) -> String {
    format!(
        "since {} the ledger refuses to commit, so answers and prompts are refused, and no question can be asked \
         ({} times, last at {}): {}",
        iso(trouble.since),
        trouble.count,
        iso(trouble.last),
        trouble.reason
    )
}

/// How bad an issue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// For information.
    Info,
    /// Somebody should look.
    Warning,
    /// Something does not work.
    Error,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that people who run the daemon should know.
#[derive(Debug)]
pub(crate) struct Issue {
    severity: Severity,
    code: &'static str,
    message: String,
}

impl Issue {
    pub(crate) fn view(&self) -> Value {
        json!({ "code": self.code, "severity": self.severity.as_str(), "message": self.message })
    }
}

/// Everything that people should know, the worst first.
pub(crate) fn issues(app: &App, activity: &Result<Activity, EngineError>, undelivered: usize) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut add = |severity, code, message| issues.push(Issue { severity, code, message });
    let ledger = app.engine.ledger_health();
    if let Some(trouble) = &ledger.refusing {
        add(Severity::Error, "ledger_unavailable", refusing(trouble));
    }
    if let Some(trouble) = &ledger.unreadable {
        let message = format!("since {} the ledger cannot be read: {}", iso(trouble.since), trouble.reason);
        add(Severity::Error, "ledger_unreadable", message);
    } else if let Err(error) = activity {
        add(Severity::Error, "ledger_unreadable", error.to_string());
    }
    if let Ok(activity) = activity
        && activity.unseen > 0
    {
        let message = match activity.unseen {
            1 => "A question waits, and no surface has shown it: holdpoint inbox".to_owned(),
            n => format!("{n} questions wait, and no surface has shown them: holdpoint inbox"),
        };
        add(Severity::Warning, "unshown_questions", message);
    }
    if let Ok(activity) = activity
        && activity.lost > 0
    {
        let count = match activity.lost {
            1 => "An agent waited for the answer to a question that had reached nobody; it was closed, and its turn stopped".to_owned(),
            n => format!("{n} times an agent waited for the answer to a question that had reached nobody; each was closed, and its turn stopped"),
        };
        add(Severity::Warning, "lost_questions", format!("{count}: the log says which"));
    }
    if undelivered > 0 {
        let count = match undelivered {
            1 => "An answer is stored that its agent does not have yet".to_owned(),
            n => format!("{n} answers are stored that their agents do not have yet"),
        };
        let message = format!(
            "{count}: load the session (holdpoint attach) and its turn goes on; GET /questions?state=undelivered lists them"
        );
        add(Severity::Warning, "undelivered_answers", message);
    }
    if !app.engine.config().restore {
        add(
            Severity::Info,
            "restore_disabled",
            "Questions are kept, but not asked again after a restart: start with --restore-ask-user-question."
                .to_owned(),
        );
    }
    issues
}

/// One word for all of them.
pub(crate) fn word(issues: &[Issue]) -> &'static str {
    match issues.iter().map(|issue| issue.severity).max() {
        Some(Severity::Error) => "error",
        Some(Severity::Warning) => "warning",
        Some(Severity::Info) | None => "ok",
    }
}

/// The ledger in `/daemon/status`.
pub(crate) fn ledger(app: &App) -> Value {
    let health = app.engine.ledger_health();
    let view = |trouble: &Trouble| {
        json!({
            "since": iso(trouble.since),
            "lastAt": iso(trouble.last),
            "count": trouble.count,
            "reason": trouble.reason,
        })
    };
    let state = match (&health.refusing, &health.unreadable) {
        (Some(_), _) => "failing",
        (None, Some(_)) => "degraded",
        (None, None) => "ok",
    };
    let mut ledger = json!({ "state": state });
    if let Some(trouble) = &health.refusing {
        ledger["refusing"] = view(trouble);
    }
    if let Some(trouble) = &health.unreadable {
        ledger["unreadable"] = view(trouble);
    }
    ledger
}

pub(crate) async fn metrics(State(app): State<App>) -> Response {
    // A ledger that cannot be read is what a scrape must show, not what ends it.
    if let Ok(activity) = app.engine.activity().await {
        metrics::gauge!("holdpoint_questions_open").set(activity.open as f64);
        let age = activity.oldest.map_or(0.0, |oldest| (app.engine.now().0 - oldest.0).max(0) as f64 / 1e6);
        metrics::gauge!("holdpoint_questions_oldest_age_seconds").set(age);
        metrics::gauge!("holdpoint_questions_unseen").set(activity.unseen as f64);
        metrics::gauge!("holdpoint_sessions_live").set(activity.sessions as f64);
        metrics::gauge!("holdpoint_turns_active").set(activity.running as f64);
        metrics::gauge!("holdpoint_clients_attached").set(activity.clients as f64);
        metrics::gauge!("holdpoint_agent_processes").set(activity.agents as f64);
    }
    let ledger = app.engine.ledger_health();
    metrics::gauge!("holdpoint_ledger_commits").set(f64::from(u8::from(ledger.refusing.is_none())));
    metrics::gauge!("holdpoint_ledger_reads").set(f64::from(u8::from(ledger.unreadable.is_none())));
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (content_type, app.metrics.render()).into_response()
}
