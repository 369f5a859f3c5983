//! `holdpoint open`.

use std::process::Stdio;

use serde_json::json;

use crate::cli::OpenArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

pub(crate) async fn run(settings: &Settings, args: OpenArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let login = settings.daemon()?.login_code().await?;
    let url = format!("{}{}", settings.url.trim_end_matches('/'), login.path);
    let opened = ui.interactive && !args.print && browse(&url);
    ui.line(&json!({
        "url": url, "opened": opened, "expiresInSeconds": login.expires_in_seconds,
    }));
    ui.block(&format!("{url}\n"));
    if let Some(seconds) = login.expires_in_seconds {
        ui.dim(&format!("logs one browser in, within {} minutes", seconds / 60));
    }
    Ok(Exit::Ok)
}

/// Hands an address to the system's browser; `false` where there is none.
fn browse(url: &str) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = std::process::Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
