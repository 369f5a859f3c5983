//! `holdpoint attach`.

use holdpoint_client::{Cursor, Filter};
use serde_json::json;

use super::later;
use crate::cli::AttachArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::follow::{End, Follow, Mode, Until, end_line};
use crate::resolve;
use crate::ui::Ui;

pub(crate) async fn run(settings: &Settings, args: AttachArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let daemon = settings.daemon()?;
    let session = resolve::session(&daemon, &args.session).await?;
    let attached = daemon.load(&session).await?;
    let daemon = daemon.with_client_id(attached.client_id.clone());
    ui.line(&json!({"type": "session", "sessionId": session, "workspaceCwd": attached.workspace_cwd}));
    ui.dim(&format!("session {session} in {}; Ctrl-C detaches", attached.workspace_cwd));

    if let Some(problem) = &attached.replay_error {
        ui.note(&format!("the history below is not whole: {problem}"));
    }

    // A question that the load asks again is in the inbox already, live or not.
    let filter = Filter { session: Some(session.clone()), ..Filter::open() };
    let open = daemon.all_questions(&filter).await?;
    let mode = if ui.interactive && !args.no_input { Mode::Ask } else { Mode::Show };
    let from = Cursor::after(attached.last_event_id.unwrap_or(0), attached.event_epoch.clone());
    let events = daemon.events(&session, from);
    let mut follow = Follow::new(daemon, session.clone(), events, ui, mode, Until::Left);
    for event in attached.compacted_replay.iter().chain(&attached.live_journal) {
        follow.show_past(event);
    }
    follow.show_open(open);
    let end = follow.run().await;
    follow.detach().await;
    let end = end?;
    ui.line(&end_line(&end));
    match end {
        End::Interrupted(waits) | End::InputEnded(waits) => {
            later(&waits, ui);
            ui.note("detached");
        }
        End::Gone(reason) => ui.note(&format!("the session was {reason}")),
        End::Turn(_) | End::Failed(..) | End::Waits(_) | End::Missed | End::Before | End::Unread => {}
    }
    Ok(Exit::Ok)
}
