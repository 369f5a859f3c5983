//! 64 clients that answer at once, each in a session of its own.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use holdpoint_ledger::{Ledger, SqliteLedger};
use tokio::sync::Barrier;

use crate::answering;
use crate::daemon::{Asked, Daemon, Paused, Session};
use crate::load::{self, Requests};
use crate::memory::cpu_seconds;
use crate::model::{Model, batches};
use crate::report::Report;
use crate::rig::Place;
use crate::rows;
use crate::stats::Sample;

const CLIENTS: usize = 64;
/// Questions of one session at a time: half of what one may ask.
const OPEN: usize = 30;
const AIM_RATE: f64 = 15_000.0;
const AIM_P99: f64 = 12.0;

/// How a round is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    route: Route,
    agent: Agent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// By the question's durable identity.
    Answer,
    /// On the peer's route.
    Vote,
}

/// What the agent does meanwhile. Its part is to store each result with an fsync of its own, and to call the model
/// when a batch is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agent {
    /// Its part.
    Works,
    /// It is stopped (SIGSTOP), and does its part after the round: what is measured is what the daemon can do.
    Stopped,
}

const WAYS: [Way; 4] = [
    Way { route: Route::Answer, agent: Agent::Works },
    Way { route: Route::Vote, agent: Agent::Stopped },
    Way { route: Route::Vote, agent: Agent::Works },
    Way { route: Route::Answer, agent: Agent::Stopped },
];

/// Rounds of one way. In a round every client answers every question of its session.
#[derive(Default)]
struct Rounds {
    rates: Sample,
    latency: Sample,
    /// Answers a second up to the last call of the model: with all that follows from them.
    whole: Sample,
    /// Seconds of processor time while people answer: of the daemon, the agent, and this program.
    cpu: [f64; 3],
    count: f64,
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let mut rig = place.rig()?.with_model()?;
    rig.args = ["--max-steps", "1000"].map(str::to_owned).into();
    let daemon = rig.start()?;
    let mut http = daemon.connect()?;
    let mut ways = WAYS.map(|way| (way, Rounds::default()));
    // New sessions again and again, since long histories would make the model's requests long.
    for _ in 0..place.times(16) {
        let sessions = (0..CLIENTS).map(|_| daemon.create(&mut http)).collect::<anyhow::Result<Vec<_>>>()?;
        for session in &sessions {
            daemon.prompt(&mut http, session, &batches(OPEN, WAYS.len()))?;
        }
        for (way, rounds) in &mut ways {
            let mut requests = Requests::new();
            for session in &sessions {
                let asked = daemon.wait_asked(&mut http, session, OPEN)?;
                requests.push(asked.iter().map(|asked| way.request(&daemon, session, asked)).collect());
            }
            measure(&daemon, rig.model()?, *way, requests, rounds)?;
        }
        for session in &sessions {
            http.delete(&format!("/session/{}", session.id))?.check(204)?;
        }
    }
    daemon.kill()?;
    for (way, rounds) in ways {
        way.report(&rounds, report);
    }
    ledger_alone(place, report)
}

impl Way {
    fn request(self, daemon: &Daemon, session: &Session, asked: &Asked) -> Vec<u8> {
        match self.route {
            Route::Answer => answering::answer(daemon.address, asked),
            Route::Vote => answering::vote(daemon.address, session, asked),
        }
    }

    fn report(self, rounds: &Rounds, report: &mut Report) {
        let route = match self.route {
            Route::Answer => "answers by question id",
            Route::Vote => "votes",
        };
        let agent = match self.agent {
            Agent::Works => "the agent works",
            Agent::Stopped => "the agent stopped",
        };
        let name = format!("{route}, {agent}");
        let note = format!("rounds: {:.0} to {:.0}", rounds.rates.min(), rounds.rates.max());
        report.at_least(format!("{name}: a second"), AIM_RATE, rounds.rates.median(), "1/s", note);
        let p99 = rounds.latency.quantile(0.99);
        report.at_most(format!("{name}: p99"), AIM_P99, p99, "ms", rounds.latency.spread());
        let [daemon, agent, own] = rounds.cpu.map(|seconds| seconds * 1e6 / rounds.count);
        let note = format!("agent {agent:.0} µs, this program {own:.0} µs");
        report.shows("  the daemon's processor time for each", daemon, "µs", note);
        if self.agent == Agent::Works {
            let whole = rounds.whole.median();
            report.shows("  a second, until the agent has done its part as well", whole, "1/s", "");
        }
    }
}

fn measure(
    daemon: &Daemon,
    model: &Model,
    way: Way,
    requests: Requests,
    into: &mut Rounds,
) -> anyhow::Result<()> {
    let agent = daemon.agents().first().copied().context("there is no agent")?;
    let count = requests.iter().map(Vec::len).sum::<usize>() as f64;
    let cpu = || [cpu_seconds(daemon.pid()), cpu_seconds(agent), cpu_seconds(std::process::id())];
    let paused = (way.agent == Agent::Stopped).then(|| Paused::new(agent));
    model.forget();
    let before = cpu();
    let load = load::run(daemon.address, requests)?;
    let after = cpu();
    drop(paused);
    let mut last = load.start;
    for _ in 0..CLIENTS {
        last = last.max(model.next_request()?);
    }
    into.rates.add_number(count / load.time.as_secs_f64());
    into.latency.extend(load.latency);
    into.whole.add_number(count / (last - load.start).as_secs_f64());
    into.count += count;
    for (sum, (before, after)) in into.cpu.iter_mut().zip(before.into_iter().zip(after)) {
        *sum += after - before;
    }
    Ok(())
}

/// The ledger without HTTP, actors and agent, in this process: what the rest has to be compared with.
fn ledger_alone(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let rig = place.rig()?;
    let dir = rig.utf8_data()?;
    let ledger = Arc::new(SqliteLedger::open(&dir)?);
    let each = place.times(100) as u64;
    let (rate, latency) = runtime.block_on(async {
        let barrier = Arc::new(Barrier::new(CLIENTS));
        let mut tasks = Vec::new();
        for number in 0..CLIENTS {
            let (ledger, barrier) = (Arc::clone(&ledger), Arc::clone(&barrier));
            let mut book = rows::Book::new(&format!("s{number}"))?;
            ledger.append(book.open(1)?).await?;
            for question in 0..each {
                ledger.append(book.ask(&format!("{number}x{question}"), 2)?).await?;
            }
            tasks.push(tokio::spawn(async move {
                let mut sample = Sample::default();
                barrier.wait().await;
                let since = Instant::now();
                for generation in 1..=each {
                    let append = book.settle(3, generation)?;
                    let sent = Instant::now();
                    ledger.append(append).await?;
                    sample.add(sent.elapsed());
                }
                Ok::<_, anyhow::Error>((since.elapsed().as_secs_f64(), sample))
            }));
        }
        let (mut all, mut seconds) = (Sample::default(), 0.0_f64);
        for task in tasks {
            let (time, sample) = task.await??;
            seconds = seconds.max(time);
            all.extend(sample);
        }
        Ok::<_, anyhow::Error>((all.len() as f64 / seconds, all))
    })?;
    report.shows(
        "the ledger alone, 64 writers",
        rate,
        "1/s",
        format!("p99 {:.1} ms; {}", latency.quantile(0.99), latency.spread()),
    );
    Ok(())
}
