//! Measures the built program: how fast it starts, what it needs, how fast a question comes back and an answer
//! is accepted. `bench/README.md` says what each row means.

mod answering;
mod daemon;
mod http;
mod load;
mod memory;
mod model;
mod probe;
mod report;
mod rig;
mod rows;
mod sse;
mod stats;
mod suite;
mod transcripts;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;

use crate::report::Report;
use crate::suite::Suite;

/// Measures the built `holdpoint`.
#[derive(Debug, clap::Parser)]
#[command(name = "holdpoint-bench")]
pub(crate) struct Args {
    /// Only these parts (may be given several times)
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Suite>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// A tenth of the repetitions: to try it out, not to quote
    #[arg(long)]
    quick: bool,
    /// The program to measure [default: the `holdpoint` beside this one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where data directories are made; its file system is part of what is measured [default: beside the build]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(report) => {
            if args.json {
                println!("{}", report.json());
            }
            if report.all_within() { ExitCode::SUCCESS } else { ExitCode::from(3) }
        }
        Err(error) => {
            eprintln!("holdpoint-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<Report> {
    let place = rig::Place::new(args.binary.clone(), args.dir.clone(), args.quick)?;
    let mut report = Report::new(!args.json, &place);
    for suite in Suite::ALL {
        if args.only.is_empty() || args.only.contains(&suite) {
            report.begin(suite.title());
            suite.run(&place, &mut report)?;
        }
    }
    report.end();
    Ok(report)
}
