//! What ends a question without an answer, under each policy (WIRE c.4); what is told of one that ended long ago (c.6);
//! and what the audit calls each end (c.5).

use std::sync::Arc;
use std::time::Duration;

use holdpoint_ledger::MemoryLedger;
use holdpoint_model::policy::Strategy;
use serde_json::{Value, json};

use crate::rig::{Asked, Events, Life, Machine, Made, cancelled, kinds, say, select};
use crate::support::{Options, Request, Tune};
use crate::votes::{ALL, got, policy};

/// What ends an asking that nobody answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    TimeOut,
    Cancel,
    Delete,
    Shutdown,
}

const ENDS: [End; 4] = [End::TimeOut, End::Cancel, End::Delete, End::Shutdown];

impl End {
    /// The last event that is told of it.
    fn last(self) -> &'static str {
        match self {
            Self::TimeOut | Self::Cancel => "turn_complete",
            Self::Delete => "session_closed",
            Self::Shutdown => "session_died",
        }
    }

    fn cause(self) -> &'static str {
        match self {
            Self::TimeOut => "timed_out",
            Self::Cancel => "cancelled_before_answer",
            Self::Delete => "session_closed",
            Self::Shutdown => "",
        }
    }

    /// Brings it about.
    async fn happens(self, life: &Life, session: &Made) {
        let path = format!("/session/{}", session.id);
        let response = match self {
            // Nothing is done.
            Self::TimeOut => return,
            Self::Cancel => life.post(&format!("{path}/cancel"), None, &json!({})).await,
            Self::Delete => life.daemon.send(Request::new("DELETE", &path)).await,
            Self::Shutdown => return life.daemon.engine.stop().await,
        };
        assert_eq!(response.status, 204, "{self:?}: {response:?}");
    }
}

/// A session of two clients that is asked something, and its stream.
async fn asked_of_two(life: &Life) -> (Made, Asked, Events) {
    let session = life.make().await;
    life.join(&session).await;
    let mut events = life.events(&session).await;
    life.prompt(&session, Some(&session.client), "ask").await;
    let request = events.wait_for("permission_request").await["data"].clone();
    let asked = Asked {
        id: request["questionId"].as_str().unwrap().to_owned(),
        generation: request["generation"].as_u64().unwrap(),
        request: request["requestId"].as_str().unwrap().to_owned(),
    };
    (session, asked, events)
}

/// What is told of requests up to an event of this type, and that event.
async fn told_until(events: &mut Events, kind: &str) -> (Vec<Value>, Value) {
    let mut told = Vec::new();
    loop {
        let event = events.next().await.expect("the stream is open");
        if event["type"] == kind {
            return (told, event);
        }
        if event["type"].as_str().is_some_and(|kind| kind.starts_with("permission_")) {
            told.push(event);
        }
    }
}

#[tokio::test]
async fn c4_c5_r10_what_ends_a_question_that_nobody_answers_under_every_policy() {
    for strategy in ALL {
        for restore in [true, false] {
            for end in ENDS {
                ends(strategy, restore, end).await;
            }
        }
    }
}

async fn ends(strategy: Strategy, restore: bool, end: End) {
    let what = format!("{strategy:?}, restore {restore}, {end:?}");
    let machine = Machine::new();
    let tune = Tune { restore, ..policy(strategy) };
    let ask_timeout = (end == End::TimeOut).then_some(Duration::from_millis(50));
    let life = machine.start(Tune { ask_timeout, ..tune.clone() }).await;
    let (session, asked, mut events) = asked_of_two(&life).await;
    // Half of a consensus is none.
    let half = strategy == Strategy::Consensus && end != End::TimeOut;
    if half {
        let voted = life.vote(&session, &asked.request, Some(&session.client), &say("Blue")).await;
        assert_eq!(voted.status, 200, "{what}");
        events.wait_for("permission_partial_vote").await;
    }
    end.happens(&life, &session).await;
    let (told, last) = told_until(&mut events, end.last()).await;

    // With the flag on only a person's cancel ends it (R10, R13); a stop of the daemon never does (I12).
    let stays_open = end == End::Shutdown || (restore && end != End::Cancel);
    if end == End::Shutdown {
        assert!(told.is_empty(), "{what}: {told:#?}");
    } else {
        assert_eq!(kinds(&told), ["permission_resolved"], "{what}");
        let data = &told[0]["data"];
        let mut expected = json!({
            "requestId": asked.request,
            "outcome": { "outcome": "cancelled" },
            "questionId": asked.id,
            "generation": asked.generation,
            "cause": end.cause(),
        });
        if stays_open {
            expected["open"] = json!(true);
        }
        let mut data = data.clone();
        assert_eq!(data.as_object_mut().unwrap().remove("closedAt").is_some(), !stays_open, "{what}");
        assert_eq!(data, expected, "{what}: no voter, no answers");
        assert!(told[0].get("originatorClientId").is_none(), "{what}: {told:#?}");
    }
    match end {
        End::TimeOut if restore => {
            assert_eq!(
                (&last["data"]["stopReason"], &last["data"]["parked"]),
                (&json!("cancelled"), &json!(true))
            );
        }
        End::TimeOut => assert_eq!(last["data"]["stopReason"], "end_turn", "{what}"),
        End::Cancel => {
            assert!(last["data"]["promptCancelled"]["cancelledAt"].is_string(), "{what}: {last:#}")
        }
        End::Delete => assert_eq!(last["data"]["reason"], "client_close", "{what}"),
        End::Shutdown => assert_eq!(last["data"]["reason"], "daemon_shutdown", "{what}"),
    }
    life.stop().await;

    let life = machine.start(tune).await;
    let question = life.question(&asked).await;
    assert_eq!(question["state"], if stays_open { "open" } else { "closed" }, "{what}");
    if !stays_open {
        assert_eq!(question["outcome"]["cause"], end.cause(), "{what}");
    }
    let mut entries = life.audit(&asked).await;
    entries.retain(|entry| entry["kind"] != "question.delivered");
    let mut expected = vec![json!({ "kind": "permission.requested" })];
    if half {
        expected.push(json!({ "kind": "permission.voted" }));
    }
    expected.extend(match (end, stays_open) {
        (End::TimeOut, open) => {
            Some(json!({ "kind": "permission.timeout", "decisionType": "timeout", "closed": !open }))
        }
        (End::Shutdown, _) => None,
        (_, true) => Some(
            json!({ "kind": "question.unasked", "decisionType": "session-closed", "cause": end.cause() }),
        ),
        (_, false) => {
            Some(json!({ "kind": "question.closed", "decisionType": "session-closed", "cause": end.cause() }))
        }
    });
    has(&entries, &expected, &what);
    life.stop().await;
}

/// Whether the entries are these, with at least these fields.
fn has(entries: &[Value], expected: &[Value], what: &str) {
    assert_eq!(entries.len(), expected.len(), "{what}: {entries:#?}");
    for (entry, fields) in entries.iter().zip(expected) {
        for (key, value) in fields.as_object().unwrap() {
            assert_eq!(&entry[key], value, "{what}: {key} of {entry:#}");
        }
    }
}

/// The type that the audit gives to a decision of a policy (c.5).
fn decision_type(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::FirstResponder => "first-responder",
        Strategy::Designated => "designated-originator",
        Strategy::Consensus => "consensus-quorum",
        Strategy::LocalOnly => "local-only-loopback",
    }
}

/// The entry of a question's decision.
async fn resolution(life: &Life, asked: &Asked) -> Value {
    let entries = life.audit(asked).await;
    let found = entries.iter().find(|entry| entry["kind"] == "permission.resolved");
    found.unwrap_or_else(|| panic!("{entries:#?}")).clone()
}

#[tokio::test]
async fn c5_each_decision_has_the_type_of_what_decided_it() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let own = decision_type(strategy);
        // (the prompt, the vote, the decision, its type)
        let votes = [
            ("ask", say("Blue"), "answered", own),
            ("ask", select("cancel", json!({})), "declined", own),
            ("permit", select("proceed_always", json!({})), "selected", own),
            ("permit", select("cancel", json!({})), "declined", own),
            ("ask", cancelled(), "declined", "voter-cancelled"),
            ("permit", cancelled(), "declined", "voter-cancelled"),
        ];
        for (prompt, vote, decision, kind) in votes {
            let session = life.make().await;
            life.prompt(&session, Some(&session.client), prompt).await;
            let asked = life.asked(&session, 1).await.remove(0);
            let voted = life.vote(&session, &asked.request, Some(&session.client), &vote).await;
            assert_eq!(voted.status, 200, "{strategy:?} {vote}: {voted:?}");
            let entry = resolution(&life, &asked).await;
            let fields = json!({
                "decision": decision,
                "decisionType": kind,
                "policy": strategy.as_str(),
                "by": { "clientId": session.client, "surface": "http" },
            });
            has(&[entry], &[fields], &format!("{strategy:?} {vote}"));
        }
        life.stop().await;
    }
}

#[tokio::test]
async fn c5_without_an_author_the_designated_policy_is_the_first_responders() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Designated)).await;
    let session = life.make().await;
    life.prompt(&session, None, "ask").await;
    let asked = life.asked(&session, 1).await.remove(0);
    assert_eq!(life.vote(&session, &asked.request, None, &say("Blue")).await.status, 200);
    let entry = resolution(&life, &asked).await;
    let fields = json!({ "decisionType": "first-responder", "policy": "first-responder" });
    has(&[entry], &[fields], "nobody's prompt");
    life.stop().await;
}

#[tokio::test]
async fn c5_one_that_nobody_asks_is_judged_by_the_policy_of_now_and_the_audit_says_so() {
    for strategy in ALL {
        let before =
            if strategy == Strategy::Designated { Strategy::LocalOnly } else { Strategy::Designated };
        let machine = Machine::new();
        let life = machine.start(policy(before)).await;
        let (session, asked) = life.asking().await;
        life.stop().await;
        let life = machine.start(policy(strategy)).await;
        let voted = life.vote(&session, &asked.request, Some(&session.client), &say("Blue")).await;
        assert_eq!(voted.status, 200, "{strategy:?}: {voted:?}");
        let entry = resolution(&life, &asked).await;
        let fields = json!({ "decisionType": decision_type(strategy), "policy": strategy.as_str() });
        has(&[entry], &[fields], &format!("{before:?}, then {strategy:?}"));
        life.stop().await;
    }
}

#[tokio::test]
async fn c5_what_the_agent_takes_back_is_cancelled_by_the_agent() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let session = life.make().await;
        let mut events = life.events(&session).await;
        life.prompt(&session, Some(&session.client), "leave").await;
        let (told, _) = told_until(&mut events, "turn_complete").await;
        assert_eq!(kinds(&told), ["permission_request", "permission_resolved"], "{strategy:?}");
        assert_eq!(told[1]["data"]["outcome"], json!({ "outcome": "cancelled" }));
        assert!(told[1]["data"].get("voterClientId").is_none(), "{told:#?}");
        let path = format!("/questions/{}/audit", told[0]["data"]["questionId"].as_str().unwrap());
        let entries = life.get(&path).await.body["entries"].as_array().unwrap().clone();
        let expected = [
            json!({ "kind": "permission.requested", "policy": strategy.as_str() }),
            json!({ "kind": "question.closed", "cause": "withdrawn", "decisionType": "agent-cancelled" }),
        ];
        has(&entries, &expected, &format!("{strategy:?}"));
        life.stop().await;
    }
}

/// A vote for a question that ended before more than 512 others (c.6): more than the peer remembers, and than a session
/// keeps in memory.
async fn late_beyond_what_is_kept(life: &Life) {
    let (session, first) = life.asking().await;
    let client = Some(session.client.as_str());
    assert_eq!(life.vote(&session, &first.request, client, &say("Blue")).await.status, 200);
    for _ in 0..9 {
        life.prompt(&session, client, "ask 60").await;
        let votes = life.asked(&session, 60).await;
        let votes = votes.iter().map(|asked| {
            let (session, client) = (&session, client);
            async move { life.vote(session, &asked.request, client, &say("Red")).await.status }
        });
        assert!(futures::future::join_all(votes).await.iter().all(|status| *status == 200));
    }
    let mut events = life.events(&session).await;
    life.told(&session, &mut events).await;
    let late = life.vote(&session, &first.request, client, &say("Red")).await;
    assert_eq!((late.status, &late.body["answers"]), (404, &json!({ "0": "Blue" })), "{late:?}");
    let told = life.told(&session, &mut events).await;
    assert_eq!(kinds(&told), ["permission_already_resolved"]);
    let data = &told[0]["data"];
    assert!(data["answeredAt"].is_string(), "{data:#}");
    for key in ["answers", "answeredBy", "answeredAt", "questionId", "requestId"] {
        assert_eq!(data[key], late.body[key], "{key}");
    }
}

/// Over a ledger in memory: the disk has no part in what the policies do.
async fn in_memory(strategy: Strategy) {
    let machine = Machine::new();
    let options = Options { tune: policy(strategy), ..Options::default() };
    let life = machine.start_over(options, Arc::new(MemoryLedger::new())).await;
    late_beyond_what_is_kept(&life).await;
    life.stop().await;
}

#[tokio::test]
async fn v1_a_late_vote_is_told_whatever_the_age() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    late_beyond_what_is_kept(&life).await;
    life.stop().await;
}

#[tokio::test]
async fn v1_a_late_vote_is_told_whatever_the_age_under_designated() {
    in_memory(Strategy::Designated).await;
}

#[tokio::test]
async fn v1_a_late_vote_is_told_whatever_the_age_under_consensus() {
    in_memory(Strategy::Consensus).await;
}

#[tokio::test]
async fn v1_a_late_vote_is_told_whatever_the_age_under_local_only() {
    in_memory(Strategy::LocalOnly).await;
}

#[tokio::test]
async fn c4_the_sixty_fifth_question_is_cancelled_by_itself_under_every_policy() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let session = life.make().await;
        let mut events = life.events(&session).await;
        life.prompt(&session, Some(&session.client), "ask 65").await;
        let asked = life.asked(&session, 64).await;
        for asked in &asked {
            let voted = life.vote(&session, &asked.request, Some(&session.client), &say("Red")).await;
            assert_eq!(voted.status, 200, "{strategy:?}");
        }
        let end = events.wait_for("turn_complete").await;
        assert_eq!(end["data"]["stopReason"], "cancelled", "the agent was told of the last one: {end:#}");
        let results = machine.histories.results(&session.id);
        assert_eq!(results.iter().filter(|result| result.is_none()).count(), 1, "{strategy:?}");
        life.stop().await;
    }
}

#[tokio::test]
async fn v2_a_vote_that_would_only_count_while_nobody_asks_has_it_asked_again() {
    for route in ["vote", "answer"] {
        let machine = Machine::new();
        let life = machine.start(policy(Strategy::Consensus)).await;
        let (session, asked, _) = asked_of_two(&life).await;
        let other = life.join(&session).await;
        life.stop().await;

        // Loaded by nobody: it is not asked (E6). The two are heard of, so one vote is not enough.
        let life = machine.start(policy(Strategy::Consensus)).await;
        life.load(&session, None).await;
        for client in [&session.client, &other] {
            let beat = format!("/session/{}/heartbeat", session.id);
            assert_eq!(life.post(&beat, Some(client), &json!({})).await.status, 200);
        }
        assert!(life.asked(&session, 0).await.is_empty());
        let body = json!({ "generation": asked.generation, "answers": { "0": "Blue" } });
        let refused = match route {
            "vote" => life.vote(&session, &asked.request, Some(&other), &say("Blue")).await,
            _ => life.answer(&asked, Some(&other), &body).await,
        };
        assert_eq!(got(&refused), (409, "not_asked"), "{route}: {refused:?}");
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(life.question(&asked).await["state"], "open");

        let again = life.asked(&session, 1).await.remove(0);
        assert_eq!((&again.id, again.request == asked.request), (&asked.id, false));
        for (client, state) in [(&other, "open"), (&session.client, "answered")] {
            let voted = life.vote(&session, &again.request, Some(client), &say("Blue")).await;
            assert_eq!(voted.status, 200, "{route}: {voted:?}");
            assert_eq!(life.question(&asked).await["state"], state, "{route}");
        }
        life.stop().await;
    }
}
