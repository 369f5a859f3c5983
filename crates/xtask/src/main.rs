//! Development tasks: `cargo run -p holdpoint-xtask -- TASK`.

use std::process::ExitCode;

use holdpoint_xtask::{rules, tidy};

const USAGE: &str = "usage: holdpoint-xtask tidy | rules\n  \
    tidy   check what lints cannot say\n  \
    rules  list each rule id and the tests that carry it";

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
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
