//! `holdpoint serve`: the daemon.

use std::process::ExitCode;

/// Options of `holdpoint serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {}

/// Runs the daemon until it is told to stop. Builds its own runtime.
pub(crate) fn run(_args: ServeArgs) -> ExitCode {
    eprintln!("holdpoint serve: not wired in yet");
    ExitCode::FAILURE
}
