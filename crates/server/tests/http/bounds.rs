//! The limits of sessions, prompts, streams and turns, each at its edge (WIRE a.2, a.3, a.5, b.2, b.4).

use std::time::Duration;

use holdpoint_server::ConnectionLimits;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::inbox::metric;
use crate::rig::{Events, Life, Machine, Made, say};
use crate::support::{Daemon, Options, PATIENCE, Request, Tune};
use crate::votes::got;

async fn try_prompt(life: &Life, session: &Made) -> crate::support::Response {
    let body = json!({ "prompt": [{ "type": "text", "text": "hello" }] });
    life.post(&format!("/session/{}/prompt", session.id), Some(&session.client), &body).await
}

#[tokio::test]
async fn a3_prompts_of_a_session_the_running_one_counted() {
    for limit in [1, 2, 5] {
        let machine = Machine::new();
        let life = machine.start(Tune { max_prompts: Some(limit), ..Tune::default() }).await;
        assert_eq!(life.get("/capabilities").await.body["limits"]["maxPendingPromptsPerSession"], limit);
        let (session, asked) = life.asking().await;
        for _ in 1..limit {
            assert_eq!(try_prompt(&life, &session).await.status, 202);
        }
        let full = try_prompt(&life, &session).await;
        assert_eq!(got(&full), (503, "prompt_queue_full"), "{full:?}");
        let fields =
            [("sessionId", json!(session.id)), ("limit", json!(limit)), ("pendingCount", json!(limit))];
        for (key, value) in fields {
            assert_eq!(full.body[key], value, "{full:?}");
        }
        assert_eq!(full.header("retry-after"), Some("5"));
        let mut events = life.events(&session).await;
        life.vote(&session, &asked.request, None, &say("Red")).await;
        for _ in 0..limit {
            events.wait_for("turn_complete").await;
        }
        assert_eq!(try_prompt(&life, &session).await.status, 202, "there is room again");
        life.stop().await;
    }
}

#[tokio::test]
async fn a3_with_no_limit_of_prompts_there_is_none() {
    let machine = Machine::new();
    let life = machine.start(Tune { max_prompts: None, ..Tune::default() }).await;
    assert_eq!(life.get("/capabilities").await.body["limits"]["maxPendingPromptsPerSession"], Value::Null);
    let (session, _) = life.asking().await;
    for _ in 0..20 {
        assert_eq!(try_prompt(&life, &session).await.status, 202);
    }
    life.stop().await;
}

/// The stream from a cursor on, up to `replay_complete`: the types and ids.
async fn replayed(life: &Life, session: &Made, last: u64) -> Vec<(String, Option<u64>)> {
    let mut stream = life.daemon.connect().await;
    let request = Request::new("GET", &format!("/session/{}/events", session.id));
    let request = request.header("last-event-id", last.to_string());
    assert_eq!(request.on(&mut stream, life.daemon.port).await.status, 200);
    let mut events = Events::over(stream);
    let mut told = Vec::new();
    loop {
        let event = events.next().await.expect("the stream is open");
        let kind = event["type"].as_str().unwrap().to_owned();
        if kind == "replay_complete" {
            return told;
        }
        let reason = event["data"]["reason"].as_str().map(ToOwned::to_owned);
        told.push((reason.unwrap_or(kind), event["id"].as_u64()));
    }
}

#[tokio::test]
async fn b4_the_ring_keeps_as_many_events_as_it_is_set_to() {
    let machine = Machine::new();
    let life = machine.start(Tune { ring_size: 3, ..Tune::default() }).await;
    assert_eq!(life.get("/capabilities").await.body["limits"]["eventRingSize"], 3);
    let session = life.make().await;
    let mut events = life.events(&session).await;
    let mut newest = 0;
    for n in 0..5 {
        let name = json!({ "displayName": format!("name {n}") });
        let path = format!("/session/{}/metadata", session.id);
        life.daemon.send(Request::new("PATCH", &path).json(&name)).await;
        newest = events.wait_for("session_metadata_updated").await["id"].as_u64().unwrap();
    }
    let ids = |told: &[(String, Option<u64>)]| told.iter().filter_map(|(_, id)| *id).collect::<Vec<_>>();
    let kept = replayed(&life, &session, newest - 3).await;
    assert_eq!(ids(&kept), [newest - 2, newest - 1, newest], "three are kept");
    let evicted = replayed(&life, &session, newest - 4).await;
    assert_eq!(evicted[0], ("ring_evicted".to_owned(), None), "one more is not");
    assert_eq!(ids(&evicted), [newest - 2, newest - 1, newest]);
    assert!(replayed(&life, &session, newest).await.is_empty());
    assert_eq!(replayed(&life, &session, newest + 1).await[0].0, "epoch_reset");
    life.stop().await;
}

#[tokio::test]
async fn a3_a_turn_ends_at_its_deadline() {
    let machine = Machine::new();
    let life = machine.start(Tune { prompt_deadline_ms: Some(50), ..Tune::default() }).await;
    let capabilities = life.get("/capabilities").await.body;
    assert_eq!(capabilities["limits"]["promptDeadlineMs"], 50);
    assert!(capabilities["features"].as_array().unwrap().contains(&json!("prompt_absolute_deadline")));
    let session = life.make().await;
    let mut events = life.events(&session).await;
    let prompt = life.prompt(&session, Some(&session.client), "ask").await;
    let error = events.wait_for("turn_error").await;
    assert_eq!(
        (&error["data"]["code"], &error["data"]["promptId"]),
        (&json!("prompt_deadline_exceeded"), &json!(prompt))
    );
    // A prompt may say otherwise.
    let body = json!({ "prompt": [{ "type": "text", "text": "hello" }], "deadlineMs": 60_000 });
    let sent = life.post(&format!("/session/{}/prompt", session.id), None, &body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    events.wait_for("turn_complete").await;
    life.stop().await;

    let life = machine.start(Tune::default()).await;
    let capabilities = life.get("/capabilities").await.body;
    assert_eq!(capabilities["limits"]["promptDeadlineMs"], Value::Null);
    assert!(!capabilities["features"].as_array().unwrap().contains(&json!("prompt_absolute_deadline")));
    let bad = json!({ "prompt": [{ "type": "text", "text": "x" }], "deadlineMs": 0 });
    for ms in [json!(0), json!(-1), json!(1.5), json!("1"), json!(86_400_001)] {
        let mut bad = bad.clone();
        bad["deadlineMs"] = ms;
        let refused = life.post("/session/none/prompt", None, &bad).await;
        assert_eq!(got(&refused), (400, "invalid_deadline_ms"), "{bad}");
    }
    for mode in [json!("nonsense"), json!(""), json!(1), Value::Null] {
        let bad = json!({ "prompt": [{ "type": "text", "text": "x" }], "eventDetailMode": mode });
        let refused = life.post("/session/none/prompt", None, &bad).await;
        assert_eq!(got(&refused), (400, "invalid_event_detail_mode"), "{bad}");
    }
    for mode in ["full", "summary"] {
        let good = json!({ "prompt": [{ "type": "text", "text": "x" }], "eventDetailMode": mode });
        assert_eq!(life.post("/session/none/prompt", None, &good).await.status, 404, "{good}");
    }
    life.stop().await;
}

#[tokio::test]
async fn a2_an_idle_session_is_put_away_and_one_that_waits_or_is_read_is_not() {
    let machine = Machine::new();
    // Long enough for a request to come between the making of a session and its prompt, on any machine.
    let tune = Tune { idle_timeout: Some(Duration::from_secs(2)), ..Tune::default() };
    let life = machine.start(tune).await;
    assert_eq!(life.get("/capabilities").await.body["limits"]["sessionIdleTimeoutMs"], 2000);
    let (waiting, _) = life.asking().await;
    let read = life.make().await;
    let mut events = life.events(&read).await;
    let idle = life.make().await;
    let gone = async {
        while life.daemon.engine.live_sessions() > 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("the idle one is put away");
    assert_eq!(life.get(&format!("/session/{}/status", idle.id)).await.status, 404);
    for session in [&waiting, &read] {
        assert_eq!(life.get(&format!("/session/{}/status", session.id)).await.status, 200);
    }
    // It is a load away.
    let back = life.load(&idle, Some(&idle.client)).await;
    assert_eq!(back, idle.client, "R16");
    life.told(&read, &mut events).await;
    life.stop().await;
}

/// A stream that is opened and never read, with as little room as the system gives.
async fn unread(daemon: &Daemon, session: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], daemon.port));
    let mut stream = socket.connect(address).await.unwrap();
    let response =
        Request::new("GET", &format!("/session/{session}/events")).on(&mut stream, daemon.port).await;
    assert_eq!(response.status, 200);
    stream
}

fn impatient(writer_idle: Option<Duration>) -> Options {
    let connections = ConnectionLimits { writer_idle, ..ConnectionLimits::default() };
    Options { connections, ..Options::default() }
}

#[tokio::test]
async fn b2_a_client_that_reads_nothing_is_let_go() {
    let machine = Machine::new();
    let life = machine.start_with(impatient(Some(Duration::from_millis(100)))).await;
    let capabilities = life.get("/capabilities").await.body;
    assert_eq!(capabilities["limits"]["writerIdleTimeoutMs"], 100);
    assert!(capabilities["features"].as_array().unwrap().contains(&json!("writer_idle_timeout")));
    let session = life.make().await;
    let mut stream = unread(&life.daemon, &session.id).await;
    // More than the system takes for it: what a prompt says is told again on the stream.
    let text = "x".repeat(1 << 20);
    for _ in 0..8 {
        life.prompt(&session, Some(&session.client), &text).await;
    }
    let gone = async {
        while metric(&life, "holdpoint_http_stalled_total").await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("it is seen that nothing is read");
    // The connection is closed from here, and not only when the other side goes.
    let closed = async {
        let mut rest = vec![0; 1 << 16];
        while matches!(stream.read(&mut rest).await, Ok(n) if n > 0) {}
    };
    timeout(PATIENCE, closed).await.expect("the stream ends");
    assert_eq!(life.get("/health").await.status, 200);
    life.stop().await;
}

#[tokio::test]
async fn b2_one_that_reads_again_within_the_grace_is_told_that_it_was_let_go() {
    let machine = Machine::new();
    // The grace is as long: enough for a test that has nothing to do but to read.
    let life = machine.start_with(impatient(Some(Duration::from_secs(2)))).await;
    let session = life.make().await;
    let path = format!("/session/{}/metadata", session.id);
    life.daemon.send(Request::new("PATCH", &path).json(&json!({ "displayName": "titled" }))).await;
    let stream = unread(&life.daemon, &session.id).await;
    // One event, larger than all that the system takes for it.
    life.prompt(&session, Some(&session.client), &format!("ask {}", "x".repeat(8 << 20))).await;
    let stalled = async {
        while metric(&life, "holdpoint_http_stalled_total").await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, stalled).await.expect("it is seen that nothing is read");
    let mut events = Events::over(stream);
    let mut newest = None;
    let last = loop {
        let event = events.next().await.expect("it is told why before the end");
        if event["type"] == "client_evicted" {
            break event;
        }
        newest = event["id"].as_u64().or(newest);
    };
    assert!(newest.is_some() && last.get("id").is_none(), "{last:#}");
    assert_eq!(
        (&last["data"]["reason"], &last["data"]["droppedAfter"]),
        (&json!("writer_idle_timeout"), &json!(newest))
    );
    assert_eq!(events.next().await, None, "and that is the last of it");
    // The question waits all the same, and one that reads anew is told.
    assert_eq!(life.asked(&session, 1).await.len(), 1);
    life.events(&session).await.wait_for("permission_request").await;
    life.stop().await;
}

/// Prompts that end at once, each of a MiB.
async fn says_much(life: &Life, session: &Made, count: usize) {
    let text = "x".repeat(1 << 20);
    for _ in 0..count {
        life.prompt(session, Some(&session.client), &text).await;
    }
}

#[tokio::test]
async fn b4_one_that_lags_behind_by_too_many_bytes_is_let_go_and_told_so() {
    let machine = Machine::new();
    let tune = Tune { max_prompts: None, ..Tune::default() };
    let connections = ConnectionLimits { writer_idle: None, ..ConnectionLimits::default() };
    let life = machine.start_with(Options { tune, connections, ..Options::default() }).await;
    let session = life.make().await;
    let stream = unread(&life.daemon, &session.id).await;
    // More than the system takes for it, and the queue.
    says_much(&life, &session, 16).await;
    let mut events = Events::over(stream);
    let last = events.wait_for("client_evicted").await;
    let data = &last["data"];
    assert_eq!((&data["reason"], &data["maxQueuedBytes"]), (&json!("queue_bytes_overflow"), &json!(2 << 20)));
    let bytes = |key: &str| data[key].as_u64().unwrap();
    assert!(bytes("queuedBytes") + bytes("eventBytes") > 2 << 20, "{data:#}");
    assert!(last.get("id").is_none() && data["droppedAfter"].is_u64(), "{last:#}");
    assert_eq!(events.next().await, None);
    life.stop().await;
}

#[tokio::test]
async fn b4_no_more_is_replayed_than_the_budget_and_what_is_missing_is_told() {
    let machine = Machine::new();
    let life = machine.start(Tune { max_prompts: None, ..Tune::default() }).await;
    let session = life.make().await;
    says_much(&life, &session, 9).await;
    while life.status(&session).await["hasActivePrompt"] == true {
        tokio::task::yield_now().await;
    }
    let told = replayed(&life, &session, 0).await;
    assert_eq!(told[0], ("replay_budget_exceeded".to_owned(), None));
    let ids: Vec<_> = told.iter().filter_map(|(_, id)| *id).collect();
    assert!(
        ids[0] > 1 && ids.windows(2).all(|two| two[1] == two[0] + 1),
        "the newest, without a gap: {ids:?}"
    );
    // One that is not far behind misses nothing.
    let newest = *ids.last().unwrap();
    let told = replayed(&life, &session, newest - 1).await;
    assert_eq!((told.len(), told[0].1), (1, Some(newest)));
    life.stop().await;
}

#[tokio::test]
async fn b2_without_the_limit_it_is_not_advertised() {
    let machine = Machine::new();
    let life = machine.start_with(impatient(None)).await;
    let capabilities = life.get("/capabilities").await.body;
    assert_eq!(capabilities["limits"]["writerIdleTimeoutMs"], Value::Null);
    assert!(!capabilities["features"].as_array().unwrap().contains(&json!("writer_idle_timeout")));
    life.stop().await;
}

#[tokio::test]
async fn b4_the_sixty_fifth_reader_is_refused() {
    let daemon = Daemon::start(Options::default()).await;
    let session = daemon.session().await;
    let path = format!("/session/{session}/events");
    let mut readers = Vec::new();
    for _ in 0..64 {
        let mut stream = daemon.connect().await;
        assert_eq!(Request::new("GET", &path).on(&mut stream, daemon.port).await.status, 200);
        readers.push(stream);
    }
    let refused = daemon.get(&path).await;
    assert_eq!(got(&refused), (429, "subscriber_limit_exceeded"), "{refused:?}");
    assert_eq!((&refused.body["limit"], refused.header("retry-after")), (&json!(64), Some("5")));
    for bad in ["15", "2049", "x", "-1"] {
        let refused = daemon.get(&format!("{path}?maxQueued={bad}")).await;
        assert_eq!(got(&refused), (400, "invalid_max_queued"), "{bad}");
    }
    daemon.stop().await;
}
