//! WIRE e, as a table: who may talk to the daemon.

use serde_json::json;

use crate::support::{Daemon, Options, Request, Response};

/// One request, and what must come of it: the status, and the code (`-` for an error without one).
struct Row {
    what: &'static str,
    request: Request<'static>,
    status: u16,
    code: &'static str,
}

fn row(what: &'static str, request: Request<'static>, status: u16, code: &'static str) -> Row {
    Row { what, request, status, code }
}

fn get(path: &str) -> Request<'static> {
    Request::new("GET", path)
}

async fn check(options: Options, rows: Vec<Row>) {
    let daemon = Daemon::start(options.clone()).await;
    for Row { what, request, status, code } in rows {
        let response = daemon.send(request).await;
        let got = response.code().unwrap_or(if response.body.get("error").is_some() { "-" } else { "" });
        assert_eq!((response.status, got), (status, code), "{what}; {options:?}; {response:?}");
    }
    daemon.stop().await;
}

/// Text that is a token to some and not to others.
fn bearer(value: &str) -> Request<'static> {
    get("/capabilities").header("authorization", value)
}

#[tokio::test]
async fn e_bearer() {
    let wrong = |what, value: &str| row(what, bearer(value), 401, "-");
    let rows = vec![
        row("right", bearer("Bearer s3cret"), 200, ""),
        row("scheme in lower case", bearer("bearer s3cret"), 200, ""),
        row("scheme in upper case", bearer("BEARER s3cret"), 200, ""),
        row("more space", bearer("Bearer   s3cret"), 200, ""),
        row("none", get("/capabilities"), 401, "-"),
        wrong("another", "Bearer s3cres"),
        wrong("a prefix", "Bearer s3cre"),
        wrong("longer", "Bearer s3crett"),
        wrong("other case", "Bearer S3CRET"),
        wrong("nothing", "Bearer "),
        wrong("only the scheme", "Bearer"),
        wrong("no scheme", "s3cret"),
        wrong("another scheme", "Basic s3cret"),
        wrong("bytes that are no text", "Bearer \u{e4}"),
        row("in the query it counts for nothing", get("/capabilities?token=s3cret"), 401, "-"),
        row("unknown paths tell nothing", get("/nothing"), 401, "-"),
        row("nor broken ones", get("/session/%zz/status"), 401, "-"),
        row("nor wrong methods", Request::new("PUT", "/session"), 401, "-"),
        row("health on loopback is open", get("/health"), 200, ""),
        row("metrics are not", get("/metrics"), 401, "-"),
        row("nor is the document", get("/openapi.json"), 401, "-"),
    ];
    check(Options { token: Some("s3cret"), ..Options::default() }, rows).await;
}

#[tokio::test]
async fn e_every_failure_of_the_bearer_looks_the_same() {
    let daemon = Daemon::start(Options { token: Some("s3cret"), ..Options::default() }).await;
    let none = daemon.get("/session/x/status").await;
    for value in ["Bearer wrong", "Basic x", "", "Bearer s3cret2"] {
        let other = daemon.send(get("/nothing").header("authorization", value)).await;
        assert_eq!((other.status, &other.body), (none.status, &json!({ "error": "Unauthorized" })));
        let names = |response: &Response| {
            let mut names: Vec<_> = response.headers.keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(names(&other), names(&none));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn e_require_auth_covers_health() {
    let options = Options { token: Some("s3cret"), require_auth: true, ..Options::default() };
    let rows = vec![
        row("health without", get("/health"), 401, "-"),
        row("deep health without", get("/health?deep=1"), 401, "-"),
        row("health with", get("/health").header("authorization", "Bearer s3cret"), 200, ""),
    ];
    check(options, rows).await;
}

#[tokio::test]
async fn e_a_bind_that_is_not_loopback_needs_the_token_for_health_and_takes_any_host() {
    let options = Options { bind: "0.0.0.0:0", token: Some("s3cret"), ..Options::default() };
    let with = |request: Request<'static>| request.header("authorization", "Bearer s3cret");
    let rows = vec![
        row("health without", get("/health"), 401, "-"),
        row("another name", with(get("/health").header("host", "holdpoint.example.org")), 200, ""),
        row(
            "its own page",
            with(get("/health").header("host", "h.example.org").header("origin", "https://h.example.org")),
            200,
            "",
        ),
        row(
            "another's page",
            with(get("/health").header("host", "h.example.org").header("origin", "https://evil.example")),
            403,
            "-",
        ),
    ];
    check(options, rows).await;
}

#[tokio::test]
async fn e_host() {
    let host = |what, host: &str, status| {
        row(what, get("/health").header("host", host), status, if status == 200 { "" } else { "-" })
    };
    let rows = vec![
        host("v4", "127.0.0.1:PORT", 200),
        host("name", "localhost:PORT", 200),
        host("name in capitals", "LocalHost:PORT", 200),
        host("v6", "[::1]:PORT", 200),
        host("from a container", "host.docker.internal:PORT", 200),
        host("another name that leads here", "rebound.example.org:PORT", 403),
        host("ours as part of another", "localhost.example.org:PORT", 403),
        host("ours as the user of another", "localhost@example.org:PORT", 403),
        host("no port", "127.0.0.1", 403),
        host("another port", "127.0.0.1:1", 403),
        host("a port that is none", "127.0.0.1:+PORT", 403),
        host("an empty port", "127.0.0.1:", 403),
        host("another address", "127.0.0.2:PORT", 403),
        host("any address", "0.0.0.0:PORT", 403),
        host("empty", "", 403),
        row("two", get("/health").header("host", "127.0.0.1:PORT").header("host", "evil.example"), 403, "-"),
        row("before the token", get("/capabilities").header("host", "evil.example"), 403, "-"),
    ];
    check(Options { token: Some("s3cret"), ..Options::default() }, rows).await;
}

#[tokio::test]
async fn e_host_without_a_port_is_right_on_the_ports_that_need_none() {
    for port in [80, 443, 8080] {
        let bare = if port == 8080 { 403 } else { 200 };
        let host = |host: &str, status| {
            row("host", get("/health").header("host", host), status, if status == 200 { "" } else { "-" })
        };
        let mut rows = vec![
            host("rebound.example.org", 403),
            host(&format!("rebound.example.org:{port}"), 403),
            host(&format!("127.0.0.1:{port}"), 200),
            // Neither the other one's, nor where it listens in truth.
            host(if port == 80 { "127.0.0.1:443" } else { "127.0.0.1:80" }, 403),
            host("127.0.0.1:PORT", 403),
            host("127.0.0.1:", 403),
        ];
        for name in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "host.docker.internal"] {
            rows.push(host(name, bare));
        }
        check(Options { port: Some(port), ..Options::default() }, rows).await;
    }
}

#[tokio::test]
async fn e_what_is_refused_by_host_or_origin_or_token_reaches_no_route() {
    // The order of WIRE e: what is wrong first is what is told, and nothing is done.
    let daemon =
        Daemon::start(Options { token: Some("s3cret"), rate_limit: true, ..Options::default() }).await;
    let make = || Request::new("POST", "/session").json(&json!({ "sessionScope": "thread" }));
    let foreign = |request: Request<'static>| request.header("origin", "https://evil.example");
    let rebound = |request: Request<'static>| request.header("host", "evil.example");
    let with = |request: Request<'static>| request.header("authorization", "Bearer s3cret");
    let table = [
        ("everything", foreign(rebound(make())), 403, "Invalid Host header"),
        ("the host, with the token", with(rebound(make())), 403, "Invalid Host header"),
        ("the origin, with the token", with(foreign(make())), 403, "Request denied by CORS policy"),
        ("the origin", foreign(make()), 403, "Request denied by CORS policy"),
        ("the token", make(), 401, "Unauthorized"),
    ];
    for (what, request, status, words) in table {
        for _ in 0..40 {
            let refused = daemon.send(request.clone()).await;
            assert_eq!((refused.status, &refused.body["error"]), (status, &json!(words)), "{what}");
            assert_eq!(refused.header("x-ratelimit-limit"), None, "{what}: nobody's bucket is emptied by it");
        }
    }
    assert_eq!(daemon.engine.live_sessions(), 0);
    assert_eq!(daemon.send(with(make())).await.status, 200);
    daemon.stop().await;
}

#[tokio::test]
async fn e_a_votes_body_cannot_pollute_what_is_stored() {
    let daemon = Daemon::start(Options::default()).await;
    let body = json!({ "__proto__": { "sessionScope": "thread" }, "constructor": 1, "prototype": 2 });
    let made = daemon.send(Request::new("POST", "/session").json(&body)).await;
    assert_eq!(made.status, 200, "{made:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn e_origin_without_any_allowed() {
    let origin = |what, origin: &str, status| {
        row(what, get("/health").header("origin", origin), status, if status == 200 { "" } else { "-" })
    };
    let rows = vec![
        origin("our own", "http://127.0.0.1:PORT", 200),
        origin("our own name", "http://localhost:PORT", 200),
        origin("another port of this machine", "http://localhost:1", 403),
        origin("another site", "https://evil.example", 403),
        origin("no site at all", "null", 403),
        origin("empty", "", 403),
        origin("another scheme", "file://localhost:PORT", 403),
        origin("ours as part of another", "http://127.0.0.1:PORT.evil.example", 403),
        row(
            "a preflight",
            Request::new("OPTIONS", "/session")
                .header("origin", "https://evil.example")
                .header("access-control-request-method", "POST"),
            403,
            "-",
        ),
        row("OPTIONS without an origin", Request::new("OPTIONS", "/session"), 405, "method_not_allowed"),
    ];
    check(Options::default(), rows).await;
    let daemon = Daemon::start(Options::default()).await;
    let refused = daemon.send(get("/health").header("origin", "https://evil.example")).await;
    assert_eq!(refused.header("vary"), Some("Origin"));
    assert_eq!(refused.header("access-control-allow-origin"), None);
    daemon.stop().await;
}

#[tokio::test]
async fn e_an_allowed_origin_gets_what_a_browser_needs_and_no_more() {
    let options = Options {
        token: Some("s3cret"),
        origins: &["https://app.example.org", "http://tools.example.org:8080"],
        ..Options::default()
    };
    let daemon = Daemon::start(options).await;
    let preflight = Request::new("OPTIONS", "/session/x/prompt")
        .header("origin", "https://app.example.org")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization, content-type");
    let response = daemon.send(preflight).await;
    assert_eq!(response.status, 204, "a browser sends no token with a preflight");
    let expected = [
        ("access-control-allow-origin", "https://app.example.org"),
        ("access-control-allow-methods", "GET, POST, PATCH, DELETE, OPTIONS"),
        (
            "access-control-allow-headers",
            "Authorization, Content-Type, X-Qwen-Client-Id, Last-Event-ID, X-Qwen-Event-Epoch",
        ),
        ("access-control-expose-headers", "Retry-After, X-Qwen-Event-Epoch, X-Qwen-SSE-Stream-Id"),
        ("access-control-max-age", "86400"),
        ("vary", "Origin"),
    ];
    for (name, value) in expected {
        assert_eq!(response.header(name), Some(value), "{name}");
    }
    assert_eq!(response.header("access-control-allow-credentials"), None);

    let plain = get("/capabilities").header("origin", "https://app.example.org");
    let refused = daemon.send(plain.clone()).await;
    assert_eq!(refused.status, 401, "an origin is no token");
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://app.example.org"));
    let passed = daemon.send(plain.header("authorization", "Bearer s3cret")).await;
    assert_eq!(passed.status, 200);
    assert_eq!(passed.header("access-control-allow-origin"), Some("https://app.example.org"));
    assert_eq!(passed.header("access-control-allow-credentials"), None);
    assert_eq!(passed.header("access-control-allow-methods"), None, "only in a preflight");
    assert!(passed.body["features"].as_array().unwrap().contains(&json!("allow_origin")));

    for (origin, allowed) in [
        ("HTTPS://APP.EXAMPLE.ORG", true),
        ("https://app.example.org:443", true),
        ("http://tools.example.org:8080", true),
        ("http://app.example.org", false),
        ("https://app.example.org.evil.example", false),
        ("https://app.example.org:444", false),
        ("null", false),
    ] {
        let response = daemon.send(get("/health").header("origin", origin)).await;
        assert_eq!(response.status, if allowed { 200 } else { 403 }, "{origin}");
        assert_eq!(response.header("access-control-allow-origin").is_some(), allowed, "{origin}");
        assert_eq!(response.header("vary"), Some("Origin"), "{origin}");
    }
    let without = daemon.get("/health").await;
    assert_eq!(without.header("vary"), Some("Origin"), "a cache must know that it depends on it");
    daemon.stop().await;
}

#[tokio::test]
async fn e_any_origin_is_echoed() {
    let daemon =
        Daemon::start(Options { token: Some("s3cret"), origins: &["*"], ..Options::default() }).await;
    let response = daemon.send(get("/health").header("origin", "https://anything.example")).await;
    assert_eq!(response.header("access-control-allow-origin"), Some("https://anything.example"));
    daemon.stop().await;
}

#[tokio::test]
async fn e_strict_routes_are_for_the_operator() {
    let rename = |id: &str| {
        Request::new("PATCH", &format!("/session/{id}/metadata")).json(&json!({ "displayName": "name" }))
    };
    let go_on = |id: &str| Request::new("POST", &format!("/session/{id}/continue"));
    let daemon = Daemon::start(Options { origins: &["https://app.example.org"], ..Options::default() }).await;
    let id = daemon.session().await;
    for request in [rename(&id), go_on(&id)] {
        let local = daemon.send(request.clone()).await;
        assert_eq!(local.status, 200, "a process of this machine: {local:?}");
        for (name, value) in
            [("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.1"), ("x-real-ip", "10.0.0.1")]
        {
            let proxied = daemon.send(request.clone().header(name, value)).await;
            assert_eq!((proxied.status, proxied.code()), (401, Some("token_required")), "{name}");
        }
        let page = daemon.send(request.header("origin", "https://app.example.org")).await;
        assert_eq!((page.status, page.code()), (401, Some("token_required")), "another site's page");
    }
    let status =
        daemon.send(get(&format!("/session/{id}/status")).header("x-forwarded-for", "10.0.0.1")).await;
    assert_eq!(status.status, 200, "other routes are not strict");
    daemon.stop().await;

    let daemon = Daemon::start(Options { token: Some("s3cret"), ..Options::default() }).await;
    for request in [rename("none"), go_on("none")] {
        let request = request.header("x-forwarded-for", "10.0.0.1");
        assert_eq!(daemon.send(request.clone()).await.status, 401);
        let with = daemon.send(request.header("authorization", "Bearer s3cret")).await;
        assert_eq!((with.status, with.code()), (404, Some("session_not_found")), "the token is enough");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn e_client_ids_are_not_guessable_and_have_a_grammar() {
    let daemon = Daemon::start(Options::default()).await;
    let make = || Request::new("POST", "/session").json(&json!({ "sessionScope": "thread" }));
    let (mut seen, mut session) = (Vec::new(), String::new());
    for _ in 0..8 {
        let made = daemon.send(make()).await;
        session = made.body["sessionId"].as_str().unwrap().to_owned();
        let id = made.body["clientId"].as_str().unwrap().to_owned();
        let uuid = uuid::Uuid::parse_str(id.strip_prefix("client_").unwrap()).unwrap();
        assert_eq!(uuid.get_version_num(), 4, "122 random bits");
        assert!(!seen.contains(&id));
        seen.push(id);
    }
    let made = daemon.send(make().header("x-qwen-client-id", "chosen-by-the-client")).await;
    assert_ne!(made.body["clientId"], json!("chosen-by-the-client"));
    let long = "x".repeat(129);
    let malformed = ["a b", "", "\u{e4}", "a/b", "a\tb", "<script>", long.as_str()];
    let routes = [
        ("GET", "status", false),
        ("POST", "prompt", true),
        ("POST", "cancel", false),
        ("POST", "heartbeat", false),
        ("POST", "detach", false),
        ("POST", "load", false),
    ];
    for (method, route, body) in routes {
        let request = Request::new(method, &format!("/session/{session}/{route}"));
        let request = if body {
            request.json(&json!({ "prompt": [{ "type": "text", "text": "x" }] }))
        } else {
            request
        };
        for id in malformed {
            let response = daemon.send(request.clone().header("x-qwen-client-id", id)).await;
            assert_eq!(
                (response.status, response.code()),
                (400, Some("invalid_client_id")),
                "{route} {id:?}"
            );
        }
        if !matches!(route, "detach" | "load") {
            let response = daemon.send(request.clone().header("x-qwen-client-id", "client_unknown")).await;
            assert_eq!((response.status, response.code()), (400, Some("invalid_client_id")), "{route}");
        }
    }
    daemon.stop().await;
}
