//! The commands of the client.

mod answer;
mod attach;
mod cancel;
mod doctor;
mod inbox;
mod open;
mod prompt;
mod sessions;

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, Command, Common};
use crate::config::File;
use crate::connect::{Settings, env};
use crate::exit::{Exit, Failure, report};
use crate::follow::End;
use crate::render::{self, one_line};
use crate::ui::Ui;

/// Runs one command of the client on a small runtime of its own.
pub(crate) fn run(front: &Common, command: Command) -> ExitCode {
    let own = match &command {
        Command::Prompt(args) => args.common.clone(),
        Command::Inbox(args) => args.common.clone(),
        Command::Answer(args) => args.common.clone(),
        Command::Attach(args) => args.common.clone(),
        Command::Sessions(args) => args.common.clone(),
        Command::Cancel(args) => args.common.clone(),
        Command::Open(args) => args.common.clone(),
        Command::Doctor(args) => args.common.clone(),
        Command::Completions(args) => Common { json: args.json, ..Common::default() },
        Command::Serve(_) | Command::Acp(_) => Common::default(),
    };
    // A file that can't be read is the daemon's to refuse, and `doctor`'s to tell of.
    let listens = || File::read(None).ok().and_then(|file| file.serve.url());
    let settings = Settings::new(front, &own, env, listens);
    let failed = |failure: &Failure| {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        report(failure, settings.json, settings.colored(terminal))
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&Failure::new(Exit::Error, "runtime", error.to_string())),
    };
    match runtime.block_on(dispatch(&settings, command)) {
        Ok(exit) => exit.into(),
        Err(failure) => failed(&failure),
    }
}

/// Runs the command. One whose output could not be written has failed, whatever else it did.
async fn dispatch(settings: &Settings, command: Command) -> Result<Exit, Failure> {
    let mut ui = Ui::new(settings);
    let exit = perform(settings, command, &mut ui).await?;
    ui.written()?;
    Ok(exit)
}

async fn perform(settings: &Settings, command: Command, ui: &mut Ui) -> Result<Exit, Failure> {
    match command {
        Command::Prompt(args) => prompt::run(settings, args, ui).await,
        Command::Inbox(args) => inbox::run(settings, args, ui).await,
        Command::Answer(args) => answer::run(settings, args, ui).await,
        Command::Attach(args) => attach::run(settings, args, ui).await,
        Command::Sessions(args) => sessions::run(settings, args, ui).await,
        Command::Cancel(args) => cancel::run(settings, args, ui).await,
        Command::Doctor(_) => doctor::run(settings, ui).await,
        Command::Open(args) => open::run(settings, args, ui).await,
        Command::Completions(args) => {
            // Into memory first: the generator panics where a write fails.
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "holdpoint", &mut script);
            let script = String::from_utf8_lossy(&script);
            ui.line(&serde_json::json!({"shell": args.shell.to_string(), "script": script}));
            ui.block(&script);
            Ok(Exit::Ok)
        }
        Command::Serve(_) | Command::Acp(_) => {
            Err(Failure::new(Exit::Error, "internal", "this command has a runtime of its own"))
        }
    }
}

/// An absolute path, as the daemon wants it, without looking at links.
fn absolute(path: &Path) -> Result<String, Failure> {
    let path =
        std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let text = path.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!("{} is not valid UTF-8, and the daemon takes no other path", path.display()))
    })?;
    Ok(if text.len() > 1 { text.trim_end_matches('/').to_owned() } else { text })
}

/// Why a list of what is in a directory is empty, where the directory is none. One that is gone may still have
/// something, so this is asked only when there was nothing.
///
/// # Errors
/// There is no such directory.
fn is_there(settings: &Settings, cwd: &str) -> Result<(), Failure> {
    let what = match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => format!("{cwd} is no directory"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("there is no directory {cwd}"),
        // What may not be looked at may be there.
        Err(_) => return Ok(()),
    };
    let failure = Failure::new(Exit::Usage, "no_such_directory", what);
    Err(if settings.is_local() { failure } else { failure.hint("the path is one of the daemon's machine") })
}

/// Tells how following a turn ended, and gives the exit code.
fn ended(end: End, session: &str, ui: &mut Ui) -> Result<Exit, Failure> {
    ui.line(&crate::follow::end_line(&end));
    match end {
        End::Turn(end) => match end.stop_reason.as_str() {
            "end_turn" => Ok(Exit::Ok),
            "cancelled" => Err(Failure::new(Exit::Error, "cancelled", "the turn was cancelled")),
            other => {
                ui.note(&format!("the turn ended early: {}", one_line(other, 60)));
                Ok(Exit::Ok)
            }
        },
        End::Failed(error, waits) => {
            for view in &waits {
                ui.note(&format!("{}: {}", view.question_id, render::still_open(view)));
            }
            let code = error.code.as_deref().unwrap_or("turn_failed");
            let failure = Failure::new(Exit::Error, code, format!("the turn failed: {}", error.message));
            Err(failure.hint(format!(
                "`holdpoint attach {session}` shows what is stored; `holdpoint prompt --session {session}` goes on from there"
            )))
        }
        End::Waits(waits) => {
            for view in &waits {
                let text = format!("\n{}", render::question(view, false, ui.paint));
                ui.block(&text);
                later(std::slice::from_ref(view), ui);
            }
            Ok(Exit::Waits)
        }
        End::InputEnded(waits) => {
            later(&waits, ui);
            Ok(Exit::Waits)
        }
        End::Left(exit, waits) if waits.is_empty() => {
            ui.note(&format!(
                "left; the turn goes on: `holdpoint attach {session}` shows it, `holdpoint cancel {session}` ends it"
            ));
            Ok(exit)
        }
        End::Left(exit, waits) => {
            later(&waits, ui);
            Ok(exit)
        }
        End::Gone(reason) => {
            Err(Failure::new(Exit::Error, "session_gone", format!("the session was {reason}"))
                .hint(format!("`holdpoint attach {session}` loads it again")))
        }
        End::Missed => Err(Failure::new(
            Exit::Error,
            "turn_end_missed",
            "the turn ended while the daemon was away, and how is not on the stream",
        )
        .hint(format!("`holdpoint attach {session}` shows what is stored"))),
        End::Before => {
            ui.note(&format!("the turn has ended; `holdpoint attach {session}` shows it"));
            Ok(Exit::Ok)
        }
        End::Unread => Ok(Exit::Ok),
    }
}

/// Says how to answer what is left parked.
fn later(waits: &[holdpoint_client::QuestionView], ui: &mut Ui) {
    for view in waits {
        let text = render::parked(view, ui.paint);
        ui.block(&text);
    }
}
