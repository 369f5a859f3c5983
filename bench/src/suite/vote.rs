//! One client: an answer accepted, and the model's next request, against the disk itself.

use std::time::Instant;

use holdpoint_ledger::{Ledger, SqliteLedger};
use serde_json::json;

use crate::answering;
use crate::daemon::Asked;
use crate::model::batches;
use crate::probe::Probe;
use crate::report::Report;
use crate::rig::Place;
use crate::rows::Book;
use crate::stats::Sample;

/// Questions in a row, in one turn: a turn as people have them, and its history stays short.
const CHAIN: usize = 20;
const AIM: f64 = 3.0;
const AIM_STRICT: f64 = 1.7;
const AIM_GAP: f64 = 1.0;

#[derive(Default)]
struct Route {
    accepted: Sample,
    /// From the request's sending to the model's next request.
    next: Sample,
    /// From the acceptance to the model's next request.
    gap: Sample,
    /// From the model's request to the next question on the stream.
    question: Sample,
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let mut rig = place.rig()?.with_model()?;
    rig.args = ["--max-steps", "1000"].map(str::to_owned).into();
    let daemon = rig.start()?;
    let mut http = daemon.connect()?;
    let mut probe = Probe::new(&rig.data)?;
    let (mut disk, mut nothing) = (Sample::default(), Sample::default());
    let mut routes = [Route::default(), Route::default()];
    for number in 0..place.times(60) {
        let session = daemon.create(&mut http)?;
        daemon.prompt(&mut http, &session, &batches(1, CHAIN))?;
        let mut events = daemon.events(&session)?;
        let mut asked = Asked::read(&events.question()?)?;
        let at = number % 2;
        for step in 0..CHAIN {
            let sent = Instant::now();
            http.get("/health")?.check(200)?;
            nothing.add(sent.elapsed());
            disk.add(probe.measure()?);
            let request = if at == 0 {
                answering::vote(daemon.address, &session, &asked)
            } else {
                answering::answer(daemon.address, &asked)
            };
            rig.model()?.forget();
            let sent = Instant::now();
            let response = http.send(&request)?;
            let accepted = Instant::now();
            response.check(200)?;
            let heard = rig.model()?.next_request()?;
            if step + 1 < CHAIN {
                asked = Asked::read(&events.question()?)?;
                routes[at].question.add(heard.elapsed());
            }
            routes[at].accepted.add(accepted - sent);
            routes[at].next.add(heard - sent);
            routes[at].gap.add(heard.saturating_duration_since(accepted));
        }
        events.next(&["turn_complete"])?;
        http.post(&format!("/session/{}/detach", session.id), Some(&session.client), &json!({}))?;
    }
    daemon.kill()?;
    let (unit_alone, alone) = ledger_alone(place)?;
    report.times("append 512 B + fdatasync, in between", None, &disk);
    let unit = disk.median();
    report.times("the ledger alone, one writer", None, &alone);
    let alone_ratio = alone.median() / unit_alone.median();
    report.shows("  the ledger alone against the disk", alone_ratio, "x", "");
    report.times("a request that does nothing (GET /health), in between", None, &nothing);
    let least = alone_ratio + nothing.median() / unit;
    report.shows("  both against the disk: the least that a vote can take here", least, "x", "");
    for (route, name) in routes.iter().zip(["vote", "answer by question id"]) {
        report.times(format!("{name} accepted"), None, &route.accepted);
        let ratio = route.accepted.median() / unit;
        report.at_most(format!("  {name} against the disk, first aim"), AIM, ratio, "x", "");
        report.at_most(format!("  {name} against the disk, strict aim"), AIM_STRICT, ratio, "x", "");
        report.times(format!("{name} sent → the model's next request"), None, &route.next);
        report.times(format!("  accepted → the model's next request ({name})"), None, &route.gap);
        let beyond = route.gap.median() - unit;
        report.at_most(
            format!("  … without the fdatasync of the result ({name})"),
            AIM_GAP,
            beyond,
            "ms",
            "the result is on disk before the model is called",
        );
        report.times(format!("  the model's request → the next question ({name})"), None, &route.question);
    }
    Ok(())
}

/// The ledger without HTTP, actor and agent, in this process: what of a vote is the commit. With the disk beside
/// it, as above.
fn ledger_alone(place: &Place) -> anyhow::Result<(Sample, Sample)> {
    let rig = place.rig()?;
    let ledger = SqliteLedger::open(&rig.utf8_data()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut probe = Probe::new(&rig.data)?;
    let (mut disk, mut alone) = (Sample::default(), Sample::default());
    let mut book = Book::new("alone")?;
    runtime.block_on(async {
        ledger.append(book.open(1)?).await?;
        for number in 1..=place.times(600) {
            ledger.append(book.ask(&format!("alone{number}"), 2)?).await?;
            let append = book.settle(3, number as u64)?;
            disk.add(probe.measure()?);
            let sent = Instant::now();
            ledger.append(append).await?;
            alone.add(sent.elapsed());
        }
        ledger.shut().await;
        Ok((disk, alone))
    })
}
