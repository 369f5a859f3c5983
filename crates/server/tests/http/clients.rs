//! The client's id on every route that reads it (WIRE a, a.7): its grammar, route by route, as the document names them.

use serde_json::{Value, json};

use crate::rig::Machine;
use crate::support::{Request, Tune};
use crate::votes::got;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

/// Method and path of every operation, and whether it reads the client's id.
fn operations() -> Vec<(String, String, bool)> {
    let document: Value = serde_json::from_slice(&std::fs::read(DOCUMENT).unwrap()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let reads = parameters
                .iter()
                .any(|parameter| parameter["in"] == "header" && parameter["name"] == "X-Qwen-Client-Id");
            found.push((method.to_ascii_uppercase(), path.clone(), reads));
        }
    }
    found
}

#[test]
fn a_every_route_of_a_session_reads_the_clients_id_but_the_stream() {
    for (method, path, reads) in operations() {
        // On the stream what is unknown or malformed is ignored (a.5).
        let of_a_session = path.starts_with("/session") && !path.starts_with("/sessions");
        let expected = of_a_session && path != "/session/{id}/events";
        assert!(reads || !expected, "{method} {path}");
    }
}

#[tokio::test]
async fn e_a_malformed_client_id_is_refused_on_every_route_that_reads_it_and_changes_nothing() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    let mut events = life.events(&session).await;
    life.told(&session, &mut events).await;
    let before = life.status(&session).await;
    // What each of them would take.
    let body = json!({
        "prompt": [{ "type": "text", "text": "hello" }],
        "outcome": { "outcome": "cancelled" },
        "displayName": "another",
        "generation": asked.generation,
        "decline": true,
        "sessionScope": "thread",
    });
    let fill = |path: &str| {
        let id = if path.starts_with("/questions") { &asked.id } else { &session.id };
        path.replace("{id}", id).replace("{request}", &asked.request).replace("{prompt}", "none")
    };
    let malformed = ["", "a b", "a/b", "a,b", "a;b", "(a)", "a\tb", "\u{e4}", &"a".repeat(129)];
    let mut routes = 0;
    for (method, path, reads) in operations() {
        if !reads {
            continue;
        }
        routes += 1;
        for id in malformed {
            let request = Request::new(&method, &fill(&path)).json(&body).header("x-qwen-client-id", id);
            let refused = life.daemon.send(request).await;
            assert_eq!(got(&refused), (400, "invalid_client_id"), "{method} {path} {id:?}: {refused:?}");
        }
    }
    assert!(routes >= 20, "the document names them: {routes}");
    assert!(life.told(&session, &mut events).await.is_empty());
    let mut after = life.status(&session).await;
    for key in ["updatedAt", "displayName"] {
        // The marks on the stream are titles.
        after[key] = before[key].clone();
    }
    assert_eq!(after, before);
    assert_eq!(life.question(&asked).await["state"], "open");
    assert_eq!(life.daemon.engine.live_sessions(), 1);

    // Where it is not read, nothing is wrong with it.
    for path in [
        format!("/session/{}/events", session.id),
        format!("/questions/{}", asked.id),
        "/questions".to_owned(),
    ] {
        let mut stream = life.daemon.connect().await;
        let request = Request::new("GET", &path).header("x-qwen-client-id", "a b");
        assert_eq!(request.on(&mut stream, life.daemon.port).await.status, 200, "{path}");
    }
    life.stop().await;
}

#[tokio::test]
async fn a7_an_id_that_is_as_long_as_it_may_be_and_unknown_is_no_malformed_one() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = life.make().await;
    for id in ["A.z_0:-9".to_owned(), "a".repeat(128)] {
        let request = Request::new("GET", &format!("/session/{}/status", session.id));
        let refused = life.daemon.send(request.header("x-qwen-client-id", &id)).await;
        assert_eq!(got(&refused), (400, "invalid_client_id"), "{refused:?}");
        assert_eq!((&refused.body["clientId"], &refused.body["sessionId"]), (&json!(id), &json!(session.id)));
        // Who comes with one is given another (a.7).
        let given = life.load(&session, Some(&id)).await;
        assert_ne!(given, id);
    }
    life.stop().await;
}
