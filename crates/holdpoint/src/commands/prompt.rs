//! `holdpoint prompt`.

use std::io::{IsTerminal as _, Read as _};

use holdpoint_client::{Cursor, Filter, NewSession};
use serde_json::json;

use super::{absolute, ended};
use crate::cli::PromptArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::follow::{Follow, Mode, Until};
use crate::resolve;
use crate::ui::Ui;

/// Longest prompt that is read from stdin, in bytes: a body has 10 MB, and JSON makes text longer.
const LONGEST: u64 = 4 * 1024 * 1024;

pub(crate) async fn run(settings: &Settings, args: PromptArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let text = text(&args.text)?;
    let daemon = settings.daemon()?;
    let attached = match &args.session {
        Some(session) => {
            let session = resolve::session(&daemon, session).await?;
            daemon.resume(&session).await?
        }
        None => {
            let cwd = args.cwd.as_deref().map(absolute).transpose()?;
            daemon.create(&NewSession { cwd, ..NewSession::thread() }).await?
        }
    };
    let session = attached.session_id.clone();
    let daemon = daemon.with_client_id(attached.client_id.clone());
    let accepted = daemon.prompt(&session, &text).await?;
    ui.line(&json!({"type": "session", "sessionId": session, "promptId": accepted.prompt_id,
        "workspaceCwd": attached.workspace_cwd}));
    ui.dim(&format!("session {session} in {}", attached.workspace_cwd));

    let mode = if ui.interactive && !args.no_input { Mode::Ask } else { Mode::Park };
    // What the session already waits for was asked before this cursor, and the prompt waits behind it.
    let open = if attached.has_active_prompt {
        let filter = Filter { session: Some(session.clone()), ..Filter::open() };
        daemon.all_questions(&filter).await?
    } else {
        Vec::new()
    };
    if !open.is_empty() {
        ui.note("the session waits for a decision; the prompt is queued behind it");
    }
    let from = Cursor::after(accepted.last_event_id, accepted.event_epoch);
    let events = daemon.events(&session, from);
    let mut follow =
        Follow::new(daemon, session.clone(), events, ui, mode, Until::Prompt(accepted.prompt_id));
    follow.show_open(open);
    let end = follow.run().await;
    follow.detach().await;
    ended(end?, session.as_str(), ui)
}

fn text(words: &[String]) -> Result<String, Failure> {
    let piped = !std::io::stdin().is_terminal();
    let text = match words {
        [dash] if dash == "-" => stdin()?,
        [] if piped => stdin()?,
        [] => String::new(),
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("there is nothing to do: give a TEXT, or pipe one in")
            .hint("holdpoint prompt \"add a changelog\""));
    }
    Ok(text)
}

fn stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(Exit::Error, "stdin", format!("stdin can't be read: {error}")))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::usage(format!("the prompt on stdin is longer than {LONGEST} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage("the prompt on stdin is not valid UTF-8"))
}
