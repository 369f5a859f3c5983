//! `holdpoint doctor`.

use std::path::{Path, PathBuf};

use holdpoint_client::{ClientError, Daemon, Filter, QuestionView, Refusal};
use serde::Serialize;
use serde_json::{Value, json};

use crate::config;
use crate::connect::{Settings, env};
use crate::exit::{Exit, Failure};
use crate::render::{Paint, START_WITH_FLAG, one_line};
use crate::ui::Ui;

/// How one check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Ok,
    Warn,
    Fail,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Check {
    name: &'static str,
    status: Grade,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

fn check(name: &'static str, status: Grade, message: impl Into<String>) -> Check {
    Check { name, status, message: message.into(), next: None }
}

impl Check {
    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

pub(crate) async fn run(settings: &Settings, ui: &mut Ui) -> Result<Exit, Failure> {
    let daemon = settings.daemon()?;
    let found = look(&daemon).await;
    let checks = checks(settings, &found, &Machine::here());
    let failed = checks.iter().any(|check| check.status == Grade::Fail);
    ui.line(&json!({"ok": !failed, "checks": checks}));
    let text = report(&checks, ui.paint);
    ui.block(&text);
    Ok(if failed { Exit::Error } else { Exit::Ok })
}

/// What the daemon says about itself.
struct Found {
    health: Result<Value, ClientError>,
    capabilities: Option<Result<holdpoint_client::Capabilities, ClientError>>,
    status: Value,
    questions: Option<Result<Vec<QuestionView>, ClientError>>,
}

async fn look(daemon: &Daemon) -> Found {
    let health = daemon.health().await;
    if matches!(&health, Err(error) if error.is_outage()) {
        return Found { health, capabilities: None, status: Value::Null, questions: None };
    }
    let capabilities = daemon.capabilities().await;
    if capabilities.is_err() {
        return Found { health, capabilities: Some(capabilities), status: Value::Null, questions: None };
    }
    let status = daemon.daemon_status().await.unwrap_or(Value::Null);
    let questions = Some(daemon.all_questions(&Filter::open()).await);
    Found { health, capabilities: Some(capabilities), status, questions }
}

/// What this machine says: for the checks that need no daemon, and those that compare.
struct Machine {
    data_dir: Option<PathBuf>,
    /// The variables that choose a model, of those that are set.
    model: Vec<&'static str>,
    /// The user's `holdpoint.toml`, if there is one, and what is wrong with it.
    file: Option<(PathBuf, Option<String>)>,
}

impl Machine {
    fn here() -> Self {
        let under = |name: &str, rest: &str| env(name).map(|dir| Path::new(&dir).join(rest));
        let data_dir = env("HOLDPOINT_DATA_DIR")
            .map(PathBuf::from)
            .or_else(|| under("XDG_DATA_HOME", "holdpoint"))
            .or_else(|| under("HOME", ".local/share/holdpoint"));
        let names =
            ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
        let file = config::usual_place().filter(|path| path.exists()).map(|path| {
            let problem = config::File::read(Some(&path)).err().map(|error| format!("{error:#}"));
            (path, problem)
        });
        Self { data_dir, file, model: names.into_iter().filter(|name| env(name).is_some()).collect() }
    }
}

fn checks(settings: &Settings, found: &Found, machine: &Machine) -> Vec<Check> {
    let mut all = vec![reachable(settings, found)];
    if let Some(capabilities) = &found.capabilities {
        all.push(token(settings, capabilities));
    }
    all.extend(machine.file.as_ref().map(|(path, problem)| {
        match problem {
            None => check("config", Grade::Ok, path.display().to_string()),
            Some(problem) => check("config", Grade::Fail, problem.as_str())
                .next("mend it: a daemon does not start with it; docs/configuration.md has its keys"),
        }
    }));
    let said = found.capabilities.as_ref().is_some_and(Result::is_ok);
    if said {
        all.push(version(found));
        all.push(restore(found));
    }
    all.push(model(found, machine, said));
    all.push(data_dir(settings, found, machine));
    all.extend(ledger(found));
    if let Some(questions) = &found.questions {
        all.push(waiting(questions));
    }
    let has_ledger = found.status.pointer("/runtime/ledger").is_some();
    for issue in found.status.get("issues").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| issue.get(key).and_then(Value::as_str).unwrap_or_default();
        let grade = match text("severity") {
            // What these are about has a line of its own.
            "error" if has_ledger && text("code").starts_with("ledger_") => continue,
            "info" if text("code") == "restore_disabled" => continue,
            "error" => Grade::Fail,
            "info" => Grade::Ok,
            _ => Grade::Warn,
        };
        let count = issue.get("count").and_then(Value::as_u64).map(|count| count.to_string());
        let count = count.filter(|count| !text("message").contains(count.as_str()));
        let count = count.map_or_else(String::new, |count| format!(", {count} of them"));
        let said = format!("{} ({}{count})", one_line(text("message"), 200), one_line(text("code"), 60));
        let said = check("daemon says", grade, said);
        all.push(match text("code") {
            "undelivered_answers" => said.next(
                "holdpoint sessions, then holdpoint attach SESSION: a session that is loaded gets its answers",
            ),
            _ => said,
        });
    }
    all
}

fn reachable(settings: &Settings, found: &Found) -> Check {
    match &found.health {
        Ok(_) => check("daemon", Grade::Ok, format!("answers at {}", settings.url)),
        Err(error @ ClientError::Refused(api)) => match api.refusal {
            Refusal::Unauthorized { .. } => {
                check("daemon", Grade::Ok, format!("answers at {} and wants a token", settings.url))
            }
            _ => {
                check("daemon", Grade::Fail, format!("answers at {} and is not well: {error}", settings.url))
                    .next("look into its log")
            }
        },
        Err(error @ ClientError::Unreadable { .. }) => check("daemon", Grade::Fail, error.to_string())
            .next("check --url: something else seems to listen there"),
        Err(error) => check("daemon", Grade::Fail, error.to_string()).next(
            "start one: holdpoint serve --restore-ask-user-question (or name another: --url, HOLDPOINT_URL)",
        ),
    }
}

fn token(settings: &Settings, capabilities: &Result<holdpoint_client::Capabilities, ClientError>) -> Check {
    match (capabilities, settings.token.is_some()) {
        (Ok(_), true) => check("token", Grade::Ok, "accepted"),
        (Ok(_), false) => check("token", Grade::Ok, "none needed"),
        (Err(error), _) if matches!(error.refusal(), Some(Refusal::Unauthorized { .. })) => check(
            "token",
            Grade::Fail,
            error.to_string(),
        )
        .next(
            "give the token that the daemon was started with: --token, HOLDPOINT_TOKEN or QWEN_SERVER_TOKEN",
        ),
        (Err(error), _) => check("token", Grade::Fail, error.to_string()),
    }
}

/// The first of these places in the daemon's status that holds something.
fn said<'a>(found: &'a Found, places: &[&str]) -> Option<&'a Value> {
    places.iter().find_map(|place| found.status.pointer(place)).filter(|value| !value.is_null())
}

fn said_text(found: &Found, places: &[&str]) -> Option<String> {
    said(found, places).and_then(Value::as_str).map(|text| one_line(text, 200))
}

fn version(found: &Found) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    match said_text(found, &["/daemon/holdpointVersion", "/daemon/version"]) {
        Some(theirs) if theirs == ours => check("version", Grade::Ok, format!("{ours}, as this program")),
        Some(theirs) => check("version", Grade::Warn, format!("the daemon is {theirs}, this program {ours}"))
            .next("use the same version for both"),
        None => {
            check("version", Grade::Warn, format!("the daemon does not say which; this program is {ours}"))
        }
    }
}

fn restore(found: &Found) -> Check {
    let durable =
        found.capabilities.as_ref().and_then(|c| c.as_ref().ok()).is_some_and(|c| c.has("durable_questions"));
    let flag = said(found, &["/daemon/restoreAskUserQuestion", "/runtime/restoreAskUserQuestion"])
        .and_then(Value::as_bool);
    match (durable, flag) {
        (false, _) => {
            check("questions", Grade::Fail, "this daemon keeps no questions on disk: it is not a Holdpoint")
                .next("start one: holdpoint serve --restore-ask-user-question")
        }
        (true, Some(true)) => check("questions", Grade::Ok, "kept on disk, and asked again after a restart"),
        (true, Some(false)) => check(
            "questions",
            Grade::Warn,
            "kept on disk, but the daemon runs without --restore-ask-user-question: after a restart they are not \
             asked again, and take no answer",
        )
        .next(START_WITH_FLAG),
        (true, None) => {
            check("questions", Grade::Warn, "kept on disk; whether they are asked again after a restart the daemon does not say")
        }
    }
}

fn model(found: &Found, machine: &Machine, reachable: bool) -> Check {
    let real = "start the daemon with --model NAME and --base-url URL, and the key in OPENAI_API_KEY (or ANTHROPIC_API_KEY, GEMINI_API_KEY)";
    match said(found, &["/daemon/model", "/runtime/model"]) {
        Some(value) => {
            let name = value.as_str().or_else(|| value.get("name").and_then(Value::as_str)).unwrap_or("?");
            if name.contains("demo") {
                check("model", Grade::Warn, format!("the scripted one ({})", one_line(name, 60))).next(real)
            } else {
                match unreachable_model(name) {
                    None => check("model", Grade::Ok, one_line(name, 100)),
                    Some(problem) => {
                        check("model", Grade::Warn, format!("{}: {problem}", one_line(name, 100)))
                            .next("start it, or start the daemon with another --base-url")
                    }
                }
            }
        }
        None if reachable => check("model", Grade::Warn, "the daemon does not say which"),
        None if machine.model.is_empty() => check(
            "model",
            Grade::Warn,
            "none in this environment: a daemon started here uses the scripted demo model",
        )
        .next(real),
        None => check("model", Grade::Ok, format!("this environment sets {}", machine.model.join(", "))),
    }
}

/// Why a model's endpoint on this machine takes no connection; `None` where it does, or is elsewhere.
fn unreachable_model(name: &str) -> Option<String> {
    let url = host_and_port(name.split_once(" at http://")?.1)?;
    let address = std::net::ToSocketAddrs::to_socket_addrs(&url).ok()?.next()?;
    if !address.ip().is_loopback() {
        return None;
    }
    std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_secs(1))
        .err()
        .map(|e| e.to_string())
}

/// `host:port` at the start of what follows `http://`.
fn host_and_port(rest: &str) -> Option<String> {
    let authority = rest.split(['/', ' ', '?']).next()?;
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

fn data_dir(settings: &Settings, found: &Found, machine: &Machine) -> Check {
    let local = settings.is_local();
    let theirs = said_text(found, &["/daemon/dataDir"]);
    if theirs.is_some() && !local {
        return check("data", Grade::Ok, format!("{} on the daemon's machine", theirs.unwrap_or_default()));
    }
    let Some(dir) = theirs.map(PathBuf::from).or_else(|| machine.data_dir.clone()) else {
        return check("data", Grade::Fail, "no data directory: HOME is not set")
            .next("set HOLDPOINT_DATA_DIR");
    };
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let shown = dir.display().to_string();
    if !existing.is_dir() {
        return check("data", Grade::Fail, format!("{} is in the way of {shown}", existing.display()))
            .next("move it, or set HOLDPOINT_DATA_DIR");
    }
    match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
        Ok(()) if existing == dir => check("data", Grade::Ok, format!("{shown} is writable")),
        Ok(()) => check("data", Grade::Ok, format!("{shown} is made at the first start")),
        Err(error) => check("data", Grade::Fail, format!("{} is not writable ({error})", existing.display()))
            .next("give yourself the right, or set HOLDPOINT_DATA_DIR"),
    }
}

/// Whether the daemon's ledger takes what is to be kept, by the daemon's word.
fn ledger(found: &Found) -> Option<Check> {
    let ledger = said(found, &["/runtime/ledger"])?;
    let trouble = |key: &str| {
        let text = |field: &str| one_line(ledger[key][field].as_str().unwrap_or_default(), 200);
        ledger.get(key).map(|_| (text("since"), text("reason")))
    };
    Some(if let Some((since, reason)) = trouble("refusing") {
        let what = format!("refuses to commit since {since}: {reason}");
        check("ledger", Grade::Fail, what)
            .next("make room in the data directory, or make it writable; nothing is accepted until then")
    } else if let Some((since, reason)) = trouble("unreadable") {
        check("ledger", Grade::Fail, format!("cannot be read since {since}: {reason}"))
            .next("look into the daemon's log, and at the disk")
    } else {
        check("ledger", Grade::Ok, "takes what is to be kept")
    })
}

fn waiting(questions: &Result<Vec<QuestionView>, ClientError>) -> Check {
    match questions {
        Err(error) => check("inbox", Grade::Fail, error.to_string()),
        Ok(open) if open.is_empty() => check("inbox", Grade::Ok, "nothing waits for you"),
        Ok(open) => {
            let stuck = open.iter().filter(|view| !view.takes_answers()).count();
            let grade = if stuck > 0 { Grade::Warn } else { Grade::Ok };
            let mut text = if open.len() == 1 {
                "1 waits for you".to_owned()
            } else {
                format!("{} wait for you", open.len())
            };
            if stuck > 0 {
                let which = if stuck == open.len() { String::new() } else { format!("{stuck} of them ") };
                let verb = if stuck == 1 { "takes" } else { "take" };
                text.push_str(&format!(
                    "; {which}{verb} an answer only once the daemon runs with --restore-ask-user-question"
                ));
            }
            check("inbox", grade, text).next("holdpoint inbox")
        }
    }
}

fn report(checks: &[Check], paint: Paint) -> String {
    let mut text = String::new();
    for check in checks {
        let grade = match check.status {
            Grade::Ok => paint.green("ok  "),
            Grade::Warn => paint.yellow("warn"),
            Grade::Fail => paint.red("fail"),
        };
        text.push_str(&format!("{grade} {:<10} {}\n", check.name, one_line(&check.message, 300)));
        if let Some(next) = &check.next {
            text.push_str(&format!(
                "{}{}\n",
                " ".repeat(16),
                paint.dim(&format!("→ {}", one_line(next, 300)))
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests;
