//! What is measured, one file each.

mod answers;
mod inbox;
mod memory;
mod neighbour;
mod restore;
mod start;
mod vote;

use crate::report::Report;
use crate::rig::Place;

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Start to first healthy answer.
    Start,
    /// Memory of daemon and agent.
    Memory,
    /// From start after a kill to the question that is asked again.
    Restore,
    /// A vote, and the model's next request, against the disk itself.
    Vote,
    /// Many clients at once.
    Answers,
    /// 100,000 open questions.
    Inbox,
    /// What a long history costs another session.
    Neighbour,
}

impl Suite {
    /// In the order in which they run.
    pub(crate) const ALL: [Self; 7] =
        [Self::Start, Self::Memory, Self::Restore, Self::Vote, Self::Answers, Self::Inbox, Self::Neighbour];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Start => "start: from exec to a 200 of /health",
            Self::Memory => "memory: resident, in MB",
            Self::Restore => "restore: from exec after kill -9 to the question on the stream",
            Self::Vote => "vote: one client, against append + fdatasync",
            Self::Answers => "answers: 64 clients, each in a session of its own",
            Self::Inbox => "inbox: 100,000 open questions",
            Self::Neighbour => "neighbour: a turn of one session while another loads 50,000 records",
        }
    }

    pub(crate) fn run(self, place: &Place, report: &mut Report) -> anyhow::Result<()> {
        match self {
            Self::Start => start::run(place, report),
            Self::Memory => memory::run(place, report),
            Self::Restore => restore::run(place, report),
            Self::Vote => vote::run(place, report),
            Self::Answers => answers::run(place, report),
            Self::Inbox => inbox::run(place, report),
            Self::Neighbour => neighbour::run(place, report),
        }
    }
}
