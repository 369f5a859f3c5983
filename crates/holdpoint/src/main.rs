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
mod fake_daemon;
mod follow;
mod input;
mod logging;
mod picks;
mod render;
mod resolve;
mod serve;
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
        // Prints help and version to stdout (exit 0), everything else to stderr (exit 2).
        Err(error) => error.exit(),
    };
    match cli.command {
        // These two build their own runtimes.
        Command::Serve(args) => serve::run(args),
        Command::Acp(args) => acp::run(args),
        command => commands::run(&cli.common, command),
    }
}
