//! Memory of daemon and agent.

use std::time::Duration;

use anyhow::Context as _;

use crate::daemon::Daemon;
use crate::memory::Memory;
use crate::model::ASK;
use crate::report::Report;
use crate::rig::Place;
use crate::stats::Sample;

const AIM: f64 = 20.0;
/// How long nothing happens before a process counts as idle.
const QUIET: Duration = Duration::from_millis(1500);

/// What daemon and agent held at one time, over the runs.
#[derive(Default)]
struct Held {
    rss: [Sample; 2],
    pss: [Sample; 2],
    anonymous: [Sample; 2],
}

impl Held {
    fn look(&mut self, daemon: &Daemon) -> anyhow::Result<()> {
        std::thread::sleep(QUIET);
        for (at, pid) in [Some(daemon.pid()), daemon.agents().first().copied()].into_iter().enumerate() {
            if let Some(pid) = pid {
                let memory = Memory::of(pid)?;
                self.rss[at].add_number(memory.rss);
                self.pss[at].add_number(memory.pss);
                self.anonymous[at].add_number(memory.anonymous);
            }
        }
        Ok(())
    }

    fn report(&self, report: &mut Report, what: &str, aim: Option<f64>) {
        for (at, who) in ["daemon", "agent"].into_iter().enumerate() {
            if self.rss[at].len() == 0 {
                continue;
            }
            let rss = self.rss[at].median();
            let note =
                Memory { rss, pss: self.pss[at].median(), anonymous: self.anonymous[at].median() }.note();
            let name = format!("{who}, {what}");
            match aim {
                Some(aim) => report.at_most(name, aim, rss, "MB", note),
                None => report.shows(name, rss, "MB", note),
            }
        }
    }
}

pub(super) fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    const WAITING: [usize; 3] = [1, 10, 100];
    let (mut alone, mut idle, mut waiting) =
        (Held::default(), Held::default(), [(); 3].map(|()| Held::default()));
    for _ in 0..place.times(3) {
        let rig = place.rig()?.with_model()?;
        let daemon = rig.start()?;
        let mut http = daemon.connect()?;
        http.get("/health")?.expect(200)?;
        alone.look(&daemon)?;
        // A session that was never spoken in has an agent, and nothing else.
        daemon.create(&mut http)?;
        daemon.agents().first().context("a session has an agent")?;
        idle.look(&daemon)?;
        let mut sessions = 0;
        for (held, count) in waiting.iter_mut().zip(WAITING) {
            while sessions < count {
                let session = daemon.create(&mut http)?;
                daemon.prompt(&mut http, &session, ASK)?;
                daemon.wait_asked(&mut http, &session, 1)?;
                sessions += 1;
            }
            held.look(&daemon)?;
        }
        daemon.kill()?;
    }
    alone.report(report, "before any session", Some(AIM));
    idle.report(report, "idle", Some(AIM));
    for (held, count) in waiting.iter().zip(WAITING) {
        held.report(report, &format!("{count} sessions that wait"), None);
    }
    Ok(())
}
