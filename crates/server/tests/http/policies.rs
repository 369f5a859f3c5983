//! The four policies (WIRE c.3; V2): who may settle, what the others are told, and when it is captured.

use holdpoint_model::policy::Strategy;
use serde_json::{Value, json};

use crate::rig::{Asked, Life, Machine, Made, kinds, say, select};
use crate::support::{Options, PATIENCE, Request, Tune};
use crate::votes::{got, policy};

/// Checks a vote that the policy refuses, and what the stream says of it.
async fn is_forbidden(life: &Life, session: &Made, asked: &Asked, by: Option<&str>, reason: &str) {
    let mut events = life.events(session).await;
    life.told(session, &mut events).await;
    for vote in [say("Blue"), select("cancel", json!({}))] {
        let refused = life.vote(session, &asked.request, by, &vote).await;
        assert_eq!(got(&refused), (403, "permission_forbidden"), "{refused:?}");
        let expected = json!({ "reason": reason, "requestId": asked.request, "sessionId": session.id });
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&refused.body[key], value, "{refused:?}");
        }
        let told = life.told(session, &mut events).await;
        assert_eq!(kinds(&told), ["permission_forbidden"]);
        let data = &told[0]["data"];
        assert_eq!(data["reason"], reason);
        assert_eq!(data["requestId"], json!(asked.request));
        assert_eq!(data["sessionId"], json!(session.id));
        assert_eq!(data.get("clientId").and_then(Value::as_str), by);
        assert_eq!((&data["questionId"], &data["generation"]), (&json!(asked.id), &json!(asked.generation)));
    }
    let body = json!({ "generation": asked.generation, "answers": { "0": "Blue" } });
    let refused = life.answer(asked, by, &body).await;
    assert_eq!(got(&refused), (403, "permission_forbidden"), "{refused:?}");
    assert_eq!(refused.body["reason"], reason);
    assert_eq!(kinds(&life.told(session, &mut events).await), ["permission_forbidden"]);
    assert_eq!(life.question(asked).await["state"], "open");
}

async fn settles(life: &Life, session: &Made, asked: &Asked, by: Option<&str>) {
    let voted = life.vote(session, &asked.request, by, &say("Blue")).await;
    assert_eq!((voted.status, &voted.body), (200, &json!({})), "{voted:?}");
    assert_eq!(life.question(asked).await["state"], "answered");
}

#[tokio::test]
async fn v2_first_responder_takes_the_first_of_anybody() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::FirstResponder)).await;
    for who in ["the author", "another", "nobody"] {
        let (session, asked) = life.asking().await;
        let other = life.join(&session).await;
        let by = match who {
            "the author" => Some(session.client.as_str()),
            "another" => Some(other.as_str()),
            _ => None,
        };
        settles(&life, &session, &asked, by).await;
    }
    life.stop().await;
}

#[tokio::test]
async fn v2_designated_is_the_author_of_the_prompt() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Designated)).await;
    let capabilities = life.get("/capabilities").await.body;
    assert_eq!(capabilities["policy"], json!({ "permission": "designated" }));
    let status = life.get("/daemon/status").await.body;
    assert_eq!(status["runtime"]["permissions"]["policy"], "designated");
    let (session, asked) = life.asking().await;
    let other = life.join(&session).await;
    is_forbidden(&life, &session, &asked, Some(&other), "designated_mismatch").await;
    is_forbidden(&life, &session, &asked, None, "designated_mismatch").await;
    settles(&life, &session, &asked, Some(&session.client)).await;

    // A prompt that names nobody may be answered by anybody.
    let session = life.make().await;
    let other = life.join(&session).await;
    life.prompt(&session, None, "ask").await;
    let asked = life.asked(&session, 1).await.remove(0);
    settles(&life, &session, &asked, Some(&other)).await;
    life.stop().await;
}

#[tokio::test]
async fn v2_designated_after_a_restart_is_the_author_and_whose_load_asked_again() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Designated)).await;
    let (session, asked) = life.asking().await;
    let loader = life.join(&session).await;
    let third = life.join(&session).await;
    life.stop().await;
    for who in ["stored", "the author", "the loader"] {
        let life = machine.start(policy(Strategy::Designated)).await;
        if who == "stored" {
            // While nobody asks it, it is the author's.
            let refused = life.vote(&session, &asked.request, Some(&loader), &say("Blue")).await;
            assert_eq!(got(&refused), (403, "permission_forbidden"), "{refused:?}");
            life.stop().await;
            continue;
        }
        life.load(&session, Some(&loader)).await;
        let again = life.asked(&session, 1).await.remove(0);
        is_forbidden(&life, &session, &again, Some(&third), "designated_mismatch").await;
        if who == "the author" {
            // Refused for its answer, and not for who gave it.
            let wrong = json!({ "generation": again.generation, "answers": { "0": "" } });
            assert_eq!(
                got(&life.answer(&again, Some(&session.client), &wrong).await),
                (422, "invalid_answers")
            );
            life.stop().await;
            continue;
        }
        settles(&life, &session, &again, Some(&loader)).await;
        life.stop().await;
    }
}

/// A session of three clients, asked something by the first.
async fn three(life: &Life) -> (Made, [String; 3], Asked) {
    let session = life.make().await;
    let clients = [session.client.clone(), life.join(&session).await, life.join(&session).await];
    life.prompt(&session, Some(&session.client), "ask").await;
    let asked = life.asked(&session, 1).await.remove(0);
    (session, clients, asked)
}

fn partial(asked: &Asked, session: &Made, received: u64, needed: u64, quorum: u64, tallies: Value) -> Value {
    json!({
        "requestId": asked.request,
        "sessionId": session.id,
        "votesReceived": received,
        "votesNeeded": needed,
        "quorum": quorum,
        "optionTallies": tallies,
        "questionId": asked.id,
        "generation": asked.generation,
    })
}

#[tokio::test]
async fn v2_consensus_counts_answers_and_not_options() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Consensus)).await;
    let (session, [ann, bob, cyd], asked) = three(&life).await;
    let mut events = life.events(&session).await;
    life.told(&session, &mut events).await;
    let votes = [
        (&ann, "Red", 1, 1, json!({ "proceed_once": 1 })),
        // Another answer of the same option: not the two that are needed.
        (&bob, "Blue", 2, 1, json!({ "proceed_once": 2 })),
    ];
    for (client, answer, received, needed, tallies) in votes {
        let voted = life.vote(&session, &asked.request, Some(client), &say(answer)).await;
        assert_eq!((voted.status, &voted.body), (200, &json!({})), "{voted:?}");
        let told = life.told(&session, &mut events).await;
        assert_eq!(kinds(&told), ["permission_partial_vote"]);
        assert_eq!(told[0]["data"], partial(&asked, &session, received, needed, 2, tallies));
    }
    // The first vote of a client is final; a repeat is taken, and tells nobody anything.
    for (client, vote) in [(&ann, say("Red")), (&ann, say("Blue")), (&bob, select("cancel", json!({})))] {
        let repeat = life.vote(&session, &asked.request, Some(client), &vote).await;
        assert_eq!((repeat.status, &repeat.body), (200, &json!({})));
    }
    assert!(life.told(&session, &mut events).await.is_empty());
    assert_eq!(life.question(&asked).await["state"], "open");

    let late = life.join(&session).await;
    is_forbidden(&life, &session, &asked, Some(&late), "designated_mismatch").await;
    is_forbidden(&life, &session, &asked, None, "designated_mismatch").await;

    life.told(&session, &mut events).await;
    let voted = life.vote(&session, &asked.request, Some(&cyd), &say("Blue")).await;
    assert_eq!((voted.status, &voted.body), (200, &json!({})));
    let told = life.told(&session, &mut events).await;
    assert_eq!(kinds(&told), ["permission_resolved"]);
    assert_eq!(told[0]["data"]["answers"], json!({ "0": "Blue" }), "what two of them said");
    assert_eq!(told[0]["originatorClientId"], json!(cyd));
    life.stop().await;
}

#[tokio::test]
async fn v2_d2_a_consensus_answer_that_does_not_decide_is_recorded() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Consensus)).await;
    let (_, [ann, bob, _], asked) = three(&life).await;
    let body = |response: &str| json!({ "generation": asked.generation, "answers": { "0": "Red" }, "responseId": response });
    for _ in 0..2 {
        let recorded = life.answer(&asked, Some(&ann), &body("a")).await;
        assert_eq!((recorded.status, &recorded.body["status"]), (202, &json!("recorded")), "{recorded:?}");
        assert_eq!(recorded.body["questionId"], json!(asked.id));
        assert_eq!(recorded.body["responseId"], "a");
    }
    let settled = life.answer(&asked, Some(&bob), &body("b")).await;
    assert_eq!((settled.status, &settled.body["status"]), (200, &json!("answered")), "{settled:?}");
    life.stop().await;
}

#[tokio::test]
async fn v2_the_quorum_of_a_consensus() {
    // (clients, set, votes that are counted before the one that decides)
    let table = [
        (1, None, 0),
        (2, None, 1),
        (3, None, 1),
        (4, None, 2),
        (3, Some(3), 2),
        (3, Some(9), 2),
        (3, Some(1), 0),
    ];
    let machine = Machine::new();
    for (count, quorum, counted) in table {
        let life = machine.start(Tune { quorum, ..policy(Strategy::Consensus) }).await;
        let session = life.make().await;
        let mut clients = vec![session.client.clone()];
        while clients.len() < count {
            clients.push(life.join(&session).await);
        }
        life.prompt(&session, Some(&session.client), "ask").await;
        let asked = life.asked(&session, 1).await.remove(0);
        for client in &clients[..counted] {
            assert_eq!(life.vote(&session, &asked.request, Some(client), &say("Red")).await.status, 200);
            assert_eq!(life.question(&asked).await["state"], "open", "{count} {quorum:?}");
        }
        assert_eq!(
            life.vote(&session, &asked.request, Some(&clients[counted]), &say("Red")).await.status,
            200
        );
        assert_eq!(life.question(&asked).await["state"], "answered", "{count} {quorum:?}");
        life.stop().await;
    }
}

#[tokio::test]
async fn v2_after_a_restart_a_consensus_counts_those_who_came_back() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Consensus)).await;
    let (session, [ann, bob, cyd], asked) = three(&life).await;
    // A partial vote of before the restart is dropped.
    assert_eq!(life.vote(&session, &asked.request, Some(&ann), &say("Red")).await.status, 200);
    life.stop().await;

    let life = machine.start(policy(Strategy::Consensus)).await;
    life.load(&session, Some(&ann)).await;
    let again = life.asked(&session, 1).await.remove(0);
    // Only ann was there when it was asked again: bob may vote no more (but he is known, R16), nor cyd.
    is_forbidden(&life, &session, &again, Some(&bob), "designated_mismatch").await;
    is_forbidden(&life, &session, &again, Some(&cyd), "designated_mismatch").await;
    settles(&life, &session, &again, Some(&ann)).await;

    // bob has been heard of, though he loaded nothing: the next question counts him in, and cyd too.
    life.prompt(&session, Some(&bob), "ask").await;
    let next = life.asked(&session, 1).await.remove(0);
    for (client, state) in [(&bob, "open"), (&cyd, "answered")] {
        assert_eq!(life.vote(&session, &next.request, Some(client), &say("Red")).await.status, 200);
        assert_eq!(life.question(&next).await["state"], state);
    }
    life.stop().await;
}

#[tokio::test]
async fn v2_a_vote_that_wakes_a_consensus_counts_its_voter() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Consensus)).await;
    let (session, [_, bob, _], asked) = three(&life).await;
    life.stop().await;
    // Nobody else is there, and the quorum is capped to those who are.
    let life = machine.start(Tune { quorum: Some(2), ..policy(Strategy::Consensus) }).await;
    let nameless = life.vote(&session, &asked.request, None, &say("Blue")).await;
    assert_eq!(got(&nameless), (403, "permission_forbidden"), "{nameless:?}");
    assert_eq!(life.vote(&session, &asked.request, Some(&bob), &say("Blue")).await.status, 200);
    assert_eq!(life.question(&asked).await["outcome"]["answeredBy"]["clientId"], json!(bob));
    life.stop().await;
}

const PROXY_HEADERS: [(&str, &str); 3] =
    [("forwarded", "for=203.0.113.7"), ("x-forwarded-for", "203.0.113.7"), ("x-real-ip", "203.0.113.7")];

#[tokio::test]
async fn v2_local_only_refuses_what_came_through_a_proxy() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::LocalOnly)).await;
    let (session, asked) = life.asking().await;
    let mut events = life.events(&session).await;
    life.told(&session, &mut events).await;
    let vote_path = format!("/session/{}/permission/{}", session.id, asked.request);
    let legacy_path = format!("/permission/{}", asked.request);
    let answer_path = format!("/questions/{}/answer", asked.id);
    let answer = json!({ "generation": asked.generation, "answers": { "0": "Blue" } });
    for (header, value) in PROXY_HEADERS {
        for (path, body) in
            [(&vote_path, say("Blue")), (&legacy_path, say("Blue")), (&answer_path, answer.clone())]
        {
            // The header is enough, whatever it says: who can reach the proxy is not known.
            for value in [value, "", "127.0.0.1"] {
                let request = Request::new("POST", path).json(&body).header(header, value);
                let refused = life.daemon.send(request.header("x-qwen-client-id", &session.client)).await;
                assert_eq!(got(&refused), (403, "permission_forbidden"), "{path} {header}: {refused:?}");
                assert_eq!(refused.body["reason"], "remote_not_allowed");
                let told = life.told(&session, &mut events).await;
                assert_eq!(kinds(&told), ["permission_forbidden"]);
                assert_eq!(told[0]["data"]["reason"], "remote_not_allowed");
            }
        }
    }
    settles(&life, &session, &asked, None).await;
    life.stop().await;
}

/// An address of this machine that is not loopback, if it has one. Nothing is sent.
fn other_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket
        .local_addr()
        .ok()
        .map(|address| address.ip())
        .filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[tokio::test]
async fn v2_local_only_goes_by_the_address_of_the_peer() {
    let Some(address) = other_address() else {
        eprintln!("SKIPPED: this machine has no address but loopback");
        return;
    };
    let machine = Machine::new();
    let options = Options {
        bind: "0.0.0.0:0",
        token: Some("s3cret"),
        tune: policy(Strategy::LocalOnly),
        ..Options::default()
    };
    let life = machine.start_with(options).await;
    let send = async |host: std::net::IpAddr, method: &'static str, path: String, body: Value| {
        let request = Request::new(method, &path).json(&body).header("authorization", "Bearer s3cret");
        life.daemon.send_to(host, request).await
    };
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let made = send(here, "POST", "/session".to_owned(), json!({ "sessionScope": "thread" })).await;
    let session = made.body["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!({ "prompt": [{ "type": "text", "text": "ask" }] });
    send(here, "POST", format!("/session/{session}/prompt"), prompt).await;
    let asked = async {
        loop {
            let status = send(here, "GET", format!("/session/{session}/status"), json!({})).await;
            if let Some(request) = status.body["pendingInteractions"][0]["requestId"].as_str() {
                return request.to_owned();
            }
        }
    };
    let request = tokio::time::timeout(PATIENCE, asked).await.unwrap();
    let path = format!("/session/{session}/permission/{request}");
    let refused = send(address, "POST", path.clone(), say("Blue")).await;
    assert_eq!(got(&refused), (403, "permission_forbidden"), "{refused:?}");
    assert_eq!(refused.body["reason"], "remote_not_allowed");
    assert_eq!(send(here, "POST", path, say("Blue")).await.status, 200);
    life.stop().await;
}

#[tokio::test]
async fn v2_the_policy_is_captured_when_it_is_asked_and_anew_when_it_is_asked_again() {
    let machine = Machine::new();
    let life = machine.start(policy(Strategy::Designated)).await;
    let (session, asked) = life.asking().await;
    let other = life.join(&session).await;
    is_forbidden(&life, &session, &asked, Some(&other), "designated_mismatch").await;
    life.stop().await;

    // The settings have changed: it is not being asked, so nothing is captured till it is.
    let life = machine.start(policy(Strategy::LocalOnly)).await;
    life.load(&session, Some(&other)).await;
    let again = life.asked(&session, 1).await.remove(0);
    let path = format!("/session/{}/permission/{}", session.id, again.request);
    let proxied = Request::new("POST", &path).json(&say("Blue")).header("x-real-ip", "203.0.113.7");
    assert_eq!(got(&life.daemon.send(proxied).await), (403, "permission_forbidden"));
    let policies: Vec<_> = life
        .audit(&asked)
        .await
        .into_iter()
        .filter_map(|entry| {
            (entry["kind"] == "permission.requested").then(|| entry["policy"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(policies, ["designated", "local-only"]);
    settles(&life, &session, &again, None).await;
    life.stop().await;
}
