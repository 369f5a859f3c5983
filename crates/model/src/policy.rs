//! Who may answer: the four policies, captured when a request is issued (V2).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::ClientId;

/// Which policy a daemon is set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The first valid vote of anybody.
    #[default]
    FirstResponder,
    /// Only the prompt's author, and the client whose load asked again.
    Designated,
    /// A quorum of the clients that were there when it was asked.
    Consensus,
    /// Only clients on this machine.
    LocalOnly,
}

impl Strategy {
    /// The name in configuration and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstResponder => "first-responder",
            Self::Designated => "designated",
            Self::Consensus => "consensus",
            Self::LocalOnly => "local-only",
        }
    }
}

/// A policy as it was when a request was issued; later changes of settings do not touch it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "kebab-case")]
pub enum Capture {
    /// The first valid vote of anybody.
    FirstResponder,
    /// Only these clients; a prompt without an author makes it first-responder.
    Designated {
        /// They.
        clients: BTreeSet<ClientId>,
    },
    /// A quorum of these clients.
    Consensus {
        /// They.
        clients: BTreeSet<ClientId>,
        /// How many of them must agree.
        quorum: usize,
    },
    /// Only clients on this machine.
    LocalOnly,
}

impl Capture {
    /// Captures a strategy for a request. `authors` are the prompt's author and the client that asked again;
    /// `clients` those that are registered now; `quorum` the configured one.
    pub fn issue(
        strategy: Strategy,
        authors: BTreeSet<ClientId>,
        clients: &BTreeSet<ClientId>,
        quorum: Option<usize>,
    ) -> Self {
        match strategy {
            Strategy::FirstResponder => Self::FirstResponder,
            Strategy::Designated if authors.is_empty() => Self::FirstResponder,
            Strategy::Designated => Self::Designated { clients: authors },
            Strategy::Consensus => {
                let majority = clients.len() / 2 + 1;
                let quorum = quorum.map_or(majority, |quorum| quorum.clamp(1, clients.len().max(1)));
                Self::Consensus { clients: clients.clone(), quorum }
            }
            Strategy::LocalOnly => Self::LocalOnly,
        }
    }

    /// The strategy that it came from.
    pub fn strategy(&self) -> Strategy {
        match self {
            Self::FirstResponder => Strategy::FirstResponder,
            Self::Designated { .. } => Strategy::Designated,
            Self::Consensus { .. } => Strategy::Consensus,
            Self::LocalOnly => Strategy::LocalOnly,
        }
    }
}

/// Who votes, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Voter {
    /// The client id that the vote named.
    pub client: Option<ClientId>,
    /// Whether the connection came from this machine.
    pub loopback: bool,
    /// Whether it came through a proxy, so that `loopback` says nothing about the person.
    pub proxied: bool,
}

/// One vote that did not decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// Whose.
    pub client: ClientId,
    /// What for: equal keys agree. For a question it holds the answers (V2: consensus counts answers, not
    /// only the option).
    pub choice: String,
}

/// Why a voter may not settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forbidden {
    /// Not one of those whom the policy names.
    DesignatedMismatch,
    /// Not on this machine, or not provably.
    RemoteNotAllowed,
}

impl Forbidden {
    /// The reason on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DesignatedMismatch => "designated_mismatch",
            Self::RemoteNotAllowed => "remote_not_allowed",
        }
    }
}

/// What a vote does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It decides.
    Settles,
    /// It counts, and does not decide yet.
    Counts,
    /// This client has voted already; its first vote stands.
    Repeats,
    /// It may not.
    Refused(Forbidden),
}

/// How far a consensus is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Votes counted.
    pub received: usize,
    /// Votes that the leading choice still needs; at least 1.
    pub needed: usize,
    /// Votes that decide.
    pub quorum: usize,
}

/// Judges a vote for `choice`.
pub fn judge(capture: &Capture, ballots: &[Ballot], voter: &Voter, choice: &str) -> Verdict {
    match capture {
        Capture::FirstResponder => Verdict::Settles,
        Capture::Designated { clients } => match &voter.client {
            Some(client) if clients.contains(client) => Verdict::Settles,
            _ => Verdict::Refused(Forbidden::DesignatedMismatch),
        },
        Capture::LocalOnly if voter.loopback && !voter.proxied => Verdict::Settles,
        Capture::LocalOnly => Verdict::Refused(Forbidden::RemoteNotAllowed),
        Capture::Consensus { clients, quorum } => match &voter.client {
            Some(client) if !clients.contains(client) => Verdict::Refused(Forbidden::DesignatedMismatch),
            None => Verdict::Refused(Forbidden::DesignatedMismatch),
            Some(client) if ballots.iter().any(|ballot| ballot.client == *client) => Verdict::Repeats,
            Some(_) => {
                let agreeing = ballots.iter().filter(|ballot| ballot.choice == choice).count() + 1;
                if agreeing >= *quorum { Verdict::Settles } else { Verdict::Counts }
            }
        },
    }
}

/// Counts the ballots of a consensus; `None` for other policies.
pub fn tally(capture: &Capture, ballots: &[Ballot]) -> Option<Tally> {
    let Capture::Consensus { quorum, .. } = capture else { return None };
    let best = ballots
        .iter()
        .map(|ballot| ballots.iter().filter(|other| other.choice == ballot.choice).count())
        .max()
        .unwrap_or(0);
    Some(Tally { received: ballots.len(), needed: quorum.saturating_sub(best).max(1), quorum: *quorum })
}
