//! The inbox with 100,000 open questions in the ledger, and what they cost at start.

use std::time::Instant;

use holdpoint_ledger::{Ledger, SqliteLedger};

use super::start::healthy;
use crate::http::Connection;
use crate::memory::Memory;
use crate::report::Report;
use crate::rig::{Place, Rig};
use crate::rows::Book;
use crate::stats::Sample;

const SESSIONS: usize = 20_000;
const EACH: usize = 5;
/// Enough to go through the log twice.
const COMMITS: i64 = 300;
const AIM: f64 = 10.0;
/// What "not slower" allows for chance.
const AIM_START: f64 = 1.1;

fn fill(rig: &Rig<'_>, sessions: usize) -> anyhow::Result<()> {
    let dir = rig.utf8_data()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ledger = SqliteLedger::open(&dir)?;
    runtime.block_on(async {
        let mut waiting = Vec::new();
        for number in 0..sessions {
            let mut book = Book::new(&format!("session-{number}"))?;
            waiting.push(ledger.append(book.open(1)?));
            for question in 0..EACH {
                // Scattered over time, so that the inbox's order is not that of writing.
                let at = 1_700_000_000_000_000 + (number * 7919 % sessions * EACH + question) as i64 * 1000;
                waiting.push(ledger.append(book.ask(&format!("{number}x{question}"), at)?));
            }
            if waiting.len() > 4000 {
                for reply in waiting.drain(..) {
                    reply.await?;
                }
            }
        }
        for reply in waiting {
            reply.await?;
        }
        // Small commits, so that the log is as full in a small ledger as in a large one: how much of it is read at
        // the next start has nothing to do with how many questions there are.
        let mut book = Book::new("small-commits")?;
        ledger.append(book.open(1)?).await?;
        for number in 0..COMMITS {
            ledger.append(book.title(number, "Write the release notes")?).await?;
        }
        ledger.shut().await;
        Ok(())
    })
}

fn get(http: &mut Connection, path: &str, times: usize) -> anyhow::Result<Sample> {
    let mut sample = Sample::default();
    for _ in 0..times {
        let sent = Instant::now();
        http.get(path)?.check(200)?;
        sample.add(sent.elapsed());
    }
    Ok(sample)
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let (full, empty) = (place.rig()?, place.rig()?);
    fill(&full, place.times(SESSIONS))?;
    fill(&empty, 1)?;
    let (mut with, mut without) = (Sample::default(), Sample::default());
    for _ in 0..place.times(30) {
        with.add(healthy(&full)?);
        without.add(healthy(&empty)?);
    }
    report.times("start, with them", None, &with);
    report.times("start, with 5", None, &without);
    report.at_most("  with them against with 5", AIM_START, with.median() / without.median(), "x", "");

    let times = place.times(200);
    let daemon = full.start()?;
    let mut http = daemon.connect()?;
    report.times("GET /questions?limit=50", Some(AIM), &get(&mut http, "/questions?limit=50", times)?);
    let mut deep = Sample::default();
    let mut cursor = String::new();
    for _ in 0..times {
        let path = if cursor.is_empty() {
            "/questions?limit=50".to_owned()
        } else {
            format!("/questions?limit=50&cursor={cursor}")
        };
        let sent = Instant::now();
        let page = http.get(&path)?.expect(200)?;
        deep.add(sent.elapsed());
        page["nextCursor"].as_str().unwrap_or_default().clone_into(&mut cursor);
    }
    report.times(format!("  {times} pages one after the other"), Some(AIM), &deep);
    let cwd = "/questions?limit=50&cwd=/work&kind=user_question";
    report.times("  of a workspace, questions only", Some(AIM), &get(&mut http, cwd, times)?);
    let nowhere = "/questions?limit=50&cwd=/elsewhere";
    report.times("  of a workspace that has none", Some(AIM), &get(&mut http, nowhere, place.times(20))?);
    let one = "/questions?limit=50&session=session-17";
    report.times("  of a session", Some(AIM), &get(&mut http, one, times)?);
    let settled = "/questions?limit=50&state=settled";
    report.times("  settled ones, of which there are none", Some(AIM), &get(&mut http, settled, times)?);
    report.times("GET /metrics", None, &get(&mut http, "/metrics", place.times(20))?);
    report.times("GET /health?deep", None, &get(&mut http, "/health?deep", place.times(20))?);
    let memory = Memory::of(daemon.pid())?;
    report.shows("memory of the daemon after all that", memory.rss, "MB", memory.note());
    daemon.kill()
}
