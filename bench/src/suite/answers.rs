//! 64 clients that answer at once, each in a session of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use holdpoint_ledger::{Ledger, SqliteLedger};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

use crate::answering;
use crate::daemon::{Asked, Daemon, Paused, Session};
use crate::http::Head;
use crate::memory::cpu_seconds;
use crate::model::batches;
use crate::report::Report;
use crate::rig::Place;
use crate::rows;
use crate::stats::Sample;

const CLIENTS: usize = 64;
/// Questions of one session at a time. One agent process may have 1024 open over all its sessions.
const OPEN: usize = 15;
/// Rounds of one session: as many of each way.
const ROUNDS: usize = 6;
const AIM_RATE: f64 = 15_000.0;
const AIM_P99: f64 = 12.0;

/// Rounds by one route. In a round every client answers every question of its session.
#[derive(Default)]
struct Rounds {
    rates: Sample,
    latency: Sample,
    /// Seconds of processor time: of the daemon, the agent, and this program.
    cpu: [f64; 3],
    count: f64,
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rig = place.rig()?.with_model()?;
    rig.args = ["--max-steps", "1000"].map(str::to_owned).into();
    let daemon = rig.start()?;
    let mut http = daemon.connect()?;
    rig.model()?.stop_noting();
    let mut ways = Way::ALL.map(|way| (way, Rounds::default()));
    // New sessions again and again, since long histories would make the model's requests long.
    for _ in 0..place.times(8) {
        let sessions = (0..CLIENTS).map(|_| daemon.create(&mut http)).collect::<anyhow::Result<Vec<_>>>()?;
        for session in &sessions {
            daemon.prompt(&mut http, session, &batches(OPEN, ROUNDS))?;
        }
        for number in 0..ROUNDS {
            let (way, rounds) = &mut ways[number % Way::ALL.len()];
            let mut requests = Vec::new();
            for session in &sessions {
                let asked = daemon.wait_asked(&mut http, session, OPEN)?;
                requests.push(asked.iter().map(|asked| way.request(&daemon, session, asked)).collect());
            }
            measure(&runtime, &daemon, *way, requests, rounds)?;
        }
        for session in &sessions {
            http.delete(&format!("/session/{}", session.id))?.check(204)?;
        }
    }
    daemon.kill()?;
    for (way, rounds) in ways {
        let name = way.name();
        let rates = format!("rounds: {:.0} to {:.0}", rounds.rates.min(), rounds.rates.max());
        let p99 = rounds.latency.quantile(0.99);
        if way == Way::Paused {
            report.shows(format!("{name}, a second"), rounds.rates.median(), "1/s", rates);
            report.shows(format!("{name}, p99"), p99, "ms", rounds.latency.spread());
        } else {
            report.at_least(format!("{name}, a second"), AIM_RATE, rounds.rates.median(), "1/s", rates);
            report.at_most(format!("{name}, p99"), AIM_P99, p99, "ms", rounds.latency.spread());
        }
        let [daemon, agent, own] = rounds.cpu.map(|seconds| seconds * 1e6 / rounds.count);
        let note = format!("agent {agent:.0} µs, this program {own:.0} µs");
        report.shows("  the daemon's processor time for each", daemon, "µs", note);
    }
    ledger_alone(place, &runtime, report)
}

/// How a round is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the question's durable identity.
    Answer,
    /// On the peer's route.
    Vote,
    /// Votes, while the agent is stopped (SIGSTOP): what the daemon does alone. The agent's part (storing each
    /// result, calling the model) follows after the round.
    Paused,
}

impl Way {
    const ALL: [Self; 3] = [Self::Answer, Self::Vote, Self::Paused];

    fn name(self) -> &'static str {
        match self {
            Self::Answer => "POST /questions/:id/answer",
            Self::Vote => "votes",
            Self::Paused => "votes, with the agent stopped",
        }
    }

    fn request(self, daemon: &Daemon, session: &Session, asked: &Asked) -> Vec<u8> {
        match self {
            Self::Answer => answering::answer(daemon.address, asked),
            Self::Vote | Self::Paused => answering::vote(daemon.address, session, asked),
        }
    }
}

fn measure(
    runtime: &tokio::runtime::Runtime,
    daemon: &Daemon,
    way: Way,
    requests: Vec<Vec<Vec<u8>>>,
    into: &mut Rounds,
) -> anyhow::Result<()> {
    let agent = daemon.agents().first().copied().context("there is no agent")?;
    let count = requests.iter().map(Vec::len).sum::<usize>() as f64;
    let cpu = || [cpu_seconds(daemon.pid()), cpu_seconds(agent), cpu_seconds(std::process::id())];
    let paused = (way == Way::Paused).then(|| Paused::new(agent));
    let before = cpu();
    let (seconds, latency) = runtime.block_on(round(daemon.address, requests))?;
    let used = cpu();
    drop(paused);
    into.rates.add_number(count / seconds);
    into.latency.extend(latency);
    into.count += count;
    for (sum, (before, after)) in into.cpu.iter_mut().zip(before.into_iter().zip(used)) {
        *sum += after - before;
    }
    Ok(())
}

/// Sends every client's requests, one after the other on its own connection; gives the time from the first sent
/// to the last answered, and the time of each.
async fn round(to: SocketAddr, requests: Vec<Vec<Vec<u8>>>) -> anyhow::Result<(f64, Sample)> {
    let barrier = Arc::new(Barrier::new(requests.len()));
    let tasks: Vec<_> = requests
        .into_iter()
        .map(|requests| tokio::spawn(client(to, requests, Arc::clone(&barrier))))
        .collect();
    let (mut all, mut first, mut last) = (Sample::default(), None::<Instant>, None::<Instant>);
    for task in tasks {
        let (start, end, sample) = task.await??;
        first = Some(first.map_or(start, |first| first.min(start)));
        last = last.max(Some(end));
        all.extend(sample);
    }
    let (first, last) = first.zip(last).context("there were no clients")?;
    Ok(((last - first).as_secs_f64(), all))
}

async fn client(
    to: SocketAddr,
    requests: Vec<Vec<u8>>,
    barrier: Arc<Barrier>,
) -> anyhow::Result<(Instant, Instant, Sample)> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let mut sample = Sample::default();
    let mut got = Vec::with_capacity(4096);
    barrier.wait().await;
    let start = Instant::now();
    for request in requests {
        let sent = Instant::now();
        stream.write_all(&request).await?;
        let head = loop {
            if let Some(head) = Head::read(&got)?.filter(|head| got.len() >= head.end + head.length) {
                break head;
            }
            if stream.read_buf(&mut got).await? == 0 {
                bail!("the daemon closed the connection");
            }
        };
        sample.add(sent.elapsed());
        if head.status != 200 {
            bail!("status {}: {}", head.status, String::from_utf8_lossy(&got));
        }
        got.drain(..head.end + head.length);
    }
    Ok((start, Instant::now(), sample))
}

/// The ledger without HTTP, actors and agent, in this process: what the rest has to be compared with.
fn ledger_alone(place: &Place, runtime: &tokio::runtime::Runtime, report: &mut Report) -> anyhow::Result<()> {
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
