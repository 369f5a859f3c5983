//! The binary: arguments, and which part of the program they start.

mod acp;
mod argv;
mod ask;
mod cli;
mod commands;
mod config;
mod connect;
mod exit;
#[cfg(test)]
#[expect(dead_code, reason = "the tests that run the binary use the rest of it")]
mod fake_daemon;
mod follow;
mod input;
mod leave;
mod logging;
mod menu;
mod near;
mod picks;
mod render;
mod resolve;
mod serve;
mod signals;
mod ui;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::exit::Failure;

fn main() -> ExitCode {
    let args = argv::rewrite(std::env::args_os());
    let json = argv::wants_json(&args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) if json && error.use_stderr() => {
            return exit::report(&Failure::usage(error.render().to_string().trim_end()), true, false);
        }
        // Help and version go to stdout (exit 0), everything else to stderr (exit 2).
        Err(error) => return told(&error, json),
    };
    if let (Command::Serve(_) | Command::Acp(_), Some(option)) = (&cli.command, cli.common.given()) {
        // Taken in silence, a token in front would leave the daemon without one.
        let failure = Failure::usage(format!(
            "{option} before the name of a command is not for `serve` and `acp`"
        ))
        .hint("`holdpoint serve --help` and `holdpoint acp --help` say what they take, after their name");
        return exit::report(&failure, json, false);
    }
    match cli.command {
        // These two build their own runtimes.
        Command::Serve(args) => serve::run(args),
        Command::Acp(args) => acp::run(args),
        command => commands::run(&cli.common, command),
    }
}

/// Writes what the parser of the arguments has to say. Help that can't be written is a failure like any other.
fn told(error: &clap::Error, json: bool) -> ExitCode {
    use std::io::{IsTerminal as _, Write as _};
    if error.use_stderr() {
        // Without a stderr there is nobody to tell.
        let _ = error.print();
        return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    let mut stdout = std::io::stdout().lock();
    let color = stdout.is_terminal() && connect::env("NO_COLOR").is_none();
    let text = if color { error.render().ansi().to_string() } else { error.render().to_string() };
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => match ui::unwritten(&problem, None) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => exit::report(&failure, json, false),
        },
    }
}
