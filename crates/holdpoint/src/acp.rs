//! `holdpoint acp`: the built-in agent over stdio.

use std::process::ExitCode;

/// Options of `holdpoint acp` (also `holdpoint --acp`).
#[derive(Debug, clap::Args)]
pub(crate) struct AcpArgs {}

/// Runs the agent until its stdin ends. Builds its own runtime.
pub(crate) fn run(_args: AcpArgs) -> ExitCode {
    eprintln!("holdpoint acp: not wired in yet");
    ExitCode::FAILURE
}
