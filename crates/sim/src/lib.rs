//! A seeded simulation: the real engine, the real core and the real ledger, with agents and people that a seed
//! decides, in one thread, on a paused clock, with crashes before or after any write and any send.
//!
//! [`run`] with the same seed does the same, step for step; a violation is thus found again with its seed. A run is
//! two to six lives of a daemon on the same data, and a last one in which everybody comes back and answers
//! everything. From life to life the flag, the policy, its quorum, time-outs and limits change, and sometimes the
//! clock is set back. Every eighth seed runs on SQLite files, the others on the ledger in memory.
//!
//! What dies: the daemon at any commit, any send to an agent (a prompt, an answer, a take-up), any frame or reply to
//! a person, any removal or copy of a file; an agent at any of its writes, with its daemon or alone, or a little
//! later than its daemon. What fails: commits and reads (a full or dead disk), agents' starts, the model. Deferred
//! commits are lost with the daemon.
//!
//! # How each invariant is checked
//!
//! | | here, after every step unless said otherwise | else |
//! | --- | --- | --- |
//! | I1 | each frame and each reply is compared with what is durable when it arrives (`stream`, `people`) | `e2e::full_disk` |
//! | I2 | the end of a question is noted when it is first seen, and never changes (`check`) | model properties, ledger suite |
//! | I3 | each result in a transcript is what the ledger says was decided; no answered call is repaired (`check`) | |
//! | I4 | what was acknowledged is recorded so; no settled call is asked again; events only grow (`check`); at rest every end has been delivered (`rest`) | `e2e::crash_table`, `e2e::random_kills` |
//! | I5 | the row of a question is the fold of its events (`check`); the list says what the status says (`look`) | |
//! | I6 | status, list and inbox agree on running, waiting, ended (`look`); a turn ends once (`check`) | |
//! | I7 | a round of reads leaves every version as it was (`look`) | `e2e::reads` (bytes of the files) |
//! | I8 | every open question is in the inbox (`check`) | |
//! | I9 | at a start, and when all have left, there are no tasks, no agents and no live sessions; while no session is live, the engine has nothing to do that lasts (`life`) | |
//! | I10 | no call dangles in mid-file, no result is there twice (`check`); at rest a turn went on with what it was answered (`rest`) | `e2e::crash_table` (against an undisturbed run) |
//! | I11 | cannot show: it is a lock of the system | `ledger/tests/processes.rs`, `e2e::unattended` |
//! | I12 | an orderly stop ends no question, and writes no result of one (`life`) | `e2e::signals` |
//!
//! Beside them: D5 (prompts begun once, in order, none lost), D6, E7, Q6, R2/R4 (a replay never shows as failed what is
//! asked), R15, R16, R21, V2, and that everything comes to rest.

mod agent;
mod check;
mod crash;
mod durable;
mod ledger;
mod life;
mod look;
mod people;
mod rest;
mod rng;
mod store;
mod stream;
mod transcripts;
mod turn;
mod world;

use crate::check::{Checker, sessions};
use crate::durable::Durable;
use crate::life::{Life, Settings};
use crate::rng::Rng;
use crate::store::Shared;

/// What a run found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What must not be, and was.
    pub violations: Vec<String>,
    /// What happened, in order.
    pub trace: Vec<String>,
    /// How much happened.
    pub counts: Counts,
}

/// How much happened: a simulation in which nothing happens finds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions asked.
    pub asked: usize,
    /// Answers acknowledged.
    pub acknowledged: usize,
    /// Lives of the daemon.
    pub lives: u64,
    /// Those of them that ended in a crash.
    pub crashes: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.asked += other.asked;
        self.acknowledged += other.acknowledged;
        self.lives += other.lives;
        self.crashes += other.crashes;
    }
}

/// Runs one seed.
pub fn run(seed: u64) -> Outcome {
    let sqlite = seed % 8 == 7;
    run_on(seed, &if sqlite { Durable::sqlite() } else { Durable::memory() })
}

fn run_on(seed: u64, durable: &Durable) -> Outcome {
    let mut rng = Rng::new(seed);
    let store = Shared::default();
    let mut checker = Checker::default();
    let mut counts = Counts { lives: 2 + rng.below(5), ..Counts::default() };
    for life in 0..counts.lives {
        let settings = Settings::draw(&mut rng);
        in_runtime(async {
            let this = Life::begin(seed, life, &settings, &durable.open(), &store);
            this.live(&mut rng, &mut checker).await;
            this.end(&mut checker);
        });
        counts.crashes += u64::from(settings.crash.has_crashed());
    }
    let settings = Settings::last(&mut rng);
    let ledger = durable.open();
    in_runtime(async {
        let last = Life::begin(seed, counts.lives, &settings, &ledger, &store);
        last.come_to_rest(&mut checker).await;
        last.end(&mut checker);
    });
    rest::at_rest(&*ledger, &store, settings.restore);
    rest::tell_all(&*ledger, &store);
    counts.asked = sessions(&*ledger).iter().map(|session| session.generation.0 as usize).sum();
    let mut end = store.lock();
    counts.acknowledged = end.acknowledged.len();
    Outcome { violations: std::mem::take(&mut end.violations), trace: std::mem::take(&mut end.trace), counts }
}

/// Everything that runs in a life dies with its runtime.
fn in_runtime(life: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(life);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_run() {
        for seed in 0..16 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
    }

    /// Both ledgers do the same: a run is one run, whatever stores it.
    #[test]
    fn one_seed_is_one_run_on_either_ledger() {
        for seed in 0..8 {
            let (memory, file) = (run_on(seed, &Durable::memory()), run_on(seed, &Durable::sqlite()));
            assert_eq!(memory, file, "seed {seed}");
        }
    }

    #[test]
    fn i1_to_i12_hold_over_crashes() {
        let mut counts = Counts::default();
        for seed in 0..96 {
            let outcome = run(seed);
            assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
            counts += outcome.counts;
        }
        // A simulation in which nothing happens finds nothing.
        assert!(
            counts.asked > 1000 && counts.acknowledged > 200 && counts.crashes > 100,
            "too little happened: {counts:?}"
        );
    }
}
