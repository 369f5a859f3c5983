//! `holdpoint inbox`.

use holdpoint_client::Filter;
use jiff::Timestamp;
use serde_json::json;

use super::{absolute, is_there};
use crate::cli::InboxArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::ui::Ui;
use crate::{render, resolve};

pub(crate) async fn run(settings: &Settings, args: InboxArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let daemon = settings.daemon()?;
    if let Some(id) = &args.id {
        let view = resolve::question(&daemon, id).await?;
        // The list has no outcome; the question itself does.
        let view = daemon.question(&view.question_id).await.unwrap_or(view);
        let page = format!("{}/q/{}", daemon.url(), view.question_id);
        let mut row = json!(view);
        row["page"] = json!(page);
        ui.line(&row);
        let age = render::age(view.asked_at.as_deref(), Timestamp::now());
        let text = render::whole(&view, &age, &page, ui.paint);
        ui.block(&text);
        return Ok(Exit::Ok);
    }
    let session = match &args.session {
        Some(session) => Some(resolve::session(&daemon, session).await?),
        None => None,
    };
    let cwd = args.cwd.as_deref().map(absolute).transpose()?;
    let filter = Filter { session, cwd: cwd.clone(), ..Filter::open() };
    let mut questions = daemon.all_questions(&filter).await?;
    if let (Some(cwd), true) = (&cwd, questions.is_empty()) {
        is_there(settings, cwd)?;
    }
    // Stable: questions without a readable time keep the daemon's order, at the end.
    questions.sort_by_key(|view| {
        let at = view.asked_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        (at.is_none(), at)
    });
    ui.line(&json!({ "questions": questions }));
    let text = render::inbox(&questions, Timestamp::now(), ui.width, ui.paint);
    ui.block(&text);
    Ok(Exit::Ok)
}
