//! `holdpoint cancel`.

use holdpoint_client::{ClientError, Refusal};
use serde_json::json;

use crate::cli::CancelArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::resolve;
use crate::ui::Ui;

pub(crate) async fn run(settings: &Settings, args: CancelArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let daemon = settings.daemon()?;
    let session = resolve::session(&daemon, &args.session).await?;
    // The answer to a cancel says nothing; what there was to cancel is known before it.
    let ran = async {
        let status = daemon.status(&session).await?;
        daemon.cancel(&session).await?;
        Ok::<_, ClientError>(status)
    };
    let status = ran.await.map_err(|error| {
        let absent = error.refusal() == Some(&Refusal::NotFound);
        let failure = Failure::from(error);
        if absent {
            failure.hint("a session that is not loaded runs nothing; `holdpoint sessions` shows which do")
        } else {
            failure
        }
    })?;
    let waited = status.is_waiting_for_user_question || status.is_waiting_for_permission;
    ui.line(&json!({"sessionId": session, "cancelled": status.has_active_prompt, "waited": waited}));
    ui.block(&match (status.has_active_prompt, waited) {
        (true, true) => format!("cancelled the turn of {session}, which waited for a person\n"),
        (true, false) => format!("cancelled the turn that ran in {session}\n"),
        (false, _) => format!("nothing ran in {session}, and nothing is cancelled\n"),
    });
    Ok(Exit::Ok)
}
