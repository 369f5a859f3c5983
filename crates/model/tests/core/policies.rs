//! Who may answer (WIRE c.2, c.3; V2).

use std::collections::BTreeSet;

use crate::common::{Driven, context, id, voter};
use holdpoint_model::ids::ClientId;
use holdpoint_model::policy::{Ballot, Capture, Forbidden, Strategy, Verdict, Voter, judge, tally};
use holdpoint_model::session::{Decision, Event, Rejection};
use serde_json::{Value, json};

fn clients(names: &[&str]) -> BTreeSet<ClientId> {
    names.iter().map(|name| id(*name)).collect()
}

fn ballots(votes: &[(&str, &str)]) -> Vec<Ballot> {
    votes
        .iter()
        .map(|(client, choice)| Ballot { client: id(*client), choice: (*choice).to_owned() })
        .collect()
}

fn from(client: Option<&str>, loopback: bool, proxied: bool) -> Voter {
    Voter { client: client.map(id), loopback, proxied }
}

const MISMATCH: Verdict = Verdict::Refused(Forbidden::DesignatedMismatch);
const REMOTE: Verdict = Verdict::Refused(Forbidden::RemoteNotAllowed);

#[test]
fn v2_the_first_valid_vote_of_anybody() {
    for client in [None, Some("ann")] {
        for (loopback, proxied) in [(true, false), (false, false), (true, true)] {
            let voter = from(client, loopback, proxied);
            assert_eq!(judge(&Capture::FirstResponder, &[], &voter, "a"), Verdict::Settles);
        }
    }
}

#[test]
fn v2_designated_is_for_the_named_and_without_an_author_for_anybody() {
    let issue =
        |authors: &[&str]| Capture::issue(Strategy::Designated, clients(authors), &clients(&["bob"]), None);
    assert_eq!(issue(&[]), Capture::FirstResponder);
    let capture = issue(&["ann"]);
    assert_eq!(capture.strategy(), Strategy::Designated);
    for (client, verdict) in [(Some("ann"), Verdict::Settles), (Some("bob"), MISMATCH), (None, MISMATCH)] {
        assert_eq!(judge(&capture, &[], &from(client, true, false), "a"), verdict);
    }
}

#[test]
fn v2_local_only_refuses_what_came_from_elsewhere_or_through_a_proxy() {
    let table = [
        (true, false, Verdict::Settles),
        (true, true, REMOTE),
        (false, false, REMOTE),
        (false, true, REMOTE),
    ];
    for (loopback, proxied, verdict) in table {
        for client in [None, Some("ann")] {
            assert_eq!(judge(&Capture::LocalOnly, &[], &from(client, loopback, proxied), "a"), verdict);
        }
    }
}

#[test]
fn v2_the_quorum_is_a_majority_or_what_is_set_capped_to_those_who_are_there() {
    // (clients, set, quorum)
    let table = [
        (0, None, 1),
        (1, None, 1),
        (2, None, 2),
        (3, None, 2),
        (4, None, 3),
        (5, None, 3),
        (3, Some(1), 1),
        (3, Some(3), 3),
        (3, Some(9), 3),
        (3, Some(0), 1),
        (0, Some(5), 1),
    ];
    for (count, set, expected) in table {
        let names: BTreeSet<ClientId> = (0..count).map(|n| id(format!("c{n}"))).collect();
        let capture = Capture::issue(Strategy::Consensus, BTreeSet::new(), &names, set);
        assert_eq!(capture, Capture::Consensus { clients: names, quorum: expected }, "{count} {set:?}");
    }
}

#[test]
fn v2_a_consensus_counts_first_votes_of_those_who_were_there() {
    let capture = Capture::Consensus { clients: clients(&["ann", "bob", "cyd"]), quorum: 2 };
    let cases = [
        (vec![], Some("ann"), "a", Verdict::Counts),
        (vec![("ann", "a")], Some("bob"), "a", Verdict::Settles),
        (vec![("ann", "a")], Some("bob"), "b", Verdict::Counts),
        (vec![("ann", "a"), ("bob", "b")], Some("cyd"), "b", Verdict::Settles),
        (vec![("ann", "a"), ("bob", "b")], Some("cyd"), "c", Verdict::Counts),
        // The first vote stands, also against a change of mind.
        (vec![("ann", "a")], Some("ann"), "a", Verdict::Repeats),
        (vec![("ann", "a"), ("bob", "b")], Some("ann"), "b", Verdict::Repeats),
        // Late joiners and the nameless.
        (vec![("ann", "a")], Some("dan"), "a", MISMATCH),
        (vec![("ann", "a")], None, "a", MISMATCH),
    ];
    for (votes, client, choice, verdict) in cases {
        assert_eq!(
            judge(&capture, &ballots(&votes), &from(client, false, false), choice),
            verdict,
            "{votes:?}"
        );
    }
    // With nobody there, nobody can decide.
    let empty = Capture::Consensus { clients: BTreeSet::new(), quorum: 1 };
    assert_eq!(judge(&empty, &[], &from(Some("ann"), true, false), "a"), MISMATCH);
}

#[test]
fn v2_the_tally_says_how_many_the_leader_still_needs() {
    let capture = Capture::Consensus { clients: clients(&["a", "b", "c", "d"]), quorum: 3 };
    let count = |votes: &[(&str, &str)]| {
        let tally = tally(&capture, &ballots(votes)).unwrap();
        (tally.received, tally.needed, tally.quorum)
    };
    assert_eq!(count(&[]), (0, 3, 3));
    assert_eq!(count(&[("a", "x")]), (1, 2, 3));
    assert_eq!(count(&[("a", "x"), ("b", "y")]), (2, 2, 3));
    assert_eq!(count(&[("a", "x"), ("b", "y"), ("c", "x")]), (3, 1, 3));
    assert_eq!(tally(&Capture::FirstResponder, &[]), None);
}

fn asked(strategy: Strategy, there: &[&str]) -> Driven {
    let mut driven = Driven::new(context(true, strategy));
    for client in there {
        driven.attach(client);
    }
    driven.prompt("p1", there.first().copied());
    driven.ask(Some("t1"), "c1", "This?");
    driven
}

const ALL: [Strategy; 4] =
    [Strategy::FirstResponder, Strategy::Designated, Strategy::Consensus, Strategy::LocalOnly];

#[test]
fn v1_the_outcome_cancelled_settles_for_every_policy_and_every_voter() {
    for strategy in ALL {
        for voter in
            [from(None, false, false), from(Some("eve"), false, true), from(Some("ann"), true, false)]
        {
            let mut driven = asked(strategy, &["ann", "bob", "cyd"]);
            let events = driven.vote_with("r1", voter, None, None).unwrap();
            assert!(matches!(
                events.as_slice(),
                [Event::Settled { settlement, .. }] if settlement.decision == Decision::Declined { option_id: None }
            ));
        }
    }
}

#[test]
fn v1_an_option_that_is_not_offered_is_refused_before_the_policy_is_asked() {
    for strategy in ALL {
        let mut driven = asked(strategy, &["ann", "bob"]);
        let vote = driven.vote_with("r1", from(None, false, false), Some("nope"), None);
        assert!(matches!(vote, Err(Rejection::InvalidOption { .. })), "{vote:?}");
    }
}

#[test]
fn v1_one_who_may_not_changes_nothing() {
    let cases = [
        (Strategy::Designated, from(Some("bob"), true, false), Forbidden::DesignatedMismatch),
        (Strategy::Consensus, from(None, true, false), Forbidden::DesignatedMismatch),
        (Strategy::LocalOnly, from(Some("ann"), false, false), Forbidden::RemoteNotAllowed),
        (Strategy::LocalOnly, from(Some("ann"), true, true), Forbidden::RemoteNotAllowed),
    ];
    for (strategy, voter, why) in cases {
        let mut driven = asked(strategy, &["ann", "bob"]);
        let before = driven.session.clone();
        for option in ["proceed_once", "cancel"] {
            let vote = driven.vote_with("r1", voter.clone(), Some(option), Some(json!({"0": "Red"})));
            assert!(matches!(vote, Err(Rejection::Forbidden { reason, .. }) if reason == why));
        }
        assert_eq!(driven.session, before);
    }
}

#[test]
fn v2_a_consensus_on_a_question_is_one_on_the_answers() {
    let mut driven = asked(Strategy::Consensus, &["ann", "bob", "cyd"]);
    driven.attach("dan");
    let mut vote = |client: &str, option: &str, answers: Value| {
        let events = driven.vote_with("r1", voter(Some(client)), Some(option), Some(answers));
        events.map(|events| events.iter().map(Event::name).collect::<Vec<_>>())
    };
    assert_eq!(vote("ann", "proceed_once", json!({"0": "Red"})), Ok(vec!["voted"]));
    assert_eq!(vote("bob", "proceed_once", json!({"0": "Blue"})), Ok(vec!["voted"]));
    assert_eq!(vote("bob", "proceed_once", json!({"0": "Red"})), Ok(vec![]), "the first vote stands");
    assert!(matches!(vote("dan", "proceed_once", json!({"0": "Red"})), Err(Rejection::Forbidden { .. })));
    assert_eq!(vote("cyd", "proceed_once", json!({"0": "Blue"})), Ok(vec!["settled"]));
}

#[test]
fn v2_a_no_agrees_with_a_no_however_it_was_said() {
    let mut driven = asked(Strategy::Consensus, &["ann", "bob"]);
    assert_eq!(driven.vote("r1", Some("ann"), Some("cancel")).unwrap()[0].name(), "voted");
    let decline = holdpoint_model::session::Command::Answer {
        question: id("q_1"),
        generation: holdpoint_model::ids::Generation(1),
        voter: voter(Some("bob")),
        by: crate::common::by(Some("bob")),
        choice: holdpoint_model::session::Choice::Decline,
        response: None,
    };
    assert_eq!(driven.names(decline), ["settled"]);
}

#[test]
fn v2_no_text_can_pass_for_two_answers() {
    let mut driven = Driven::new(context(true, Strategy::Consensus));
    driven.attach("ann");
    driven.attach("bob");
    driven.prompt("p1", None);
    let two = [crate::common::questions("This?"), crate::common::questions("That?")].concat();
    let command =
        driven.ask_command(Some("t1"), "c1", holdpoint_model::session::Body::UserQuestion { questions: two });
    driven.go(command);
    let mut vote = |client: &str, answers: Value| {
        driven.vote_with("r1", voter(Some(client)), Some("proceed_once"), Some(answers)).unwrap()[0].name()
    };
    assert_eq!(vote("ann", json!({"0": "A\n1=B"})), "voted");
    assert_eq!(vote("bob", json!({"0": "A", "1": "B"})), "voted");
}

#[test]
fn v2_after_a_restart_a_consensus_counts_who_is_there_again() {
    /// The set quorum, those who came back, who votes, and the end.
    type Row<'a> = (Option<usize>, &'a [&'a str], Option<&'a str>, Result<&'a str, &'a str>);
    let table: [Row<'_>; 9] = [
        // A vote counts as attached, so one who is there alone decides alone, whatever quorum is set: it is capped
        // to those who are there.
        (None, &[], Some("ann"), Ok("settled")),
        (Some(3), &[], Some("cyd"), Ok("settled")),
        (None, &["ann"], Some("ann"), Ok("settled")),
        // With two, both must agree, and their votes need an asking to be counted in.
        (None, &["ann"], Some("bob"), Err("asked again")),
        (None, &["ann", "bob"], Some("ann"), Err("asked again")),
        (Some(1), &["ann", "bob"], Some("ann"), Ok("settled")),
        // Those who were never here, and the nameless, may not.
        (None, &[], Some("eve"), Err("designated_mismatch")),
        (None, &["ann"], Some("eve"), Err("designated_mismatch")),
        (None, &["ann"], None, Err("designated_mismatch")),
    ];
    for (quorum, back, voter, end) in table {
        let mut driven = asked(Strategy::Consensus, &["ann", "bob", "cyd"]);
        driven.context.quorum = quorum;
        driven.restart();
        back.iter().for_each(|client| driven.attach(client));
        let vote = driven.vote("r1", voter, Some("proceed_once"));
        match (vote, end) {
            (Ok(events), Ok(name)) => assert_eq!(events[0].name(), name, "{quorum:?} {back:?} {voter:?}"),
            (Err(rejection), Err(says)) => {
                assert!(rejection.to_string().contains(says), "{back:?} {voter:?}: {rejection}");
            }
            (got, _) => panic!("{quorum:?} {back:?} {voter:?}: {got:?}"),
        }
    }
}

#[test]
fn v2_a_re_hang_captures_anew_and_drops_partial_votes() {
    let mut driven = asked(Strategy::Consensus, &["ann", "bob", "cyd"]);
    assert_eq!(driven.vote("r1", Some("bob"), Some("proceed_once")).unwrap()[0].name(), "voted");
    driven.restart();
    driven.attach("ann");
    driven.attach("bob");
    let again = driven.ask(Some("t1"), "c1", "This?");
    let [Event::Reasked { asking, .. }] = again.as_slice() else { panic!("{again:?}") };
    assert_eq!(asking.capture, Capture::Consensus { clients: clients(&["ann", "bob"]), quorum: 2 });
    assert!(asking.ballots.is_empty());
    // cyd was there before the restart only.
    let late = driven.vote("r2", Some("cyd"), Some("proceed_once"));
    assert!(matches!(late, Err(Rejection::Forbidden { reason: Forbidden::DesignatedMismatch, .. })));
    assert_eq!(driven.vote("r2", Some("ann"), Some("proceed_once")).unwrap()[0].name(), "voted");
    // R17: the old request id is the same question, and its votes are counted together.
    assert_eq!(driven.vote("r1", Some("bob"), Some("proceed_once")).unwrap()[0].name(), "settled");
}

#[test]
fn v2_the_policy_is_that_of_the_time_of_asking() {
    for (issued, later) in ALL.into_iter().flat_map(|a| ALL.map(|b| (a, b))) {
        let mut driven = asked(issued, &["ann", "bob"]);
        driven.context.strategy = later;
        let Some((_, asking)) = driven.session.asked_now().next() else { panic!("it is asked") };
        assert_eq!(asking.capture.strategy(), issued, "a change of settings does not touch it");
        driven.restart();
        driven.attach("ann");
        driven.ask(Some("t1"), "c1", "This?");
        let Some((_, asking)) = driven.session.asked_now().next() else { panic!("it is asked") };
        assert_eq!(asking.capture.strategy(), later, "a re-hang captures anew");
    }
}

#[test]
fn v2_names_of_strategies_are_those_of_the_wire() {
    let names = ["first-responder", "designated", "consensus", "local-only"];
    for (strategy, name) in ALL.into_iter().zip(names) {
        assert_eq!(strategy.as_str(), name);
        assert_eq!(serde_json::to_value(strategy).unwrap(), json!(name));
    }
    assert_eq!(Forbidden::DesignatedMismatch.as_str(), "designated_mismatch");
    assert_eq!(Forbidden::RemoteNotAllowed.as_str(), "remote_not_allowed");
}
