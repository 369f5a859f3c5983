//! `holdpoint answer`.

use holdpoint_client::{
    Answer, AnswerRequest, Cursor, Daemon, QuestionView, Receipt, ReceiptStatus, Refusal, State,
    new_response_id,
};
use serde_json::json;

use super::ended;
use crate::ask::{Asking, Step};
use crate::cli::AnswerArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure, has_ended};
use crate::follow::{Follow, Mode, Until, detach};
use crate::input::Input;
use crate::leave::Leave;
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
    let ended = has_ended(&view);
    let given = picks::given(&view, given);
    let answer = match (given, ended) {
        (Ok(Some(answer)), _) => answer,
        // Whatever was, or would be, typed for it: there is nothing to answer any more.
        (_, Some(ended)) => return Err(ended),
        (Err(problem), None) => return Err(Failure::usage(problem)),
        // Whatever is typed for it would be refused.
        (Ok(None), None) if !view.takes_answers() => {
            let why = format!("{}: {}", view.question_id, render::takes_none());
            return Err(Failure::new(Exit::Refused, "restore_disabled", why).hint(render::next_step(&view)));
        }
        (Ok(None), None) if ui.interactive && !args.no_input => {
            // Only a note of the daemon's (D4).
            let _ = daemon.shown(&view).await;
            match ask(&view, &mut input, ui).await? {
                Some(answer) => answer,
                None => {
                    super::later(std::slice::from_ref(&view), ui);
                    return Ok(Exit::Interrupted);
                }
            }
        }
        (Ok(None), None) => {
            return Err(Failure::usage("an answer is missing, and there is no terminal to ask at")
                .hint(render::answer_command(&view)));
        }
    };
    let request = AnswerRequest {
        generation: view.generation,
        response_id: args.response_id.clone().unwrap_or_else(new_response_id),
        answer,
    };
    if args.wait {
        return wait(daemon, &view, &request, &args, input, ui).await;
    }
    let receipt = daemon.answer(&view.question_id, &request).await?;
    ui.line(&json!(receipt));
    let text = render::receipt(&receipt, &view, ui.paint);
    ui.block(&text);
    Ok(Exit::Ok)
}

/// Attaches and answers, and follows the turn to its end.
async fn wait(
    daemon: Daemon,
    view: &QuestionView,
    request: &AnswerRequest,
    args: &AnswerArgs,
    input: Input,
    ui: &mut Ui,
) -> Result<Exit, Failure> {
    let session = view.session_id.clone();
    // One that has ended takes only a repeat of the answer that it has; for all else its session is left alone. And a
    // session that is asleep is woken by the answer itself: then the turn that asked goes on, whatever else of it was
    // cut off, and everything on the stream is of this life.
    let asleep = view.state == State::Open
        && !view.live
        && daemon.status(&session).await.is_err_and(|error| error.refusal() == Some(&Refusal::NotFound));
    let early = if view.state == State::Open && !asleep {
        None
    } else {
        let receipt = daemon.answer(&view.question_id, request).await?;
        tell(&receipt, view, ui);
        Some(receipt)
    };
    let mut leave = Leave::listen()?;
    // Attached before it answers, so that nothing of the turn is missed.
    let attached = leave.unless(daemon.resume(&session)).await?;
    let daemon = daemon.with_client_id(attached.client_id.clone());
    // A session that was live has a past on its stream, and ends of turns in it; one that was not begins now.
    let from = if asleep {
        Cursor::after(0, attached.event_epoch.clone())
    } else if attached.attached {
        Cursor::default()
    } else {
        Cursor::after(attached.last_event_id.unwrap_or(0), attached.event_epoch.clone())
    };
    let mut events = daemon.events(&session, from);
    let answered = leave.unless(async {
        events.connect().await?;
        match early {
            Some(receipt) => Ok((receipt, false)),
            None => daemon.answer(&view.question_id, request).await.map(|receipt| (receipt, true)),
        }
    });
    let receipt = match answered.await {
        Ok((receipt, is_new)) => {
            if is_new {
                tell(&receipt, view, ui);
            }
            receipt
        }
        Err(failure) => {
            detach(&daemon, &session, &mut leave).await;
            return Err(failure);
        }
    };
    let mode = if ui.interactive && !args.no_input { Mode::Ask } else { Mode::Park };
    let mut follow =
        Follow::new(daemon, session.clone(), events, ui, leave, (mode, Until::AnyTurn)).with_input(input);
    follow.answered(&view.question_id);
    // A vote that does not decide leaves the question open, and its turn waiting.
    let looked = if receipt.status == ReceiptStatus::Recorded { Ok(()) } else { follow.may_be_over().await };
    let end = match looked {
        Ok(()) => follow.run().await,
        Err(failure) => Err(failure),
    };
    follow.detach().await;
    ended(end?, session.as_str(), ui)
}

fn tell(receipt: &Receipt, view: &QuestionView, ui: &mut Ui) {
    ui.line(&json!({"type": "receipt", "receipt": receipt}));
    let text = render::receipt(receipt, view, ui.paint);
    ui.block(&text);
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
