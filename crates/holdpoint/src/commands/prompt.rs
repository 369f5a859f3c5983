//! `holdpoint prompt`.

use std::io::{IsTerminal as _, Read as _};

use holdpoint_client::{Attached, ClientError, Cursor, Daemon, Filter, NewSession, QuestionView};
use serde_json::json;

use super::{absolute, ended};
use crate::cli::PromptArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::follow::{Follow, Mode, Until, detach};
use crate::input::Input;
use crate::leave::Leave;
use crate::render::{self, one_line};
use crate::resolve;
use crate::ui::Ui;

/// Longest prompt that is read from stdin, in bytes: a body has 10 MB, and JSON makes text longer.
const LONGEST: u64 = 4 * 1024 * 1024;

pub(crate) async fn run(settings: &Settings, args: PromptArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let text = text(&args.text)?;
    let mut leave = Leave::listen()?;
    let daemon = settings.daemon()?;
    // Of an attach whose answer nobody takes the daemon undoes the attaching itself.
    let attached = leave.unless(attach(&daemon, &args)).await?;
    let session = attached.session_id.clone();
    let daemon = daemon.with_client_id(attached.client_id.clone());
    let mut input = Input::terminal();
    let mode = if ui.interactive && !args.no_input { Mode::Ask } else { Mode::Park };
    let sent = leave.unless(async {
        let open = open(&daemon, &attached, &args).await?;
        // While a turn runs or waits the prompt goes behind it, and behind what it asks.
        let unasked: Vec<_> = open.iter().filter(|view| !view.live).cloned().collect();
        if !attached.has_active_prompt
            && !unasked.is_empty()
            && !may_close(&unasked, args.close_question, mode, &mut input, ui).await?
        {
            return Ok(None);
        }
        let accepted = daemon.prompt(&session, &text).await?;
        Ok::<_, Failure>(Some((accepted, open)))
    });
    let (accepted, open) = match sent.await {
        Ok(Some(sent)) => sent,
        left => {
            detach(&daemon, &session, &mut leave).await;
            return left.map(|_| Exit::Waits);
        }
    };
    ui.line(&json!({"type": "session", "sessionId": session, "promptId": accepted.prompt_id,
        "workspaceCwd": attached.workspace_cwd}));
    ui.dim(&format!("session {session} in {}", attached.workspace_cwd));

    let from = Cursor::after(accepted.last_event_id, accepted.event_epoch);
    let events = daemon.events(&session, from);
    let until = Until::Prompt(accepted.prompt_id);
    let mut follow = Follow::new(daemon, session.clone(), events, ui, leave, (mode, until)).with_input(input);
    // What the session already waits for was asked before this cursor, and the prompt waits behind it.
    let first: Vec<_> = open.into_iter().filter(|view| view.live || attached.has_active_prompt).collect();
    if !first.is_empty() {
        follow.waits_first(first);
    }
    let end = follow.run().await;
    follow.detach().await;
    ended(end?, session.as_str(), ui)
}

async fn attach(daemon: &Daemon, args: &PromptArgs) -> Result<Attached, Failure> {
    match &args.session {
        Some(session) => {
            let session = resolve::session(daemon, session).await?;
            Ok(daemon.resume(&session).await?)
        }
        None => {
            let cwd = args.cwd.as_deref().map(absolute).transpose()?;
            Ok(daemon.create(&NewSession { cwd, ..NewSession::thread() }).await?)
        }
    }
}

/// What waits in the session that the prompt is for. One that was just made waits for nothing.
async fn open(
    daemon: &Daemon,
    attached: &Attached,
    args: &PromptArgs,
) -> Result<Vec<QuestionView>, ClientError> {
    if args.session.is_none() {
        return Ok(Vec::new());
    }
    let filter = Filter { session: Some(attached.session_id.clone()), ..Filter::open() };
    daemon.all_questions(&filter).await
}

/// The session has questions that nobody asks, with the resume neither: the prompt would go before them, and they
/// would be closed without an answer. Nobody's question ends so before a person was told.
///
/// # Errors
/// There is nobody to ask, and the command line does not say that it may be.
async fn may_close(
    open: &[QuestionView],
    told: bool,
    mode: Mode,
    input: &mut Input,
    ui: &mut Ui,
) -> Result<bool, Failure> {
    if told {
        for view in open {
            let title = one_line(&view.title, 120);
            ui.note(&format!(
                "{} ({title}) is closed without an answer: the prompt goes before it",
                view.question_id
            ));
        }
        return Ok(true);
    }
    let what = "nobody asks what waits in this session, and the prompt would close it without an answer";
    if mode != Mode::Ask {
        let mut failure = Failure::new(Exit::Waits, "question_waits", format!("nothing was sent: {what}"));
        let ids: Vec<&str> = open.iter().map(|view| view.question_id.as_str()).collect();
        failure.details.insert("waits".to_owned(), json!(ids));
        for view in open {
            failure.facts.push(format!("{}: {}", view.question_id, one_line(&view.title, 200)));
            if !view.takes_answers() {
                failure.facts.push(render::takes_none());
            }
            failure = failure.hint(render::next_step(view));
        }
        return Err(failure.hint("or send the prompt all the same, with --close-question"));
    }
    for view in open {
        let text = format!("\n{}{}", render::question(view, false, ui.paint), render::parked(view, ui.paint));
        ui.block(&text);
    }
    ui.note(what);
    input.forget();
    ui.input_mark("send it all the same? [y/N] ");
    let line = input.next().await;
    ui.typed();
    let yes = line.is_some_and(|line| matches!(line.trim().to_lowercase().as_str(), "y" | "yes"));
    if !yes {
        ui.note("nothing was sent");
    }
    Ok(yes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples::unanswerable;
    use crate::ui::fake::ui;

    #[tokio::test]
    async fn r2_a_person_is_asked_before_a_prompt_closes_a_question() {
        for (typed, sent) in
            [(Some("y"), true), (Some(" Yes "), true), (Some("n"), false), (Some(""), false), (None, false)]
        {
            let (keys, lines) = tokio::sync::mpsc::channel(1);
            let mut input = Input::from_lines(lines);
            let (mut ui, screen) = ui(false, true);
            let person = async {
                while !screen.text().contains("[y/N] ") {
                    tokio::task::yield_now().await;
                }
                if let Some(typed) = typed {
                    keys.send((tokio::time::Instant::now(), typed.to_owned())).await.unwrap();
                }
                drop(keys);
            };
            let open = [unanswerable()];
            let (may, ()) = tokio::join!(may_close(&open, false, Mode::Ask, &mut input, &mut ui), person);
            assert_eq!(may, Ok(sent), "{typed:?}");
            assert_eq!(screen.text().contains("nothing was sent"), !sent);
            if typed == Some("n") {
                insta::assert_snapshot!(screen.text(), @"

                ? Colour: Which colour should the header have?
                    1  Red        warm and loud
                    2  Pale blue  cold and calm
                q_01abcdef0123 waits; it takes no answer now: nobody asks it, and the daemon runs without --restore-ask-user-question
                stop the daemon, and start it with --restore-ask-user-question, then
                  holdpoint answer q_01abcdef0123 <number or label>
                nobody asks what waits in this session, and the prompt would close it without an answer
                send it all the same? [y/N] nothing was sent
                ");
            }
        }
    }
}
