//! `cargo xtask sim`: long runs of the simulation.

use std::process::ExitCode;

/// Seeds between two lines that say how far it is.
const REPORT: u64 = 1000;

/// Runs as the arguments say.
pub(crate) fn run(args: impl Iterator<Item = String>) -> ExitCode {
    let args: Vec<String> = args.collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    if let Some(seed) = value("--trace") {
        return trace(seed);
    }
    let from = value("--from").unwrap_or(0);
    let seeds = value("--seeds").unwrap_or(1000);
    let (mut failed, mut asked, mut acknowledged, mut lives) = (0, 0, 0, 0);
    for seed in from..from + seeds {
        let outcome = holdpoint_sim::run(seed);
        for violation in &outcome.violations {
            println!("seed {seed}: {violation}");
        }
        failed += u64::from(!outcome.violations.is_empty());
        asked += outcome.counts.0;
        acknowledged += outcome.counts.1;
        lives += outcome.counts.2;
        if (seed - from + 1).is_multiple_of(REPORT) {
            eprintln!("{} seeds, {failed} with violations", seed - from + 1);
        }
    }
    println!(
        "{seeds} seeds: {lives} lives of the daemon, {asked} questions, {acknowledged} acknowledged answers; {failed} \
         seeds with violations"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trace(seed: u64) -> ExitCode {
    let outcome = holdpoint_sim::run(seed);
    for line in &outcome.trace {
        println!("{line}");
    }
    for violation in &outcome.violations {
        println!("VIOLATION {violation}");
    }
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
