//! `holdpoint attach`.

use holdpoint_client::{Cursor, Filter, State};
use serde_json::json;

use super::later;
use crate::cli::AttachArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::follow::{End, Follow, Mode, Until, detach, end_line};
use crate::leave::Leave;
use crate::resolve;
use crate::ui::Ui;

pub(crate) async fn run(settings: &Settings, args: AttachArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let mut leave = Leave::listen()?;
    let daemon = settings.daemon()?;
    let session = leave.unless(resolve::session(&daemon, &args.session)).await?;
    // Of an attach whose answer nobody takes the daemon undoes the attaching itself.
    let attached = leave.unless(daemon.load(&session)).await?;
    let daemon = daemon.with_client_id(attached.client_id.clone());
    ui.line(&json!({"type": "session", "sessionId": session, "workspaceCwd": attached.workspace_cwd}));
    ui.dim(&format!("session {session} in {}; Ctrl-C detaches", attached.workspace_cwd));

    if let Some(problem) = &attached.replay_error {
        ui.note(&format!("the history below is not whole: {problem}"));
    }

    // A question that the load asks again is in the inbox already, live or not.
    let of_session = Filter { session: Some(session.clone()), ..Filter::all() };
    let questions = match leave.unless(daemon.all_questions(&of_session)).await {
        Ok(questions) => questions,
        Err(failure) => {
            detach(&daemon, &session, &mut leave).await;
            return Err(failure);
        }
    };
    let open = questions.iter().filter(|view| view.state == State::Open).cloned().collect();
    let mode = if ui.interactive && !args.no_input { Mode::Ask } else { Mode::Show };
    let from = Cursor::after(attached.last_event_id.unwrap_or(0), attached.event_epoch.clone());
    let events = daemon.events(&session, from);
    let mut follow = Follow::new(daemon, session.clone(), events, ui, leave, (mode, Until::Left));
    follow.knows(questions);
    for event in attached.compacted_replay.iter().chain(&attached.live_journal) {
        follow.show_past(event);
    }
    follow.show_open(open);
    let end = follow.run().await;
    follow.detach().await;
    let end = end?;
    ui.line(&end_line(&end));
    match end {
        End::Left(exit, waits) => {
            // Where questions are only shown, how to answer them is said with each.
            if mode == Mode::Ask {
                later(&waits, ui);
            }
            ui.note("detached");
            if exit != Exit::Interrupted {
                return Ok(exit);
            }
        }
        End::InputEnded(waits) => {
            later(&waits, ui);
            ui.note("detached");
        }
        End::Gone(reason) => ui.note(&format!("the session was {reason}")),
        End::Turn(_) | End::Failed(..) | End::Waits(_) | End::Missed | End::Before | End::Unread => {}
    }
    Ok(Exit::Ok)
}
