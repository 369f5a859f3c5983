//! `holdpoint answer`.

use holdpoint_client::{Answer, AnswerRequest, Cursor, Daemon, QuestionView, State, new_response_id};
use serde_json::json;

use super::ended;
use crate::ask::{Asking, Step};
use crate::cli::AnswerArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::follow::{Follow, Mode, Until};
use crate::input::Input;
use crate::picks::{self, Given};
use crate::ui::Ui;
use crate::{render, resolve};

pub(crate) async fn run(settings: &Settings, args: AnswerArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let daemon = settings.daemon()?;
    let view = resolve::question(&daemon, &args.id).await?;
    let mut input = Input::terminal();
    let given = Given {
        picks: if args.picks.is_empty() { &args.options } else { &args.picks },
        text: args.text.as_deref(),
        answers: &args.answers,
        decline: args.decline,
    };
    let answer = match picks::given(&view, given).map_err(Failure::usage)? {
        Some(answer) => answer,
        None if ui.interactive && !args.no_input => {
            // Of one that has ended the daemon is asked how, rather than the person for nothing.
            if view.state == State::Open {
                // Only a note of the daemon's (D4).
                let _ = daemon.shown(&view).await;
                match ask(&view, &mut input, ui).await? {
                    Some(answer) => answer,
                    None => {
                        super::later(std::slice::from_ref(&view), ui);
                        return Ok(Exit::Interrupted);
                    }
                }
            } else {
                picks::decline(&view)
            }
        }
        None => {
            return Err(Failure::usage("an answer is missing, and there is no terminal to ask at")
                .hint(render::answer_command(&view)));
        }
    };
    let request = AnswerRequest {
        generation: view.generation,
        response_id: args.response_id.clone().unwrap_or_else(new_response_id),
        answer,
    };
    // One that has ended has no turn to wait for; the daemon says how it ended.
    if args.wait && view.state == State::Open {
        return wait(daemon, &view, &request, &args, input, ui).await;
    }
    let receipt = daemon.answer(&view.question_id, &request).await?;
    ui.line(&json!(receipt));
    let text = render::receipt(&receipt, &view, ui.paint);
    ui.block(&text);
    Ok(Exit::Ok)
}

/// Attaches first, so that nothing of the turn is missed; then answers; then follows.
async fn wait(
    daemon: Daemon,
    view: &QuestionView,
    request: &AnswerRequest,
    args: &AnswerArgs,
    input: Input,
    ui: &mut Ui,
) -> Result<Exit, Failure> {
    let session = view.session_id.clone();
    let attached = daemon.resume(&session).await?;
    let daemon = daemon.with_client_id(attached.client_id.clone());
    // A session that was live has a past on its stream, and ends of turns in it; one that was not begins now.
    let from = if attached.attached {
        Cursor::default()
    } else {
        Cursor::after(attached.last_event_id.unwrap_or(0), attached.event_epoch.clone())
    };
    let mut events = daemon.events(&session, from);
    events.connect().await?;
    let receipt = match daemon.answer(&view.question_id, request).await {
        Ok(receipt) => receipt,
        Err(error) => {
            let _ = daemon.detach(&session).await;
            return Err(error.into());
        }
    };
    ui.line(&json!({"type": "receipt", "receipt": receipt}));
    let text = render::receipt(&receipt, view, ui.paint);
    ui.block(&text);
    let mode = if ui.interactive && !args.no_input { Mode::Ask } else { Mode::Park };
    let mut follow = Follow::new(daemon, session.clone(), events, ui, mode, Until::AnyTurn).with_input(input);
    follow.answered(&view.question_id);
    let end = follow.run().await;
    follow.detach().await;
    ended(end?, session.as_str(), ui)
}

/// Asks at the terminal. `None`: the person left it.
async fn ask(view: &QuestionView, input: &mut Input, ui: &mut Ui) -> Result<Option<Answer>, Failure> {
    let text = render::question(view, true, ui.paint);
    ui.block(&text);
    let mut asking = Asking::new(view.clone());
    input.forget();
    loop {
        let mark = asking.mark(ui.paint);
        ui.input_mark(&mark);
        let line = tokio::select! {
            line = input.next() => line,
            _ = tokio::signal::ctrl_c() => None,
        };
        let Some(line) = line else {
            ui.end_line();
            return Ok(None);
        };
        ui.typed();
        match asking.take(&line) {
            Step::Again(problem) => ui.note(&problem),
            Step::Next => {}
            Step::Done(answer) => return Ok(Some(answer)),
        }
    }
}
