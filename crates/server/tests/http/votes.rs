//! The vote routes, row by row (WIRE c.2, c.6; V1, V3, V4, R16, R17).

use holdpoint_model::policy::Strategy;
use serde_json::{Value, json};

use crate::rig::{Asked, Events, Life, Machine, Made, cancelled, kinds, say, select};
use crate::support::{Request, Response, Tune};

pub(crate) const ALL: [Strategy; 4] =
    [Strategy::FirstResponder, Strategy::Designated, Strategy::Consensus, Strategy::LocalOnly];

pub(crate) fn policy(strategy: Strategy) -> Tune {
    Tune { strategy, ..Tune::default() }
}

/// The status and the code (`-` for an error without one).
pub(crate) fn got(response: &Response) -> (u16, &str) {
    let code = response.code().unwrap_or(if response.body.get("error").is_some() { "-" } else { "" });
    (response.status, code)
}

/// One row that leaves the question as it is: what is wrong, the vote, and what comes of it.
struct Row {
    what: &'static str,
    session: String,
    request: String,
    client: Option<String>,
    body: Value,
    status: u16,
    code: &'static str,
    fields: Value,
}

/// The rows of c.6 (and the order of c.2) that change nothing and tell nobody anything.
fn harmless(session: &Made, asked: &Asked, other: &Made, other_asked: &Asked) -> Vec<Row> {
    let good = say("Blue");
    let nobody = uuid::Uuid::new_v4().to_string();
    let (s, r) = (session.id.as_str(), asked.request.as_str());
    let known = Some(session.client.as_str());
    let row =
        |what, (session, request): (&str, &str), client: Option<&str>, body: &Value, status, code, fields| {
            Row {
                what,
                session: session.to_owned(),
                request: request.to_owned(),
                client: client.map(ToOwned::to_owned),
                body: body.clone(),
                status,
                code,
                fields,
            }
        };
    let missing = |session: &str, request: &str| json!({ "sessionId": session, "requestId": request });
    let sentinel = select("__cancelled__", json!({}));
    let unknown = json!({ "sessionId": s, "clientId": "client_unknown" });
    let mut rows = vec![
        row("an unknown request", (s, "nothing"), known, &good, 404, "-", missing(s, "nothing")),
        row("a request id that is none", (s, "a%20b"), known, &good, 404, "-", missing(s, "a b")),
        row(
            "a request of another session",
            (s, &other_asked.request),
            known,
            &good,
            404,
            "-",
            missing(s, &other_asked.request),
        ),
        row(
            "ours, asked of another session",
            (&other.id, r),
            Some(&other.client),
            &good,
            404,
            "-",
            missing(&other.id, r),
        ),
        row(
            "a session that is not there",
            (&nobody, r),
            known,
            &good,
            404,
            "session_not_found",
            json!({ "sessionId": nobody }),
        ),
        row("an unknown client", (s, r), Some("client_unknown"), &good, 400, "invalid_client_id", unknown),
        row("a malformed client", (s, r), Some("a b"), &good, 400, "invalid_client_id", json!({})),
        row(
            "the sentinel",
            (s, r),
            known,
            &sentinel,
            400,
            "invalid_option_id",
            json!({ "requestId": r, "optionId": "__cancelled__" }),
        ),
        row(
            "an option that is not offered",
            (s, r),
            known,
            &select("proceed_always", json!({})),
            400,
            "invalid_option_id",
            json!({ "requestId": r, "optionId": "proceed_always" }),
        ),
        // c.2: what is checked first is what is told.
        row("a bad body of nobody", (&nobody, "x"), Some("client_unknown"), &json!({}), 400, "-", json!({})),
        row(
            "a bad client of nobody",
            (&nobody, "x"),
            Some("a b"),
            &good,
            400,
            "invalid_client_id",
            json!({}),
        ),
        row(
            "two unknowns",
            (&nobody, "x"),
            Some("client_unknown"),
            &good,
            404,
            "session_not_found",
            json!({}),
        ),
        row("an unknown request and client", (s, "x"), Some("client_unknown"), &good, 404, "-", json!({})),
        row(
            "the sentinel of a stranger",
            (s, r),
            Some("client_unknown"),
            &sentinel,
            400,
            "invalid_client_id",
            json!({}),
        ),
        row("the sentinel for nothing", (s, "x"), known, &sentinel, 404, "-", json!({})),
    ];
    for body in [
        json!({}),
        json!({ "outcome": null }),
        json!({ "outcome": "selected" }),
        json!({ "outcome": [] }),
        json!({ "outcome": {} }),
        json!({ "outcome": { "outcome": "maybe" } }),
        json!({ "outcome": { "outcome": "selected" } }),
        json!({ "outcome": { "outcome": "selected", "optionId": "" } }),
        json!({ "outcome": { "outcome": "selected", "optionId": 1 } }),
    ] {
        rows.push(row("a bad body", (s, r), known, &body, 400, "-", json!({})));
    }
    for answers in [
        json!(null),
        json!({}),
        json!([]),
        json!("Blue"),
        json!({ "1": "Blue" }),
        json!({ "00": "Blue" }),
        json!({ "0": 1 }),
        json!({ "0": "" }),
        json!({ "Which 0 0?": "Blue" }),
        json!({ "0": "Blue", "1": 7 }),
    ] {
        let body = select("proceed_once", answers);
        rows.push(row(
            "no valid answer",
            (s, r),
            known,
            &body,
            400,
            "invalid_answers",
            json!({ "requestId": r }),
        ));
    }
    rows
}

/// Sends a row to one of the two routes.
async fn send(life: &Life, row: &Row, legacy: bool) -> Response {
    let path = if legacy {
        format!("/permission/{}", row.request)
    } else {
        format!("/session/{}/permission/{}", row.session, row.request)
    };
    life.post(&path, row.client.as_deref(), &row.body).await
}

fn holds(body: &Value, fields: &Value, what: &str) {
    for (key, value) in fields.as_object().unwrap() {
        assert_eq!(&body[key], value, "{what}: {key} of {body:#}");
    }
}

#[tokio::test]
async fn v1_what_is_refused_changes_nothing_and_tells_nobody() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let (session, asked) = life.asking().await;
        let (other, other_asked) = life.asking().await;
        let mut events = life.events(&session).await;
        life.told(&session, &mut events).await;
        for row in harmless(&session, &asked, &other, &other_asked) {
            let response = send(&life, &row, false).await;
            assert_eq!(got(&response), (row.status, row.code), "{strategy:?}, {}: {response:?}", row.what);
            holds(&response.body, &row.fields, row.what);
        }
        assert!(life.told(&session, &mut events).await.is_empty(), "{strategy:?}");
        for asked in [&asked, &other_asked] {
            assert_eq!(life.question(asked).await["state"], "open", "{strategy:?}");
        }
        life.stop().await;
    }
}

#[tokio::test]
async fn v1_the_legacy_route_says_the_same_without_a_session() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let (session, asked) = life.asking().await;
        let (other, other_asked) = life.asking().await;
        let mut events = life.events(&session).await;
        life.told(&session, &mut events).await;
        for row in harmless(&session, &asked, &other, &other_asked) {
            // It finds the session by the request, so what is wrong with the named one does not show.
            if row.session != session.id || row.request == other_asked.request {
                continue;
            }
            let response = send(&life, &row, true).await;
            assert_eq!(got(&response), (row.status, row.code), "{strategy:?}, {}: {response:?}", row.what);
            if row.status == 404 {
                assert!(response.body.get("sessionId").is_none(), "{response:?}");
            }
        }
        assert!(life.told(&session, &mut events).await.is_empty(), "{strategy:?}");

        let path = format!("/permission/{}", asked.request);
        let stranger = life.join(&session).await;
        if matches!(strategy, Strategy::Designated | Strategy::Consensus) {
            let refused = life.post(&path, Some(&stranger), &say("Blue")).await;
            assert_eq!(got(&refused), (403, "permission_forbidden"), "{strategy:?}: {refused:?}");
            assert_eq!(refused.body["reason"], "designated_mismatch");
            assert!(refused.body.get("sessionId").is_none(), "{refused:?}");
            assert_eq!(kinds(&life.told(&session, &mut events).await), ["permission_forbidden"]);
        }
        let client = Some(session.client.as_str());
        let voted = life.post(&path, client, &say("Blue")).await;
        assert_eq!((voted.status, &voted.body), (200, &json!({})), "{strategy:?}");
        let told = life.told(&session, &mut events).await;
        assert_eq!(kinds(&told), ["permission_resolved"], "{strategy:?}");
        let at = told[0]["data"]["answeredAt"].clone();
        assert!(at.is_string(), "{told:#?}");
        for vote in [say("Blue"), say("Red"), cancelled()] {
            let late = life.post(&path, client, &vote).await;
            assert_eq!(got(&late), (404, "-"), "{strategy:?}: {late:?}");
            let fields = json!({
                "requestId": asked.request,
                "answers": { "0": "Blue" },
                "answeredBy": { "clientId": session.client, "surface": "http" },
                "answeredAt": at,
            });
            holds(&late.body, &fields, "a late vote");
            let told = life.told(&session, &mut events).await;
            assert_eq!(kinds(&told), ["permission_already_resolved"], "{strategy:?}");
            holds(&told[0]["data"], &fields, "permission_already_resolved");
        }
        assert_eq!(life.question(&other_asked).await["state"], "open", "{strategy:?}");
        // The outcome `cancelled` is everybody's, on this route too.
        let path = format!("/permission/{}", other_asked.request);
        assert_eq!(life.post(&path, None, &cancelled()).await.status, 200, "{strategy:?}");
        assert_eq!(life.question(&other_asked).await["state"], "declined", "{strategy:?}");
        life.stop().await;
    }
}

/// The one event of a vote that settled.
fn is_resolved(event: &Value, asked: &Asked, client: Option<&str>, outcome: &Value) {
    assert_eq!(event["type"], "permission_resolved", "{event:#}");
    let data = &event["data"];
    holds(
        data,
        &json!({
            "requestId": asked.request,
            "outcome": outcome,
            "questionId": asked.id,
            "generation": asked.generation,
        }),
        "permission_resolved",
    );
    assert_eq!(data["answeredBy"]["surface"], "http", "{event:#}");
    assert!(data["answeredAt"].is_string(), "{event:#}");
    assert_eq!(data.get("voterClientId").and_then(Value::as_str), client, "{event:#}");
    assert_eq!(event.get("originatorClientId").and_then(Value::as_str), client, "the voter: {event:#}");
    assert!(event["promptId"].is_string() && event["id"].is_u64(), "{event:#}");
}

#[tokio::test]
async fn v1_v4_a_valid_vote_settles_once_and_the_late_learn_who_when_and_what() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let (session, asked) = life.asking().await;
        let mut events = life.events(&session).await;
        life.told(&session, &mut events).await;
        let client = Some(session.client.as_str());

        let voted = life.vote(&session, &asked.request, client, &say("Blue")).await;
        assert_eq!((voted.status, &voted.body), (200, &json!({})), "{strategy:?}");
        let told = life.told(&session, &mut events).await;
        assert_eq!(kinds(&told), ["permission_resolved"], "{strategy:?}");
        let selected = json!({ "outcome": "selected", "optionId": "proceed_once" });
        is_resolved(&told[0], &asked, client, &selected);
        assert_eq!(told[0]["data"]["answers"], json!({ "0": "Blue" }));
        let at = told[0]["data"]["answeredAt"].clone();

        // (what, by whom, the vote): all the same 404, and the first outcome stands.
        let unoffered = select("nope", json!({}));
        for (what, by, vote) in [
            ("the same again", client, say("Blue")),
            ("another answer", client, say("Red")),
            ("a decline", client, cancelled()),
            ("of somebody without a name", None, say("Red")),
            ("an option that is not offered", client, unoffered),
        ] {
            let late = life.vote(&session, &asked.request, by, &vote).await;
            assert_eq!(got(&late), (404, "-"), "{strategy:?}, {what}: {late:?}");
            holds(
                &late.body,
                &json!({
                    "sessionId": session.id,
                    "requestId": asked.request,
                    "questionId": asked.id,
                    "generation": asked.generation,
                    "outcome": selected,
                    "answers": { "0": "Blue" },
                    "answeredBy": { "clientId": session.client, "surface": "http" },
                    "answeredAt": at,
                }),
                what,
            );
            let told = life.told(&session, &mut events).await;
            assert_eq!(kinds(&told), ["permission_already_resolved"], "{what}");
            holds(
                &told[0]["data"],
                &json!({
                    "requestId": asked.request,
                    "sessionId": session.id,
                    "outcome": selected,
                    "answers": { "0": "Blue" },
                    "answeredBy": { "clientId": session.client, "surface": "http" },
                    "answeredAt": at,
                }),
                what,
            );
        }
        // c.2: the client and the sentinel are looked at before that.
        let stranger = life.vote(&session, &asked.request, Some("client_unknown"), &say("Red")).await;
        assert_eq!(got(&stranger), (400, "invalid_client_id"));
        let sentinel = life.vote(&session, &asked.request, client, &select("__cancelled__", json!({}))).await;
        assert_eq!(got(&sentinel), (400, "invalid_option_id"));
        assert!(life.told(&session, &mut events).await.is_empty());
        assert_eq!(machine.histories.results(&session.id).len(), 1);
        life.stop().await;
    }
}

#[tokio::test]
async fn v1_the_outcome_cancelled_settles_for_everybody_under_every_policy() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        for who in ["the author", "another", "nobody", "one behind a proxy"] {
            let (session, asked) = life.asking().await;
            let mut events = life.events(&session).await;
            let other = life.join(&session).await;
            life.told(&session, &mut events).await;
            let by = match who {
                "the author" => Some(session.client.as_str()),
                "another" => Some(other.as_str()),
                _ => None,
            };
            let path = format!("/session/{}/permission/{}", session.id, asked.request);
            let mut request = Request::new("POST", &path).json(&cancelled());
            if let Some(by) = by {
                request = request.header("x-qwen-client-id", by);
            }
            if who == "one behind a proxy" {
                request = request.header("x-forwarded-for", "203.0.113.7");
            }
            let voted = life.daemon.send(request).await;
            assert_eq!((voted.status, &voted.body), (200, &json!({})), "{strategy:?}, {who}");
            let told = life.told(&session, &mut events).await;
            assert_eq!(kinds(&told), ["permission_resolved"], "{strategy:?}, {who}");
            is_resolved(&told[0], &asked, by, &json!({ "outcome": "cancelled" }));
            assert_eq!(life.question(&asked).await["state"], "declined");
        }
        life.stop().await;
    }
}

#[tokio::test]
async fn v1_of_answers_that_are_partly_valid_the_valid_ones_count_and_the_rest_is_named() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = life.make().await;
    life.prompt(&session, Some(&session.client), "parts 3").await;
    let asked = life.asked(&session, 1).await.remove(0);
    let body = select("proceed_once", json!({ "0": "Red", "2": "my own words", "7": "x", "a": "y" }));
    let voted = life.vote(&session, &asked.request, Some(&session.client), &body).await;
    assert_eq!(voted.status, 200, "{voted:?}");
    let mut dropped: Vec<_> =
        voted.body["droppedAnswers"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    dropped.sort_unstable();
    assert_eq!(dropped, ["7", "a"]);
    assert_eq!(life.question(&asked).await["outcome"]["answers"], json!({ "0": "Red", "2": "my own words" }));
    life.stop().await;
}

#[tokio::test]
async fn v1_declining_with_the_option_is_said_as_the_option() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    let mut events = life.events(&session).await;
    life.told(&session, &mut events).await;
    let voted = life.vote(&session, &asked.request, None, &select("cancel", json!({ "0": "Red" }))).await;
    assert_eq!((voted.status, &voted.body), (200, &json!({})));
    let told = life.told(&session, &mut events).await;
    is_resolved(&told[0], &asked, None, &json!({ "outcome": "selected", "optionId": "cancel" }));
    assert!(told[0]["data"].get("answers").is_none());
    assert_eq!(life.question(&asked).await["state"], "declined");
    life.stop().await;
}

#[tokio::test]
async fn v1_a_permission_takes_the_options_that_it_offers() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    for (option, state) in
        [("proceed_once", "answered"), ("proceed_always", "answered"), ("cancel", "declined")]
    {
        let session = life.make().await;
        life.prompt(&session, Some(&session.client), "permit").await;
        let asked = life.asked(&session, 1).await.remove(0);
        let bad = life.vote(&session, &asked.request, None, &select("restore_previous", json!({}))).await;
        assert_eq!(got(&bad), (400, "invalid_option_id"));
        let voted = life.vote(&session, &asked.request, None, &select(option, json!({}))).await;
        assert_eq!((voted.status, &voted.body), (200, &json!({})), "{option}");
        let question = life.question(&asked).await;
        assert_eq!((&question["state"], &question["outcome"]["optionId"]), (&json!(state), &json!(option)));
        assert_eq!(machine.histories.results(&session.id), [Some(option.to_owned())]);
    }
    life.stop().await;
}

#[tokio::test]
async fn v1_of_many_votes_at_once_one_settles() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    let votes = (0..16).map(|n| {
        let (life, session, asked) = (&life, &session, &asked);
        async move {
            let answer = format!("answer {n}");
            (life.vote(session, &asked.request, None, &say(&answer)).await, answer)
        }
    });
    let votes = futures::future::join_all(votes).await;
    let won: Vec<_> = votes.iter().filter(|(response, _)| response.status == 200).collect();
    assert_eq!(won.len(), 1);
    for (late, _) in votes.iter().filter(|(response, _)| response.status != 200) {
        assert_eq!(got(late), (404, "-"));
        assert_eq!(late.body["answers"], json!({ "0": won[0].1 }));
    }
    life.stop().await;
}

/// A question that was asked in an earlier life, and the life after it.
async fn restarted(machine: &Machine, tune: Tune) -> (Life, Made, Asked) {
    let life = machine.start(tune.clone()).await;
    let (session, asked) = life.asking().await;
    life.stop().await;
    (machine.start(tune).await, session, asked)
}

async fn completes(life: &Life, session: &Made) {
    let mut events: Events = life.events(session).await;
    if life.status(session).await["hasActivePrompt"] == true {
        events.wait_for("turn_complete").await;
    }
}

#[tokio::test]
async fn r16_r17_after_a_restart_the_old_client_votes_through_the_old_request_under_every_policy() {
    for strategy in ALL {
        for legacy in [false, true] {
            let machine = Machine::new();
            let (life, session, asked) = restarted(&machine, policy(strategy)).await;
            let path = match legacy {
                false => format!("/session/{}/permission/{}", session.id, asked.request),
                true => format!("/permission/{}", asked.request),
            };
            let voted = life.post(&path, Some(&session.client), &say("Blue")).await;
            assert_eq!((voted.status, &voted.body), (200, &json!({})), "{strategy:?} {voted:?}");
            let question = life.question(&asked).await;
            assert_eq!(question["outcome"]["answeredBy"]["clientId"], json!(session.client));
            completes(&life, &session).await;
            let results = machine.histories.results(&session.id);
            assert!(matches!(&results[..], [Some(text)] if text.contains("Blue")), "{results:?}");
            life.stop().await;
        }
    }
}

#[tokio::test]
async fn r16_a_stranger_is_still_one_after_a_restart() {
    let machine = Machine::new();
    let (life, session, asked) = restarted(&machine, Tune::default()).await;
    let voted = life.vote(&session, &asked.request, Some("client_unknown"), &say("Blue")).await;
    assert_eq!(got(&voted), (400, "invalid_client_id"));
    assert_eq!(life.question(&asked).await["state"], "open");
    life.stop().await;
}

#[tokio::test]
async fn r17_an_alias_is_one_of_its_own_question_and_events_carry_the_live_id() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let session = life.make().await;
        life.prompt(&session, Some(&session.client), "ask 2").await;
        let old = life.asked(&session, 2).await;
        life.stop().await;
        let life = machine.start(policy(strategy)).await;
        life.load(&session, Some(&session.client)).await;
        let live = life.asked(&session, 2).await;
        let mut events = life.events(&session).await;
        life.told(&session, &mut events).await;
        for (old, live) in old.iter().zip(&live) {
            assert_eq!((&old.id, old.generation), (&live.id, live.generation));
            assert_ne!(old.request, live.request, "R7");
        }
        let voted = life.vote(&session, &old[1].request, Some(&session.client), &say("Blue")).await;
        assert_eq!(voted.status, 200);
        let told = life.told(&session, &mut events).await;
        assert_eq!(told[0]["data"]["requestId"], json!(live[1].request), "{strategy:?} {told:#?}");
        assert_eq!(life.question(&old[0]).await["state"], "open", "its sibling is as it was");
        // Both ids are late now, and each is told back as it was sent.
        for request in [&old[1].request, &live[1].request] {
            let late = life.vote(&session, request, None, &say("Red")).await;
            assert_eq!((late.status, &late.body["requestId"]), (404, &json!(request)));
            let told = life.told(&session, &mut events).await;
            assert_eq!(kinds(&told), ["permission_already_resolved"]);
            assert_eq!(told[0]["data"]["questionId"], json!(old[1].id));
        }
        // A question of the same session that is asked later has ids of its own.
        let voted = life.vote(&session, &live[0].request, Some(&session.client), &say("Red")).await;
        assert_eq!(voted.status, 200, "{strategy:?}");
        life.prompt(&session, Some(&session.client), "ask").await;
        let next = life.asked(&session, 1).await.remove(0);
        for request in [&old[0].request, &old[1].request] {
            assert_eq!(got(&life.vote(&session, request, None, &say("Red")).await).0, 404);
        }
        assert_eq!(life.question(&next).await["state"], "open");
        life.stop().await;
    }
}

#[tokio::test]
async fn r17_a_vote_wakes_its_own_session_and_no_other() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (first, first_asked) = life.asking().await;
    let (second, _) = life.asking().await;
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    let crossed = life.vote(&second, &first_asked.request, None, &say("Blue")).await;
    assert_eq!(got(&crossed), (404, "session_not_found"), "not one of that session's: {crossed:?}");
    assert_eq!(life.daemon.engine.live_sessions(), 0, "and it woke nothing");
    let unknown = life.post("/permission/nothing", None, &say("Blue")).await;
    assert_eq!(got(&unknown), (404, "-"));
    assert_eq!(life.daemon.engine.live_sessions(), 0);
    assert_eq!(life.vote(&first, &first_asked.request, None, &say("Blue")).await.status, 200);
    assert_eq!(life.get(&format!("/session/{}/status", second.id)).await.status, 404);
    completes(&life, &first).await;
    life.stop().await;
}

#[tokio::test]
async fn r17_with_the_flag_off_an_old_request_is_not_found() {
    for strategy in ALL {
        let machine = Machine::new();
        let life = machine.start(policy(strategy)).await;
        let (session, asked) = life.asking().await;
        life.stop().await;
        let off = Tune { restore: false, ..policy(strategy) };
        let life = machine.start(off).await;
        let client = Some(session.client.as_str());
        let stored = life.vote(&session, &asked.request, client, &say("Blue")).await;
        assert_eq!(got(&stored), (404, "session_not_found"), "{strategy:?}: {stored:?}");
        let legacy = life.post(&format!("/permission/{}", asked.request), client, &say("Blue")).await;
        assert_eq!(got(&legacy), (404, "-"), "{legacy:?}");
        life.load(&session, client).await;
        let live = life.vote(&session, &asked.request, client, &say("Blue")).await;
        assert_eq!(got(&live), (404, "-"), "{live:?}");
        assert_eq!(life.question(&asked).await["state"], "open");
        life.stop().await;
        // Until something was sent to the model, a later start can still ask it (S3).
        let life = machine.start(policy(strategy)).await;
        assert_eq!(life.vote(&session, &asked.request, client, &say("Blue")).await.status, 200);
        life.stop().await;
    }
}

#[tokio::test]
async fn v3_the_retry_of_a_vote_learns_the_same_outcome_over_a_restart() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    assert_eq!(life.vote(&session, &asked.request, None, &say("Blue")).await.status, 200);
    let before = life.vote(&session, &asked.request, None, &say("Blue")).await;
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    let after = life.vote(&session, &asked.request, None, &say("Red")).await;
    assert_eq!((after.status, &after.body), (404, &before.body));
    life.stop().await;
}

#[tokio::test]
async fn v6_a_permission_of_an_earlier_process_is_over() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = life.make().await;
    life.prompt(&session, Some(&session.client), "permit").await;
    let asked = life.asked(&session, 1).await.remove(0);
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    let row = life.question(&asked).await;
    assert_eq!((&row["state"], &row["outcome"]["cause"]), (&json!("closed"), &json!("process_restarted")));
    assert!(life.inbox().await.is_empty());
    let vote = select("proceed_once", json!({}));
    let voted = life.vote(&session, &asked.request, Some(&session.client), &vote).await;
    assert_eq!((voted.status, &voted.body["cause"]), (404, &json!("process_restarted")), "{voted:?}");
    let body = json!({ "generation": asked.generation, "optionId": "proceed_once" });
    let answered = life.answer(&asked, None, &body).await;
    assert_eq!(got(&answered), (410, "closed"), "{answered:?}");
    assert_eq!(answered.body["cause"], "process_restarted");
    life.stop().await;
}
