//! Development tasks: `cargo xtask TASK`.

mod simulation;

use std::process::ExitCode;

use holdpoint_xtask::{rules, tidy};

const USAGE: &str = "usage: cargo xtask TASK\n  \
    tidy                            check what lints cannot say\n  \
    rules                           list each rule id and the tests that carry it\n  \
    sim [--seeds N | --minutes N] [--from SEED | --from now]\n  \
    \u{20}                               run the simulation; prints each violation with its seed\n  \
    sim --trace SEED                run one seed, and print what happened";

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    match task.as_deref() {
        Some("tidy") => {
            let problems = tidy::check(&holdpoint_xtask::root());
            for problem in &problems {
                eprintln!("{problem}");
            }
            if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Some("rules") => {
            for (rule, tests) in rules::tests_by_rule(&holdpoint_xtask::root()) {
                println!("{rule}: {}", tests.join(", "));
            }
            ExitCode::SUCCESS
        }
        Some("sim") => simulation::run(std::env::args().skip(2)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
