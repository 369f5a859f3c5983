//! Start to first healthy answer.

use std::time::Duration;

use crate::model::ASK;
use crate::report::Report;
use crate::rig::{Place, Rig};
use crate::stats::Sample;

const AIM: f64 = 50.0;

/// From exec to a healthy answer; the daemon is killed after it.
pub(super) fn healthy(rig: &Rig<'_>) -> anyhow::Result<Duration> {
    let daemon = rig.start()?;
    daemon.connect()?.get("/health")?.check(200)?;
    let time = daemon.since.elapsed();
    daemon.kill()?;
    Ok(time)
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let used = place.rig()?.with_model()?;
    let daemon = used.start()?;
    let mut http = daemon.connect()?;
    let session = daemon.create(&mut http)?;
    daemon.prompt(&mut http, &session, ASK)?;
    daemon.wait_asked(&mut http, &session, 1)?;
    daemon.kill()?;

    let (mut fresh, mut existing) = (Sample::default(), Sample::default());
    for _ in 0..place.times(30) {
        fresh.add(healthy(&place.rig()?)?);
        existing.add(healthy(&used)?);
    }
    report.times("a new data directory", Some(AIM), &fresh);
    report.times("an existing one, after kill -9", Some(AIM), &existing);
    Ok(())
}
