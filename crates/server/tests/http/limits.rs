//! WIRE e and a.2, the limits: rates, connections, bodies, slow clients, sessions.

use std::time::Duration;

use holdpoint_server::{ConnectionLimits, MAX_BODY};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::support::{Daemon, Options, PATIENCE, Request, Response, Tune};

#[tokio::test]
async fn e_rate_limits() {
    let daemon = Daemon::start(Options { rate_limit: true, ..Options::default() }).await;
    let prompt = |client: &str| {
        let request = Request::new("POST", "/session/none/prompt").header("x-qwen-client-id", client);
        request.json(&json!({ "prompt": [{ "type": "text", "text": "x" }] }))
    };
    for n in 1..=10 {
        let response = daemon.send(prompt("a")).await;
        assert_eq!(response.status, 404, "{n}");
        assert_eq!(response.header("x-ratelimit-limit"), Some("10"));
        assert_eq!(response.header("x-ratelimit-remaining"), Some((10 - n).to_string().as_str()));
    }
    let refused = daemon.send(prompt("a")).await;
    assert_eq!((refused.status, refused.code()), (429, Some("rate_limit_exceeded")));
    assert_eq!(refused.body["tier"], "prompt");
    let wait = refused.body["retryAfterMs"].as_u64().unwrap();
    assert!((1..=6000).contains(&wait), "{wait}");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=6).contains(&seconds), "{seconds}");
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert!(refused.header("x-ratelimit-reset").is_some());

    assert_eq!(daemon.send(prompt("b")).await.status, 404, "each client has its own");
    let beat = Request::new("POST", "/session/none/heartbeat").header("x-qwen-client-id", "a");
    for _ in 0..40 {
        assert_eq!(daemon.send(beat.clone()).await.status, 404, "a sign of life is free");
    }
    for _ in 0..130 {
        let health = daemon.get("/health").await;
        assert_eq!((health.status, health.header("x-ratelimit-limit")), (200, None));
    }
    let deep = daemon.get("/health?deep=1").await;
    assert_eq!(deep.body["rateLimitHits"], json!({ "prompt": 1, "mutation": 0, "read": 0 }));
    let capabilities = daemon.get("/capabilities").await;
    assert!(capabilities.body["features"].as_array().unwrap().contains(&json!("rate_limit")));
    daemon.stop().await;
}

/// Takes prompts of a bucket until it is empty; how many passed.
async fn drain(daemon: &Daemon, from: [u8; 4], request: &Request<'static>) -> usize {
    let mut passed = 0;
    loop {
        let response = daemon.send_from(from, request.clone()).await;
        match response.status {
            404 => passed += 1,
            429 => return passed,
            _ => panic!("{response:?}"),
        }
    }
}

#[tokio::test]
async fn e_off_loopback_each_address_has_its_buckets_and_on_loopback_each_client() {
    let prompt = |client: &str| {
        let request = Request::new("POST", "/session/none/prompt").header("authorization", "Bearer s3cret");
        let request = request.json(&json!({ "prompt": [{ "type": "text", "text": "x" }] }));
        if client.is_empty() { request } else { request.header("x-qwen-client-id", client) }
    };
    let (here, there) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    for (bind, by_address) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let options = Options { bind, token: Some("s3cret"), rate_limit: true, ..Options::default() };
        let daemon = Daemon::start(options).await;
        for client in ["a", ""] {
            // A bucket fills while it is emptied, so at least so many pass.
            assert!(drain(&daemon, here, &prompt(client)).await >= 10, "{bind} {client:?}");
            let other = daemon.send_from(there, prompt(client)).await;
            assert_eq!(other.status, if by_address { 404 } else { 429 }, "{bind} {client:?}: {other:?}");
        }
        // Another client, of either address, has a bucket of its own.
        for from in [here, there] {
            let client = if from == here { "b" } else { "c" };
            assert_eq!(daemon.send_from(from, prompt(client)).await.status, 404, "{bind}");
        }
        daemon.stop().await;
    }
}

#[tokio::test]
async fn e_what_comes_too_soon_is_refused_before_its_body_is_read() {
    let daemon = Daemon::start(Options { rate_limit: true, ..Options::default() }).await;
    let request = || Request::new("POST", "/session/none/prompt").header("x-qwen-client-id", "a");
    let good = request().json(&json!({ "prompt": [{ "type": "text", "text": "x" }] }));
    drain(&daemon, [127, 0, 0, 1], &good).await;
    let mut broken = request();
    broken.body = b"{".to_vec();
    let rows = [
        ("no JSON", broken),
        ("longer than any may be", request().header("content-length", (MAX_BODY + 1).to_string())),
        ("one that does not come", request().header("content-length", "1000")),
    ];
    for (what, request) in rows {
        let refused = daemon.send(request).await;
        assert_eq!(
            (refused.status, refused.code()),
            (429, Some("rate_limit_exceeded")),
            "{what}: {refused:?}"
        );
    }
    daemon.stop().await;
}

#[tokio::test]
async fn e_no_rates_unless_asked_for() {
    let daemon = Daemon::start(Options::default()).await;
    for _ in 0..130 {
        let response = daemon.get("/capabilities").await;
        assert_eq!((response.status, response.header("x-ratelimit-limit")), (200, None));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn e_connections_beyond_the_limit_are_told_so_and_the_others_go_on() {
    let connections = ConnectionLimits { connections: 2, ..ConnectionLimits::default() };
    let daemon = Daemon::start(Options { connections, ..Options::default() }).await;
    let health = || Request::new("GET", "/health");
    let (mut first, mut second) = (daemon.connect().await, daemon.connect().await);
    for stream in [&mut first, &mut second] {
        assert_eq!(health().on(stream, daemon.port).await.status, 200);
    }
    let refused = daemon.send(health()).await;
    assert_eq!((refused.status, refused.code()), (503, Some("connection_limit_exceeded")));
    assert_eq!(refused.header("retry-after"), Some("5"));
    for stream in [&mut first, &mut second] {
        assert_eq!(health().on(stream, daemon.port).await.status, 200, "those that are there go on");
    }
    drop(first);
    // The daemon notices the close in its own time.
    let again = async {
        while daemon.send(health()).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.expect("a place that was left is free again");
    daemon.stop().await;
}

#[tokio::test]
async fn e_a_head_that_does_not_end_and_an_idle_connection_are_closed() {
    let connections = ConnectionLimits { head: Duration::from_millis(100), ..ConnectionLimits::default() };
    let daemon = Daemon::start(Options { connections, ..Options::default() }).await;
    for start in ["", "GET /health HTTP/1.1\r\nhost: 127.0"] {
        let mut stream = daemon.connect().await;
        stream.write_all(start.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "closed after {start:?}");
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
    let mut stream = daemon.connect().await;
    assert_eq!(Request::new("GET", "/health").on(&mut stream, daemon.port).await.status, 200);
    let ended = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "closed after a request");
    daemon.stop().await;
}

#[tokio::test]
async fn e_a_stream_outlives_the_time_of_a_head() {
    let connections = ConnectionLimits { head: Duration::from_millis(100), ..ConnectionLimits::default() };
    let daemon = Daemon::start(Options { connections, ..Options::default() }).await;
    let id = daemon.session().await;
    let mut stream = daemon.connect().await;
    let response = Request::new("GET", &format!("/session/{id}/events")).on(&mut stream, daemon.port).await;
    assert_eq!(response.status, 200);
    // Three idle connections come to their end one after the other; the stream is older than all of them.
    for _ in 0..3 {
        let mut idle = daemon.connect().await;
        let _ = timeout(PATIENCE, idle.read_to_end(&mut Vec::new())).await.unwrap();
    }
    let prompt = json!({ "prompt": [{ "type": "text", "text": "x" }] });
    let sent = daemon.send(Request::new("POST", &format!("/session/{id}/prompt")).json(&prompt)).await;
    assert_eq!(sent.status, 202);
    let mut seen = Vec::new();
    let turn = async {
        while !String::from_utf8_lossy(&seen).contains("turn_complete") {
            assert!(stream.read_buf(&mut seen).await.unwrap() > 0, "the stream is open");
        }
    };
    timeout(PATIENCE, turn).await.unwrap();
    daemon.stop().await;
}

#[tokio::test]
async fn a_bodies() {
    let daemon = Daemon::start(Options::default()).await;
    let too_long = (MAX_BODY + 1).to_string();
    let announced = Request::new("POST", "/session").header("content-length", too_long);
    let refused = daemon.send(announced).await;
    assert_eq!(refused.status, 413, "before it comes");
    assert!(refused.body["error"].is_string(), "{refused:?}");

    // One who sends all before it listens hears it too.
    let mut stream = daemon.connect().await;
    let head = format!(
        "POST /session HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-length: {}\r\n\r\n",
        daemon.port,
        MAX_BODY + (1 << 20)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; MAX_BODY + (1 << 20)]).await.expect("what is sent is taken");
    assert_eq!(Response::read(&mut stream).await.status, 413, "after it came");

    let mut stream = daemon.connect().await;
    let head = format!(
        "POST /session HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ntransfer-encoding: chunked\r\n\r\n",
        daemon.port
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [format!("{:x}\r\n", 1 << 20).into_bytes(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    for _ in 0..11 {
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    assert_eq!(Response::read(&mut stream).await.status, 413, "a length that is not announced");

    let text = |body: &str| {
        let mut request = Request::new("POST", "/session/none/prompt");
        request.body = body.as_bytes().to_vec();
        request
    };
    let deep = "[".repeat(100_000);
    for body in ["{", "nonsense", "[]", "null", "7", "", "{\"a\":1}x", deep.as_str()] {
        let response = daemon.send(text(body)).await;
        assert_eq!(response.status, 400, "{:.20}", body);
        assert!(response.body["error"].is_string() && response.code().is_none(), "{response:?}");
    }
    let mut request = Request::new("POST", "/session/none/prompt");
    request.body = vec![b'{', b'"', 0xff, b'"', b'}'];
    assert_eq!(daemon.send(request).await.status, 400);
    daemon.stop().await;
}

fn room_for(sessions: usize) -> Options {
    let tune = Tune { max_sessions: Some(sessions), ..Tune::default() };
    Options { tune, ..Options::default() }
}

#[tokio::test]
async fn a_sessions_beyond_the_limit_are_refused_till_one_is_closed() {
    let daemon = Daemon::start(room_for(2)).await;
    let make = || Request::new("POST", "/session").json(&json!({ "sessionScope": "thread" }));
    let shared = || Request::new("POST", "/session");
    let first = daemon.session().await;
    let second = daemon.send(shared()).await;
    assert_eq!(second.status, 200);
    let refused = daemon.send(make()).await;
    assert_eq!((refused.status, refused.code()), (503, Some("session_limit_exceeded")));
    assert_eq!((&refused.body["limit"], &refused.body["scope"]), (&json!(2), &json!("total")));
    assert_eq!(refused.header("retry-after"), Some("5"));
    let attached = daemon.send(shared()).await;
    assert_eq!((attached.status, &attached.body["attached"]), (200, &json!(true)), "it takes no place");
    let loaded = daemon.send(Request::new("POST", &format!("/session/{first}/load"))).await;
    assert_eq!(loaded.status, 200, "a live one has its place: {loaded:?}");
    assert_eq!(daemon.get("/capabilities").await.body["limits"]["maxTotalSessions"], 2);

    assert_eq!(daemon.send(Request::new("DELETE", &format!("/session/{first}"))).await.status, 204);
    let third = daemon.session().await;
    let loaded = daemon.send(Request::new("POST", &format!("/session/{first}/resume"))).await;
    assert_eq!((loaded.status, loaded.code()), (503, Some("session_limit_exceeded")), "a restore takes one");
    assert_eq!(daemon.send(Request::new("DELETE", &format!("/session/{third}"))).await.status, 204);
    daemon.stop().await;
}

#[tokio::test]
async fn a_sessions_made_at_once_are_counted_exactly() {
    let daemon = Daemon::start(room_for(3)).await;
    let make = || daemon.send(Request::new("POST", "/session").json(&json!({ "sessionScope": "thread" })));
    let made = futures::future::join_all((0..12).map(|_| make())).await;
    let count = |status| made.iter().filter(|response| response.status == status).count();
    assert_eq!((count(200), count(503)), (3, 9));
    daemon.stop().await;
}
