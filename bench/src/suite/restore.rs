//! From start after a kill to the question that is asked again, for transcripts of different lengths.

use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Session, gone};
use crate::model::ASK;
use crate::report::Report;
use crate::rig::{Place, Rig};
use crate::stats::Sample;
use crate::transcripts;

const LENGTHS: [usize; 3] = [100, 10_000, 50_000];
const AIM: f64 = 150.0;
const AIM_LOAD: f64 = 80.0;
const AIM_RATIO: f64 = 1.3;

/// A data directory that a daemon left behind with an open question, at the end of a transcript of this length.
pub(super) fn parked(place: &Place, records: usize) -> anyhow::Result<(Rig<'_>, Session)> {
    let rig = place.rig()?.with_model()?;
    let daemon = rig.start()?;
    let mut http = daemon.connect()?;
    let session = daemon.create(&mut http)?;
    daemon.prompt(&mut http, &session, ASK)?;
    daemon.wait_asked(&mut http, &session, 1)?;
    daemon.kill()?;
    transcripts::lengthen(&rig.transcript(&session.id), records)?;
    Ok((rig, session))
}

/// The times since the start of the program: the daemon listens, the session is there, the question is.
struct Times([Duration; 3]);

fn restore(rig: &Rig<'_>, session: &Session, how: &str) -> anyhow::Result<(Times, Daemon)> {
    let daemon = rig.start()?;
    let listens = daemon.since.elapsed();
    let mut http = daemon.connect()?;
    daemon.wake(&mut http, session, how)?.check(200)?;
    let there = daemon.since.elapsed();
    daemon.events(session)?.question()?;
    let asked = daemon.since.elapsed();
    Ok((Times([listens, there, asked]), daemon))
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let rigs = LENGTHS.iter().map(|length| parked(place, *length)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut resumed = LENGTHS.map(|_| <[Sample; 3]>::default());
    let mut loaded = LENGTHS.map(|_| Sample::default());
    let (mut at_once, mut ended) = (Sample::default(), Sample::default());
    for _ in 0..place.times(20) {
        // Side by side, so that what else the machine does is the same for all of them.
        for (at, (rig, session)) in rigs.iter().enumerate() {
            let (Times(times), daemon) = restore(rig, session, "resume")?;
            for (sample, time) in resumed[at].iter_mut().zip(times) {
                sample.add(time);
            }
            daemon.kill()?;
            let (Times(times), daemon) = restore(rig, session, "load")?;
            loaded[at].add(times[2]);
            if at > 0 {
                daemon.kill()?;
                continue;
            }
            // As a supervisor does it: the old agent is still about to find out.
            let agents = daemon.kill_alone()?;
            let (Times(times), daemon) = restore(rig, session, "resume")?;
            at_once.add(times[2]);
            daemon.kill()?;
            // How long that takes, on its own.
            let (_, daemon) = restore(rig, session, "resume")?;
            let agents_left = daemon.kill_alone()?;
            let killed = Instant::now();
            for agent in agents_left {
                gone(agent)?;
            }
            ended.add(killed.elapsed());
            for agent in agents {
                gone(agent)?;
            }
        }
    }
    for (at, length) in LENGTHS.iter().enumerate() {
        report.times(format!("resume, {length} records"), Some(AIM), &resumed[at][2]);
        let [listens, there, asked] = [0, 1, 2].map(|part: usize| resumed[at][part].median());
        report.shows(
            format!("  of it up to listening, resumed, asked ({length})"),
            listens,
            "ms",
            format!("then {:.1} for the resume, then {:.1} for the question", there - listens, asked - there),
        );
    }
    let ratio = resumed[2][2].median() / resumed[0][2].median();
    report.at_most("resume, 50,000 records against 100", AIM_RATIO, ratio, "x", "");
    for (at, length) in LENGTHS.iter().enumerate() {
        let more = loaded[at].median() - resumed[at][2].median();
        report.times(format!("load with its replay window, {length} records"), None, &loaded[at]);
        report.at_most(format!("  of it more than resume ({length})"), AIM_LOAD, more, "ms", "");
    }
    report.times("resume, 100 records, started while the old agent ends", None, &at_once);
    report.times("an agent ends after its daemon was killed", None, &ended);
    Ok(())
}
