//! `cargo xtask sim`: long runs of the simulation.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdpoint_sim::Counts;

/// Time between two lines that say how far it is.
const REPORT: Duration = Duration::from_secs(30);

/// How long to run, and from where.
struct Plan {
    from: u64,
    seeds: u64,
    until: Option<Instant>,
}

/// Runs as the arguments say.
pub(crate) fn run(args: impl Iterator<Item = String>) -> ExitCode {
    let args: Vec<String> = args.collect();
    match plan(&args) {
        Ok(What::Trace(seed)) => trace(seed),
        Ok(What::Run(plan)) => long(&plan),
        Err(problem) => {
            eprintln!("cargo xtask sim: {problem}");
            ExitCode::from(2)
        }
    }
}

enum What {
    Trace(u64),
    Run(Plan),
}

fn plan(args: &[String]) -> Result<What, String> {
    let mut plan = Plan { from: 0, seeds: 1000, until: None };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: that is no number"));
        match name.as_str() {
            "--trace" => return Ok(What::Trace(number()?)),
            "--seeds" => plan.seeds = number()?,
            // Another part of the seeds each time, and said, so that it can be run again.
            "--from" if value == "now" => plan.from = today(),
            "--from" => plan.from = number()?,
            "--minutes" => {
                plan.until = Some(Instant::now() + Duration::from_secs(60 * number()?));
                plan.seeds = u64::MAX;
            }
            _ => return Err(format!("there is no {name}")),
        }
    }
    Ok(What::Run(plan))
}

fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1000
}

fn long(plan: &Plan) -> ExitCode {
    println!("seeds from {}; again: cargo xtask sim --from {0} --seeds N", plan.from);
    let began = Instant::now();
    let mut told = began;
    let (mut done, mut failed, mut counts) = (0, 0, Counts::default());
    while done < plan.seeds && plan.until.is_none_or(|until| Instant::now() < until) {
        let seed = plan.from.wrapping_add(done);
        let outcome = holdpoint_sim::run(seed);
        for violation in &outcome.violations {
            println!("seed {seed}: {violation}");
        }
        failed += u64::from(!outcome.violations.is_empty());
        counts += outcome.counts;
        done += 1;
        if told.elapsed() >= REPORT {
            told = Instant::now();
            eprintln!("{done} seeds, {failed} with violations");
        }
    }
    println!(
        "{done} seeds in {} s: {} lives of the daemon, {} crashes, {} questions, {} acknowledged answers; {failed} seeds \
         with violations",
        began.elapsed().as_secs(),
        counts.lives,
        counts.crashes,
        counts.asked,
        counts.acknowledged
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
