//! `holdpoint sessions`.

use jiff::Timestamp;
use serde_json::json;

use super::{absolute, is_there};
use crate::cli::SessionsArgs;
use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::render;
use crate::ui::Ui;

pub(crate) async fn run(settings: &Settings, args: SessionsArgs, ui: &mut Ui) -> Result<Exit, Failure> {
    let daemon = settings.daemon()?;
    let cwd = match &args.cwd {
        Some(cwd) => absolute(cwd)?,
        None => daemon.capabilities().await?.workspace_cwd.ok_or_else(|| {
            Failure::new(Exit::Error, "no_workspace", "the daemon does not say which workspace is its own")
                .hint("name one with --cwd DIR")
        })?,
    };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    let mut cursor: Option<String> = None;
    let more = loop {
        let size = u32::try_from(limit - rows.len()).unwrap_or(100).min(100);
        let page = daemon.sessions(&cwd, size, cursor.as_deref()).await?;
        let empty = page.sessions.is_empty();
        rows.extend(page.sessions);
        match page.next_cursor {
            None => break false,
            Some(_) if rows.len() >= limit => break true,
            Some(next) if empty || cursor.as_ref() == Some(&next) => break false,
            Some(next) => cursor = Some(next),
        }
    };
    rows.truncate(limit);
    if rows.is_empty() && args.cwd.is_some() {
        is_there(settings, &cwd)?;
    }
    ui.line(&json!({"sessions": rows, "more": more}));
    let text = render::sessions(&rows, more, Timestamp::now(), ui.width, ui.paint);
    ui.block(&text);
    Ok(Exit::Ok)
}
