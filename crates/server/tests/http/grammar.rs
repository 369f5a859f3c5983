//! Requests that are written badly, or to confuse (WIRE e): each is refused with a 4xx or a close, and the daemon
//! goes on.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::support::{Daemon, Options, PATIENCE, Request};
use crate::votes::got;

/// Sends these bytes, and gives the status of the first response; 0 where the connection is closed without one.
async fn raw(daemon: &Daemon, bytes: &[u8]) -> u16 {
    let text = answers(daemon, bytes).await;
    text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok()).unwrap_or(0)
}

/// Sends these bytes, and gives everything that comes back.
async fn answers(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut stream = daemon.connect().await;
    // The daemon may answer and close before it has read all of it.
    let _ = timeout(PATIENCE, stream.write_all(bytes)).await.unwrap();
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer, or a close");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn e_heads_that_are_none_are_refused() {
    let daemon = Daemon::start(Options::default()).await;
    let host = format!("host: 127.0.0.1:{}\r\n", daemon.port);
    let get = |rest: &str| format!("GET /health HTTP/1.1\r\n{host}connection: close\r\n{rest}\r\n");
    assert_eq!(raw(&daemon, get("").as_bytes()).await, 200);
    // The limit is looked at between two reads, so a little more may pass.
    let long = "x".repeat(300 * 1024);
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let table = [
        ("no Host", "GET /health HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), 403),
        ("no Host, of old", "GET /health HTTP/1.0\r\n\r\n".to_owned(), 403),
        ("an empty Host", "GET /health HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n".to_owned(), 403),
        ("two Hosts", get("host: evil.example\r\n"), 403),
        ("a space before the colon", get("x : y\r\n"), 400),
        ("a name that is none", get("x(y): z\r\n"), 400),
        ("no name", get(": y\r\n"), 400),
        ("no colon", get("nothing\r\n"), 400),
        ("a NUL in a value", get("x: a\0b\r\n"), 400),
        ("a value on two lines", get("x: a\r\n b\r\n"), 400),
        ("two lengths", get("content-length: 1\r\ncontent-length: 2\r\n"), 400),
        ("a length that is none", get("content-length: -1\r\n"), 400),
        ("a length with a sign", get("content-length: +1\r\n"), 400),
        ("an unknown coding", get("transfer-encoding: magic\r\n"), 400),
        ("no method", format!(" /health HTTP/1.1\r\n{host}\r\n"), 400),
        ("no target", format!("GET HTTP/1.1\r\n{host}\r\n"), 400),
        ("a target that is no path", format!("GET health HTTP/1.1\r\n{host}connection: close\r\n\r\n"), 404),
        ("another protocol", format!("GET /health SIP/2.0\r\n{host}\r\n"), 400),
        ("HTTP/2 by itself", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 0),
        ("a header that is too long", get(&format!("x: {long}\r\n")), 431),
        ("too many headers", get(&many), 431),
        ("a method of its own", format!("BREW /health HTTP/1.1\r\n{host}connection: close\r\n\r\n"), 405),
        ("a method in lower case", format!("get /health HTTP/1.1\r\n{host}connection: close\r\n\r\n"), 405),
    ];
    for (what, text, status) in table {
        assert_eq!(raw(&daemon, text.as_bytes()).await, status, "{what}");
    }
    assert!(
        [414, 431].contains(&raw(&daemon, format!("GET /{long} HTTP/1.1\r\n{host}\r\n").as_bytes()).await)
    );
    assert_eq!(raw(&daemon, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await, 400, "TLS");
    assert_eq!(raw(&daemon, get("").as_bytes()).await, 200, "and it goes on");
    daemon.stop().await;
}

#[tokio::test]
async fn e_a_body_cannot_carry_a_second_request() {
    let daemon = Daemon::start(Options { token: Some("s3cret"), ..Options::default() }).await;
    let host = format!("host: 127.0.0.1:{}\r\n", daemon.port);
    let inner = format!("GET /capabilities HTTP/1.1\r\n{host}authorization: Bearer s3cret\r\n\r\n");
    for head in [
        // What one side takes for the body the other must not take for a request.
        format!("content-length: {}\r\n", inner.len()),
        "content-length: 4\r\ntransfer-encoding: chunked\r\n".to_owned(),
        "transfer-encoding: chunked, identity\r\n".to_owned(),
        "transfer-encoding: identity, chunked\r\n".to_owned(),
        "transfer-encoding : chunked\r\n".to_owned(),
    ] {
        let text = format!("POST /session HTTP/1.1\r\n{host}{head}\r\n{inner}");
        let told = answers(&daemon, text.as_bytes()).await;
        assert!(told.starts_with("HTTP/1.1 4"), "{head:?}: {told}");
        assert!(!told.contains("HTTP/1.1 200"), "{head:?}: {told}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn e_very_long_names_name_nothing() {
    let daemon = Daemon::start(Options::default()).await;
    for length in [129, 1000, 4096, 60_000] {
        let long = "a".repeat(length);
        let status = daemon.get(&format!("/session/{long}/status")).await;
        assert_eq!(got(&status), (404, "session_not_found"), "{length}");
        let question = daemon.get(&format!("/questions/q_{long}")).await;
        assert_eq!(got(&question), (404, "question_not_found"), "{length}");
        let client = Request::new("GET", "/session/none/status").header("x-qwen-client-id", long.clone());
        assert_eq!(got(&daemon.send(client).await), (400, "invalid_client_id"), "{length}");
        let surface = Request::new("POST", "/questions/q_0/answer").header("x-holdpoint-surface", long);
        let answered =
            daemon.send(surface.json(&serde_json::json!({ "generation": 1, "decline": true }))).await;
        assert_eq!(got(&answered), (404, "question_not_found"), "what is no surface is left out");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn e_rates_of_changes_and_of_reads() {
    let daemon = Daemon::start(Options { rate_limit: true, ..Options::default() }).await;
    let by = |request: Request<'static>, client: &str| request.header("x-qwen-client-id", client.to_owned());
    let cancel = || by(Request::new("POST", "/session/none/cancel"), "a");
    let read = || by(Request::new("GET", "/questions"), "a");
    // (tier, how many, a request of it)
    let tiers: [(&str, usize, &dyn Fn() -> Request<'static>); 2] =
        [("mutation", 30, &cancel), ("read", 120, &read)];
    for (tier, limit, request) in tiers {
        // A bucket fills while it is emptied, so at least so many pass, and not for ever.
        let mut passed = 0;
        let refused = loop {
            let response = daemon.send(request()).await;
            assert_eq!(response.header("x-ratelimit-limit"), Some(limit.to_string().as_str()), "{tier}");
            if response.status == 429 {
                break response;
            }
            passed += 1;
        };
        assert!(passed >= limit, "{tier}: {passed}");
        assert_eq!(got(&refused), (429, "rate_limit_exceeded"), "{tier}");
        assert_eq!(refused.body["tier"], tier);
        assert!(refused.header("retry-after").is_some());
    }
    // Free: signs of life, streams, health, and what a browser asks before it asks.
    for request in [
        by(Request::new("POST", "/session/none/heartbeat"), "a"),
        by(Request::new("GET", "/session/none/events"), "a"),
        by(Request::new("GET", "/health"), "a"),
        by(Request::new("OPTIONS", "/session"), "a"),
    ] {
        assert_ne!(daemon.send(request).await.status, 429);
    }
    // One that names nobody, or malformed, has the bucket of the nameless and not one of its own.
    let mut passed = 0;
    loop {
        let malformed =
            Request::new("POST", "/session/none/cancel").header("x-qwen-client-id", format!("a {passed}"));
        match daemon.send(malformed).await.status {
            400 => passed += 1,
            status => break assert_eq!(status, 429),
        }
    }
    assert!(passed >= 30, "{passed}");
    daemon.stop().await;
}
