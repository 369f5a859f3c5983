//! The stored form of every event. A ledger holds them for ever: a change here must still read the old form.

use std::collections::BTreeSet;

use holdpoint_model::answers::Answers;
use holdpoint_model::ids::{Generation, Micros};
use holdpoint_model::policy::{Ballot, Capture, Forbidden};
use holdpoint_model::session::{
    Answerer, Asking, Body, CloseCause, Decision, Event, Info, Origin, Settlement, TurnEnd, UnaskedCause,
};
use serde_json::{Value, json};

use crate::common::{id, key, permission_options, prompt_of, question_options, questions};

fn asking(capture: Capture, ballots: Vec<Ballot>) -> Asking {
    Asking { request: id("r1"), life: 2, since: Micros(1_700_000_000_000_000), capture, ballots }
}

fn somebody() -> Answerer {
    Answerer { client_id: Some(id("ann")), name: Some("Ann".to_owned()), surface: "web".to_owned() }
}

fn nobody() -> Answerer {
    Answerer { client_id: None, name: None, surface: "http".to_owned() }
}

fn settled(decision: Decision, by: Answerer, response: Option<&str>) -> Event {
    let settlement = Settlement { decision, by, at: Micros(7), response: response.map(id), policy: None };
    Event::Settled { generation: Generation(3), settlement }
}

fn closed(cause: CloseCause) -> Event {
    Event::Closed { generation: Generation(3), cause }
}

fn life() -> Vec<Event> {
    let bare = Info {
        workspace_cwd: "/w".into(),
        agent: "holdpoint".into(),
        source_type: None,
        source_id: None,
        approval_mode: None,
    };
    let whole = Info { source_type: Some("slack".into()), source_id: Some("C1/2".into()), ..bare.clone() };
    vec![
        Event::Opened { info: bare },
        Event::Opened { info: whole },
        Event::LifeStarted { life: 2, recovered: false },
        Event::LifeStarted { life: 3, recovered: true },
        Event::ClientRegistered { client: id("ann") },
        Event::Titled { title: "Say \"hi\"".into() },
        Event::Deleted,
    ]
}

fn turns() -> Vec<Event> {
    let completed = |parked| TurnEnd::Completed { stop_reason: "end_turn".into(), parked };
    let failed = |code: Option<&str>| TurnEnd::Failed { message: "no".into(), code: code.map(Into::into) };
    let ended = |outcome| Event::TurnEnded { prompt: id("p1"), outcome };
    vec![
        Event::PromptQueued { prompt: prompt_of("p1", Some("ann")) },
        Event::PromptQueued { prompt: prompt_of("p1", None) },
        Event::PromptRemoved { prompt: id("p1") },
        Event::TurnStarted { origin: Origin::Client { prompt: prompt_of("p1", None) } },
        Event::TurnStarted { origin: Origin::Restore { id: id("p1"), client: Some(id("ann")) } },
        Event::TurnStarted { origin: Origin::Continue { id: id("p1"), client: None } },
        Event::TurnRequeued { prompt: id("p1") },
        ended(completed(false)),
        ended(completed(true)),
        ended(failed(None)),
        ended(failed(Some("agent_error"))),
        ended(TurnEnd::Interrupted),
    ]
}

fn asked() -> Vec<Event> {
    let names = BTreeSet::from([id("ann"), id("bob")]);
    let generation = Generation(3);
    let ballot = Ballot { client: id("ann"), choice: "decline".into() };
    let causes =
        [UnaskedCause::TimedOut, UnaskedCause::SessionClosed, UnaskedCause::Aborted, UnaskedCause::AgentGone];
    let mut events = vec![
        Event::Asked {
            question: id("q_1"),
            generation,
            call: key(Some("t1"), "c1"),
            prompt: Some(id("p1")),
            author: Some(id("ann")),
            title: "This?".into(),
            body: Body::UserQuestion { questions: questions("This?") },
            options: question_options(),
            asking: asking(Capture::FirstResponder, Vec::new()),
        },
        Event::Asked {
            question: id("q_1"),
            generation,
            call: key(None, "c1"),
            prompt: None,
            author: None,
            title: "rm".into(),
            body: Body::Permission {
                action: json!({"toolCallId": "c1", "kind": "execute", "rawInput": {"n": [1, 2.5, null]}}),
            },
            options: permission_options(),
            asking: asking(Capture::LocalOnly, Vec::new()),
        },
        Event::Reasked {
            generation,
            asking: asking(Capture::Designated { clients: names.clone() }, Vec::new()),
        },
        Event::Reasked {
            generation,
            asking: asking(Capture::Consensus { clients: names, quorum: 2 }, vec![ballot.clone()]),
        },
        Event::Reissued { generation, request: id("r2") },
        Event::Voted { generation, ballot: ballot.clone(), by: None },
        Event::Voted { generation, ballot, by: Some(crate::common::by(Some("ann"))) },
    ];
    events.extend(causes.map(|cause| Event::Unasked { generation, cause }));
    events.push(Event::Shown { generation, surface: "web".into() });
    events
}

fn ends() -> Vec<Event> {
    let answers = Answers::from_pairs([(0, "Red".to_owned()), (1, "A, B".to_owned())]);
    let mut events = Vec::from_iter(
        answers.map(|answers| settled(Decision::Answered { answers }, somebody(), Some("res1"))),
    );
    events.extend([
        settled(Decision::Selected { option_id: "proceed_always".into() }, nobody(), None),
        settled(Decision::Declined { option_id: Some("cancel".into()) }, somebody(), None),
        settled(Decision::Declined { option_id: None }, nobody(), Some("res2")),
        Event::Refused { generation: Generation(3), by: somebody(), reason: Forbidden::DesignatedMismatch },
        Event::Refused { generation: Generation(3), by: nobody(), reason: Forbidden::RemoteNotAllowed },
        Event::Delivered { generation: Generation(3) },
    ]);
    events.extend(
        [
            CloseCause::CancelledBeforeAnswer,
            CloseCause::UnreachableQuestion,
            CloseCause::TimedOut,
            CloseCause::OrphanRepair,
            CloseCause::SessionDeleted,
            CloseCause::ProcessRestarted,
            CloseCause::SessionClosed,
            CloseCause::Withdrawn,
        ]
        .map(closed),
    );
    events
}

/// One event a line, as it is stored.
fn written(events: &[Event]) -> String {
    let lines: Vec<_> = events
        .iter()
        .map(|event| serde_json::to_string(event).expect("an event is JSON, both ways"))
        .collect();
    for (event, line) in events.iter().zip(&lines) {
        assert_eq!(serde_json::from_str::<Event>(line).expect("an event is JSON, both ways"), *event);
        // By way of a value, too: an edge may read the kind first.
        let value: Value = serde_json::from_str(line).expect("an event is JSON, both ways");
        assert_eq!(value["type"], event.name(), "the name in the ledger is the tag");
        assert_eq!(serde_json::from_value::<Event>(value).expect("an event is JSON, both ways"), *event);
    }
    lines.join("\n")
}

#[test]
fn d1_the_stored_form_of_a_sessions_life_is_fixed() {
    insta::assert_snapshot!(written(&life()));
}

#[test]
fn d5_the_stored_form_of_prompts_and_turns_is_fixed() {
    insta::assert_snapshot!(written(&turns()));
}

#[test]
fn d1_the_stored_form_of_askings_is_fixed() {
    insta::assert_snapshot!(written(&asked()));
}

#[test]
fn d1_the_stored_form_of_ends_is_fixed() {
    insta::assert_snapshot!(written(&ends()));
}

#[test]
fn d1_every_event_has_a_pinned_form() {
    let mut names: Vec<_> = [life(), turns(), asked(), ends()].concat().iter().map(Event::name).collect();
    names.sort_unstable();
    names.dedup();
    // A new variant must be named in `Event::name`, and then belongs here.
    let expected = [
        "asked",
        "client_registered",
        "closed",
        "deleted",
        "delivered",
        "life_started",
        "opened",
        "prompt_queued",
        "prompt_removed",
        "reasked",
        "refused",
        "reissued",
        "settled",
        "shown",
        "titled",
        "turn_ended",
        "turn_requeued",
        "turn_started",
        "unasked",
        "voted",
    ];
    assert_eq!(names, expected);
}

#[test]
fn d1_fields_that_came_later_may_be_missing() {
    let old = [
        json!({"type": "life_started", "life": 1}),
        json!({"type": "turn_ended", "prompt": "p1", "outcome": {"end": "completed", "stopReason": "end_turn"}}),
    ];
    for event in old {
        assert!(serde_json::from_value::<Event>(event).is_ok());
    }
}

#[test]
fn d1_a_damaged_event_is_not_read() {
    for damaged in [
        json!({"type": "moved"}),
        json!({"type": "delivered"}),
        json!({"type": "delivered", "generation": -1}),
        json!({"type": "prompt_removed", "prompt": "not an id"}),
        json!({"type": "closed", "generation": 1, "cause": "bored"}),
    ] {
        assert!(serde_json::from_value::<Event>(damaged.clone()).is_err(), "{damaged}");
    }
}

#[test]
fn d1_the_names_of_causes_are_one() {
    for event in ends() {
        if let Event::Closed { cause, .. } = event {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }
}
