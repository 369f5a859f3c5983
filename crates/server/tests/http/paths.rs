//! Paths: what stands in one names things, and cannot leave the data directory.

use std::collections::BTreeSet;
use std::path::Path;

use camino::{Utf8Component, Utf8PathBuf};
use holdpoint_model::ids::SessionId;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Daemon, Options, Request};

/// Every place of the path that a client fills in, as the document lists them.
fn places(document: &Value) -> Vec<(String, String)> {
    let mut places = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            if path.contains('{') {
                places.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    places
}

fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("%{b:02X}")).collect()
}

/// The path with its parameters filled in, the last one by `wild`.
fn fill(path: &str, session: &str, wild: &str) -> Vec<String> {
    let parameters: Vec<_> = path.split('/').filter(|part| part.starts_with('{')).collect();
    (0..parameters.len())
        .map(|at| {
            let mut path = path.to_owned();
            for (n, parameter) in parameters.iter().enumerate() {
                path = path.replacen(parameter, if n == at { wild } else { session }, 1);
            }
            path
        })
        .collect()
}

/// Everything under a directory.
fn tree(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path.clone());
            }
            found.insert(path.to_string_lossy().into_owned());
        }
    }
    found
}

async fn send_everywhere(daemon: &Daemon, document: &Value, session: &str, wild: &str) {
    for (method, path) in places(document) {
        for path in fill(&path, session, wild) {
            let request = Request::new(&method, &path).json(&json!({
                "prompt": [{ "type": "text", "text": "x" }],
                "outcome": { "outcome": "cancelled" },
                "displayName": "x",
                "generation": 1,
                "decline": true,
                "surface": "x",
            }));
            let response = daemon.send(request).await;
            assert!(response.status < 500, "{method} {path}: {response:?}");
            if response.status >= 400 {
                assert!(response.body["error"].is_string(), "{method} {path}: {response:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_broken_percent_encoding_is_refused_everywhere() {
    let daemon = Daemon::start(Options::default()).await;
    let document = daemon.get("/openapi.json").await.body;
    for (method, path) in places(&document) {
        for broken in ["%", "%4", "%zz", "%C3", "a%ff"] {
            for path in fill(&path, "x", broken) {
                let response = daemon.send(Request::new(&method, &path)).await;
                assert_eq!(
                    (response.status, response.code()),
                    (400, Some("invalid_request")),
                    "{method} {path}"
                );
            }
        }
    }
    for path in ["/nothing/%zz", "/questions?limit=1&limit=2", "/questions?cursor=%ff"] {
        let response = daemon.get(path).await;
        assert_eq!((response.status, response.code().is_some()), (400, true), "{path}: {response:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn e_no_parameter_of_a_path_leaves_the_data_directory() {
    let daemon = Daemon::start(Options::default()).await;
    let document = daemon.get("/openapi.json").await.body;
    let session = daemon.session().await;
    // Beside the directory of the transcripts, where a path that climbs would find it.
    let secret = daemon.data_dir.join("secret.jsonl");
    std::fs::write(&secret, "{\"uuid\":\"x\"}\n").unwrap();
    std::fs::write(daemon.around.path().join("outside.jsonl"), "{\"uuid\":\"x\"}\n").unwrap();
    let before = tree(daemon.around.path());
    let absolute = daemon.data_dir.join("secret");
    for wild in [
        "..",
        ".",
        "../secret",
        "../../outside",
        "..\\secret",
        "....//secret",
        "/etc/passwd",
        absolute.as_str(),
        "secret.jsonl",
        "secret\0",
        "\0",
        "~",
        "~root",
        "CON",
        "a/../../secret",
        "\u{2025}/secret",
        "\u{ff0e}\u{ff0e}/secret",
        "%2e%2e%2fsecret",
        "$HOME",
        "`id`",
        "'; DROP TABLE questions; --",
        "-rf",
    ] {
        send_everywhere(&daemon, &document, &session, &encode(wild.as_bytes())).await;
        send_everywhere(&daemon, &document, "none", &encode(wild.as_bytes())).await;
    }
    // As they are written, too: a path is not tidied up before it is looked up.
    for raw in [
        "/session/../secret/transcript",
        "/session/..%2fsecret/transcript",
        "/../../etc/passwd",
        "//etc/passwd",
    ] {
        let response = daemon.get(raw).await;
        assert_eq!(response.status, 404, "{raw}: {response:?}");
    }
    let delete = json!({ "sessionIds": ["../secret", "..", "../../outside", absolute.as_str(), ""] });
    let response = daemon.send(Request::new("POST", "/sessions/delete").json(&delete)).await;
    assert_eq!(response.body["removed"], json!([]));
    assert_eq!(tree(daemon.around.path()), before, "nothing came, nothing went");
    daemon.stop().await;
}

/// Text of the kind that gets out of directories, and any other.
fn wild() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("..".to_owned()),
        Just("/".to_owned()),
        Just("\\".to_owned()),
        Just("\0".to_owned()),
        Just("%2f".to_owned()),
        Just(".jsonl".to_owned()),
        "[a-zA-Z0-9_-]{1,40}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn e_a_session_id_is_one_name_in_one_directory(text in wild()) {
        let Ok(id) = SessionId::new(text.clone()) else { return Ok(()) };
        let data_dir = Utf8PathBuf::from("/data");
        let path = holdpoint_transcript::path(&data_dir, &id);
        let directory = holdpoint_transcript::directory(&data_dir);
        prop_assert_eq!(path.parent(), Some(directory.as_path()));
        prop_assert!(path.components().all(|part| matches!(part, Utf8Component::RootDir | Utf8Component::Normal(_))));
        let name = format!("{text}.jsonl");
        prop_assert_eq!(path.file_name(), Some(name.as_str()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn e_random_parameters_break_nothing_and_leave_nothing(texts in proptest::collection::vec(wild(), 1..3)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let daemon = Daemon::start(Options::default()).await;
            let document = daemon.get("/openapi.json").await.body;
            let session = daemon.session().await;
            let before = tree(daemon.around.path());
            for text in &texts {
                let wild = encode(text.as_bytes());
                if !wild.is_empty() {
                    send_everywhere(&daemon, &document, &session, &wild).await;
                }
            }
            assert_eq!(tree(daemon.around.path()), before);
            daemon.stop().await;
        });
    }
}
