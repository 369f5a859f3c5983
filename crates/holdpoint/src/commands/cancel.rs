//! `holdpoint cancel`.

use holdpoint_client::Refusal;
use serde_json::json;

use crate::cli::CancelArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::resolve;
use crate::ui::Ui;

pub(crate) async fn run(settings: &Settings, args: CancelArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let daemon = settings.daemon()?;
    let session = resolve::session(&daemon, &args.session).await?;
    if let Err(error) = daemon.cancel(&session).await {
        let absent = error.refusal() == Some(&Refusal::NotFound);
        let failure = Failure::from(error);
        return Err(if absent {
            failure.hint("a session that is not loaded runs nothing; `holdpoint sessions` shows which do")
        } else {
            failure
        });
    }
    ui.line(&json!({"cancelled": true, "sessionId": session}));
    ui.block(&format!("cancelled what ran in {session}, if anything did\n"));
    Ok(Exit::Ok)
}
