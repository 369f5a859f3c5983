//! What loading a long history costs another session (R22).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::json;

use super::restore::parked;
use crate::daemon::{Daemon, Session};
use crate::http::Connection;
use crate::model::TALK;
use crate::report::Report;
use crate::rig::Place;
use crate::sse::Events;
use crate::stats::Sample;

const RECORDS: usize = 50_000;
const AIM: f64 = 50.0;

fn turn(
    daemon: &Daemon,
    http: &mut Connection,
    session: &Session,
    events: &mut Events,
) -> anyhow::Result<f64> {
    let sent = Instant::now();
    daemon.prompt(http, session, TALK)?;
    events.next(&["turn_complete"])?;
    Ok(sent.elapsed().as_secs_f64() * 1000.0)
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let (rig, long) = parked(place, RECORDS)?;
    let daemon = rig.start()?;
    let mut http = daemon.connect()?;
    let other = daemon.create(&mut http)?;
    let mut events = daemon.events(&other)?;
    let mut quiet = Sample::default();
    for _ in 0..place.times(100) {
        quiet.add_number(turn(&daemon, &mut http, &other, &mut events)?);
    }
    let (mut beside, mut loads) = (Sample::default(), Sample::default());
    let loading = AtomicBool::new(true);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let loader = scope.spawn(|| -> anyhow::Result<Sample> {
            let mut sample = Sample::default();
            let result = (|| {
                let mut http = daemon.connect()?;
                for _ in 0..place.times(10) {
                    let since = Instant::now();
                    daemon.wake(&mut http, &long, "load")?.check(200)?;
                    sample.add(since.elapsed());
                    http.get(&format!("/session/{}/transcript?limit=500&direction=backward", long.id))?
                        .expect(200)?;
                    // Put away, so that the next load reads it again.
                    http.post(&format!("/session/{}/cancel", long.id), Some(&long.client), &json!({}))?
                        .expect(204)?;
                    http.delete(&format!("/session/{}", long.id))?;
                }
                Ok(())
            })();
            loading.store(false, Ordering::Relaxed);
            result.map(|()| sample)
        });
        while loading.load(Ordering::Relaxed) {
            beside.add_number(turn(&daemon, &mut http, &other, &mut events)?);
        }
        loads = loader.join().ok().context("the loader has panicked")??;
        Ok(())
    })?;
    report.times("a turn, with nothing beside it", None, &quiet);
    report.times("a turn, while the other loads again and again", None, &beside);
    let delay = beside.max() - quiet.median();
    report.at_most("  the longest, more than without", AIM, delay, "ms", beside.spread());
    report.times("a load of 50,000 records beside it", None, &loads);
    daemon.kill()
}
