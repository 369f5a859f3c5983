//! The report as people see it.

use holdpoint_client::Capabilities;

use super::*;
use crate::cli::Common;
use crate::render::samples::colour;

fn settings() -> Settings {
    Settings::new(&Common::default(), &Common::default(), |_| None, || None)
}

fn machine() -> Machine {
    Machine { data_dir: Some("/".into()), model: Vec::new(), file: None }
}

fn say(found: &Found) -> String {
    report(&checks(&settings(), found, &machine()), Paint::new(false))
}

#[test]
fn without_a_daemon() {
    let found = Found {
        health: Err(ClientError::Unreachable {
            url: "http://127.0.0.1:4170".into(),
            reason: "Connection refused".into(),
        }),
        capabilities: None,
        status: Value::Null,
        questions: None,
    };
    insta::assert_snapshot!(say(&found), @"
    fail daemon     no daemon answers at http://127.0.0.1:4170 (Connection refused)
                    → start one: holdpoint serve --restore-ask-user-question (or name another: --url, HOLDPOINT_URL)
    warn model      none in this environment: a daemon started here uses the scripted demo model
                    → start the daemon with --model NAME and --base-url URL, and the key in OPENAI_API_KEY (or ANTHROPIC_API_KEY, GEMINI_API_KEY)
    ok   data       / is writable
    ");
}

#[test]
fn with_a_daemon_in_order() {
    let mut stuck = colour(false);
    (stuck.restorable, stuck.answerable) = (Some(false), Some(false));
    let found = Found {
        health: Ok(json!({"status": "ok"})),
        capabilities: Some(Ok(Capabilities {
            features: vec!["durable_questions".into()],
            ..Capabilities::default()
        })),
        status: json!({"daemon": {"holdpointVersion": env!("CARGO_PKG_VERSION"), "restoreAskUserQuestion": true,
            "model": "gpt-x", "dataDir": "/"}, "issues": [{"code": "restore_disabled", "severity": "info", "message": "x"}, {"code": "unshown_question", "severity": "warning", "message": "shown nowhere"},
            {"code": "undelivered_answers", "severity": "warning", "message": "answers wait for their agent", "count": 2},
            {"code": "something_new", "severity": "info", "message": "3 things to know", "count": 3}]}),
        questions: Some(Ok(vec![colour(false), stuck])),
    };
    let text = say(&found).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(text, @"
    ok   daemon     answers at http://127.0.0.1:4170
    ok   token      none needed
    ok   version    VERSION, as this program
    ok   questions  kept on disk, and asked again after a restart
    ok   model      gpt-x
    ok   data       / is writable
    warn inbox      2 wait for you; 1 of them takes an answer only once the daemon runs with --restore-ask-user-question
                    → holdpoint inbox
    warn daemon says shown nowhere (unshown_question)
    warn daemon says answers wait for their agent (undelivered_answers, 2 of them)
                    → holdpoint sessions, then holdpoint attach SESSION: a session that is loaded gets its answers
    ok   daemon says 3 things to know (something_new)
    ");
}

#[test]
fn i1_with_a_ledger_that_refuses() {
    let say_of = |ledger: Value| {
        let found = Found {
            health: Ok(json!({"status": "ok"})),
            capabilities: None,
            status: json!({"daemon": {"model": "gpt-x", "dataDir": "/"}, "runtime": {"ledger": ledger},
                "issues": [{"code": "ledger_unavailable", "severity": "error", "message": "the same at length"}]}),
            questions: None,
        };
        let text = say(&found);
        text.lines().skip_while(|line| !line.contains(" ledger ")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(say_of(json!({"state": "ok"})), @"ok   ledger     takes what is to be kept");
    let trouble =
        json!({"since": "2026-01-02T03:04:05.000Z", "reason": "database or disk is full", "count": 3});
    insta::assert_snapshot!(say_of(json!({"state": "failing", "refusing": trouble})), @"
    fail ledger     refuses to commit since 2026-01-02T03:04:05.000Z: database or disk is full
                    → make room in the data directory, or make it writable; nothing is accepted until then
    ");
    insta::assert_snapshot!(say_of(json!({"state": "degraded", "unreadable": trouble})), @"
    fail ledger     cannot be read since 2026-01-02T03:04:05.000Z: database or disk is full
                    → look into the daemon's log, and at the disk
    ");
}

#[test]
fn a_file_that_no_daemon_starts_with_is_told() {
    let found = Found { health: Ok(json!({})), capabilities: None, status: Value::Null, questions: None };
    let problem = Some("in holdpoint.toml: unknown field `prot`".to_owned());
    let machine = Machine { file: Some(("holdpoint.toml".into(), problem)), ..machine() };
    let text = report(&checks(&settings(), &found, &machine), Paint::new(false));
    assert!(text.contains("fail config     in holdpoint.toml: unknown field `prot`\n"), "{text}");
}

#[test]
fn with_a_daemon_that_lacks_things() {
    let unauthorized = holdpoint_client::ApiError {
        status: 401,
        code: None,
        message: "the daemon wants a token, and none was given".into(),
        retry_after: None,
        refusal: Refusal::Unauthorized { sent: false },
        details: serde_json::Map::new(),
    };
    let found = Found {
        health: Ok(json!({})),
        capabilities: Some(Err(Box::new(unauthorized).into())),
        status: Value::Null,
        questions: None,
    };
    insta::assert_snapshot!(say(&found), @"
    ok   daemon     answers at http://127.0.0.1:4170
    fail token      the daemon wants a token, and none was given
                    → give the token that the daemon was started with: --token, HOLDPOINT_TOKEN or QWEN_SERVER_TOKEN
    warn model      none in this environment: a daemon started here uses the scripted demo model
                    → start the daemon with --model NAME and --base-url URL, and the key in OPENAI_API_KEY (or ANTHROPIC_API_KEY, GEMINI_API_KEY)
    ok   data       / is writable
    ");
    let found = Found {
        health: Ok(json!({})),
        capabilities: Some(Ok(Capabilities {
            features: vec!["durable_questions".into()],
            ..Capabilities::default()
        })),
        status: json!({"daemon": {"restoreAskUserQuestion": false, "model": {"name": "holdpoint-demo"}, "version": "0.0.1"}}),
        questions: Some(Ok(Vec::new())),
    };
    insta::assert_snapshot!(say(&found).replace(env!("CARGO_PKG_VERSION"), "VERSION"), @"
    ok   daemon     answers at http://127.0.0.1:4170
    ok   token      none needed
    warn version    the daemon is 0.0.1, this program VERSION
                    → use the same version for both
    warn questions  kept on disk, but the daemon runs without --restore-ask-user-question: after a restart they are not asked again, and take no answer
                    → stop the daemon, and start it with --restore-ask-user-question
    warn model      the scripted one (holdpoint-demo)
                    → start the daemon with --model NAME and --base-url URL, and the key in OPENAI_API_KEY (or ANTHROPIC_API_KEY, GEMINI_API_KEY)
    ok   data       / is writable
    ok   inbox      nothing waits for you
    ");
}
