//! 64 clients that answer at once, each in a session of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use camino::Utf8PathBuf;
use holdpoint_ledger::{Ledger, SqliteLedger};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

use crate::answering;
use crate::daemon::{Asked, Daemon, Session};
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
    let rounds = place.times(40).max(2);
    let mut rig = place.rig()?.with_model()?;
    rig.args = ["--max-steps", "1000"].map(str::to_owned).into();
    let daemon = rig.start()?;
    let mut http = daemon.connect()?;
    rig.model()?.stop_noting();
    let sessions = (0..CLIENTS).map(|_| daemon.create(&mut http)).collect::<anyhow::Result<Vec<_>>>()?;
    for session in &sessions {
        daemon.prompt(&mut http, session, &batches(OPEN, rounds))?;
    }
    let mut routes = [Rounds::default(), Rounds::default()];
    for number in 0..rounds {
        let mut requests = Vec::new();
        for session in &sessions {
            let asked = daemon.wait_asked(&mut http, session, OPEN)?;
            requests.push(asked.iter().map(|asked| bytes(&daemon, session, asked, number)).collect());
        }
        measure(&runtime, &daemon, requests, &mut routes[number % 2])?;
    }
    daemon.kill()?;
    for (route, name) in routes.iter().zip(["POST /questions/:id/answer", "votes"]) {
        let p99 = route.latency.quantile(0.99);
        let spread = format!("rounds: {:.0} to {:.0}", route.rates.min(), route.rates.max());
        report.at_least(format!("{name}, a second"), AIM_RATE, route.rates.median(), "1/s", spread);
        report.at_most(format!("{name}, p99"), AIM_P99, p99, "ms", route.latency.spread());
        let [daemon, agent, own] = route.cpu.map(|seconds| seconds * 1e6 / route.count);
        let note = format!("agent {agent:.0} µs, this program {own:.0} µs");
        report.shows(format!("  {name}: the daemon's CPU an answer"), daemon, "µs", note);
    }
    ledger_alone(place, &runtime, report)
}

fn bytes(daemon: &Daemon, session: &Session, asked: &Asked, round: usize) -> Vec<u8> {
    if round % 2 == 0 {
        answering::answer(daemon.address, asked)
    } else {
        answering::vote(daemon.address, session, asked)
    }
}

fn measure(
    runtime: &tokio::runtime::Runtime,
    daemon: &Daemon,
    requests: Vec<Vec<Vec<u8>>>,
    into: &mut Rounds,
) -> anyhow::Result<()> {
    let agent = daemon.agents().first().copied().context("there is no agent")?;
    let count = requests.iter().map(Vec::len).sum::<usize>() as f64;
    let cpu = || [cpu_seconds(daemon.pid()), cpu_seconds(agent), cpu_seconds(std::process::id())];
    let before = cpu();
    let (seconds, latency) = runtime.block_on(round(daemon.address, requests))?;
    let used = cpu();
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
    let dir =
        Utf8PathBuf::from_path_buf(rig.data.clone()).map_err(|_| anyhow::anyhow!("the path is no UTF-8"))?;
    let ledger = Arc::new(SqliteLedger::open(&dir)?);
    let each = place.times(500);
    let (rate, latency) = runtime.block_on(async {
        let barrier = Arc::new(Barrier::new(CLIENTS));
        let mut tasks = Vec::new();
        for number in 0..CLIENTS {
            let (ledger, barrier) = (Arc::clone(&ledger), Arc::clone(&barrier));
            let mut book = rows::Book::new(&format!("s{number}"))?;
            ledger.append(book.open(1)).await?;
            let mut open = Vec::new();
            for question in 0..each {
                let (append, row) = book.ask(&format!("{number}x{question}"), 2)?;
                ledger.append(append).await?;
                open.push(row);
                if open.len() == OPEN {
                    break;
                }
            }
            tasks.push(tokio::spawn(async move {
                let mut sample = Sample::default();
                barrier.wait().await;
                let since = Instant::now();
                for row in open {
                    let append = book.settle(3, row);
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
