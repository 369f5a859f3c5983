//! Calls against a server on loopback: what goes over the wire, and how refusals come back.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{Server, reply};
use axum::http::StatusCode;
use holdpoint_client::{
    Answer, AnswerRequest, AnswerValue, ClientError, Daemon, Filter, NewSession, ReceiptStatus, Refusal, Vote,
};
use holdpoint_model::ids::{ClientId, Generation, QuestionId, RequestId, ResponseId, SessionId};
use serde_json::json;

fn session() -> SessionId {
    SessionId::new("ses-1").unwrap()
}

fn answer() -> AnswerRequest {
    AnswerRequest {
        generation: Generation(3),
        response_id: ResponseId::new("r_1").unwrap(),
        answer: Answer::Answers(BTreeMap::from([(0, AnswerValue::Text("Blue".into()))])),
    }
}

fn receipt(status: &str) -> serde_json::Value {
    json!({"status": status, "questionId": "q_1", "generation": 3, "responseId": "r_1",
           "answeredBy": {"clientId": "c", "surface": "http"}, "answeredAt": "2026-03-01T10:00:00Z",
           "answers": {"0": "Blue"}, "delivery": "waking", "new": 1})
}

#[tokio::test]
async fn token_and_client_id_go_with_each_call() {
    let server = Server::start(|_| reply(200, json!({"v": 1, "features": ["durable_questions"]}))).await;
    let daemon = Daemon::new(&server.url, Some("s3cret".to_owned().into()))
        .unwrap()
        .with_client_id(ClientId::new("client_a").unwrap());
    assert!(daemon.capabilities().await.unwrap().has("durable_questions"));
    let seen = server.seen();
    assert_eq!(seen[0].header("authorization"), Some("Bearer s3cret"));
    assert_eq!(seen[0].header("x-qwen-client-id"), Some("client_a"));
}

#[tokio::test]
async fn e6_a_restore_always_carries_a_client_id_and_other_calls_do_not_invent_one() {
    let server = Server::start(|_| {
        reply(
            200,
            json!({"sessionId": "ses-1", "clientId": "client_x", "hasActivePrompt": true, "lastEventId": 4,
                          "eventEpoch": "e", "compactedReplay": [], "liveJournal": []}),
        )
    })
    .await;
    let daemon = Daemon::new(&server.url, None).unwrap();
    let attached = daemon.load(&session()).await.unwrap();
    assert_eq!(attached.last_event_id, Some(4));
    daemon.resume(&session()).await.unwrap();
    daemon.create(&NewSession::thread()).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/session/ses-1/load");
    for restore in &seen[..2] {
        assert!(restore.header("x-qwen-client-id").is_some_and(|id| ClientId::new(id).is_ok()));
    }
    assert_eq!(seen[2].header("x-qwen-client-id"), None);
    assert_eq!(seen[2].json(), json!({"sessionScope": "thread"}));
}

#[tokio::test]
async fn paths_and_queries_are_escaped() {
    let server = Server::start(|_| reply(200, json!({"sessions": [], "questions": []}))).await;
    let daemon = Daemon::new(&server.url, None).unwrap();
    daemon.sessions("/proj/a b/ü?&", 20, Some("c&1")).await.unwrap();
    daemon.questions(&Filter { cwd: Some("/a b".into()), limit: Some(5), ..Filter::open() }).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/workspace/%2Fproj%2Fa%20b%2F%C3%BC%3F%26/sessions?size=20&cursor=c%261");
    assert_eq!(seen[1].path, "/questions?state=open&cwd=%2Fa%20b&limit=5");
}

#[tokio::test]
async fn d2_an_answer_and_its_receipt() {
    let server = Server::start(|_| reply(200, receipt("answered"))).await;
    let daemon = Daemon::new(&server.url, None).unwrap();
    let got = daemon.answer(&QuestionId::new("q_1").unwrap(), &answer()).await.unwrap();
    assert_eq!(got.status, ReceiptStatus::Answered);
    assert_eq!(got.delivery.as_deref(), Some("waking"));
    assert_eq!(serde_json::to_value(&got).unwrap(), receipt("answered"));
    let seen = server.seen();
    assert_eq!(seen[0].path, "/questions/q_1/answer");
    assert_eq!(seen[0].json(), json!({"generation": 3, "answers": {"0": "Blue"}, "responseId": "r_1"}));
}

#[tokio::test]
async fn d2_a_vote_that_does_not_decide_is_recorded() {
    let server = Server::start(|_| reply(202, receipt("recorded"))).await;
    let daemon = Daemon::new(&server.url, None).unwrap();
    let got = daemon.answer(&QuestionId::new("q_1").unwrap(), &answer()).await.unwrap();
    assert_eq!(got.status, ReceiptStatus::Recorded);
}

#[tokio::test]
async fn v3_an_answer_whose_connection_broke_is_sent_again_with_the_same_response_id() {
    let server = Server::start(|n| if n == 0 { None } else { reply(200, receipt("answered")) }).await;
    let daemon = Daemon::new(&server.url, None).unwrap();
    daemon.answer(&QuestionId::new("q_1").unwrap(), &answer()).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].json(), seen[1].json());
}

#[tokio::test]
async fn refusals_are_not_repeated_and_keep_the_daemons_words() {
    let server = Server::start(|_| {
        reply(410, json!({"error": "this question was closed", "code": "closed", "cause": "session_deleted", "x": 1}))
    })
    .await;
    let daemon = Daemon::new(&server.url, None).unwrap();
    let error = daemon.answer(&QuestionId::new("q_1").unwrap(), &answer()).await.unwrap_err();
    let ClientError::Refused(api) = &error else { panic!("{error:?}") };
    assert_eq!(api.refusal, Refusal::Closed { cause: Some("session_deleted".into()) });
    assert_eq!(api.details.get("x"), Some(&json!(1)));
    assert_eq!(error.to_string(), "this question was closed");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn retry_after_is_read() {
    let server = Server::start(|_| {
        let mut reply = reply(503, json!({"error": "full", "code": "prompt_queue_full", "limit": 5}));
        if let Some(response) = &mut reply {
            response.headers_mut().insert("retry-after", "5".parse().unwrap());
        }
        reply
    })
    .await;
    let error = Daemon::new(&server.url, None).unwrap().prompt(&session(), "x").await.unwrap_err();
    let ClientError::Refused(api) = error else { panic!("{error:?}") };
    assert_eq!(api.retry_after, Some(Duration::from_secs(5)));
    assert_eq!(api.refusal, Refusal::TryLater);
}

#[tokio::test]
async fn a_vote_on_nothing_is_false_and_detaching_from_nothing_is_fine() {
    let server = Server::start(|_| reply(404, json!({"error": "not pending", "requestId": "x"}))).await;
    let daemon = Daemon::new(&server.url, None).unwrap();
    assert!(!daemon.vote(&session(), &RequestId::new("x").unwrap(), &Vote::Cancelled).await.unwrap());
    daemon.detach(&session()).await.unwrap();
    daemon.close(&session()).await.unwrap();
    assert_eq!(server.seen()[0].json(), json!({"outcome": {"outcome": "cancelled"}}));
    assert!(daemon.cancel(&session()).await.is_err());
}

#[tokio::test]
async fn nobody_there_says_which_address() {
    let url = crate::support::free_address().await;
    let error = Daemon::new(&url, None).unwrap().health().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    assert!(error.is_outage());
    assert!(error.to_string().contains(&url), "{error}");
}

#[tokio::test]
async fn something_else_that_listens_there_is_told_from_a_daemon() {
    let server = Server::start(|_| {
        Some(axum::response::IntoResponse::into_response((StatusCode::OK, "<html>hello</html>")))
    })
    .await;
    let error = Daemon::new(&server.url, None).unwrap().health().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreadable { .. }), "{error:?}");
}

#[tokio::test]
async fn the_pages_of_the_inbox_end_even_if_the_cursor_stands_still() {
    let question = json!({"questionId": "q_1", "generation": 1, "sessionId": "s", "kind": "user_question", "state": "open"});
    let server =
        Server::start(move |_| reply(200, json!({"questions": [question], "nextCursor": "same"}))).await;
    let all = Daemon::new(&server.url, None).unwrap().all_questions(&Filter::open()).await.unwrap();
    assert_eq!(all.len(), 2);
}

/// Listens, and answers whatever comes with these bytes.
async fn raw(bytes: &'static [u8]) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut some = [0; 1024];
            let _ = stream.read(&mut some).await;
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
            // A close with something unread would be a reset, and take the bytes back.
            let _ = stream.read(&mut some).await;
        }
    });
    address
}

#[tokio::test]
async fn a_daemon_that_speaks_the_other_scheme_is_named_so() {
    let server = Server::start(|_| reply(200, json!({"status": "ok"}))).await;
    let over_tls = Daemon::new(&server.url.replace("http:", "https:"), None).unwrap();
    let error = over_tls.health().await.unwrap_err().to_string();
    assert!(error.contains("speaks http; write the address with http://"), "{error}");

    // An alert of TLS, and the words of common servers.
    let nginx = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 45\r\n\r\nThe plain HTTP request was sent to HTTPS port";
    for bytes in [b"\x15\x03\x01\x00\x02\x02\x46".as_slice(), nginx] {
        let plain = Daemon::new(&format!("http://{}", raw(bytes).await), None).unwrap();
        let error = plain.health().await.unwrap_err().to_string();
        assert!(error.contains("speaks https; write the address with https://"), "{error}");
    }
    // A word about it in a daemon's own refusal is none.
    let server = Server::start(|_| reply(400, json!({"error": "no", "code": "invalid_request"}))).await;
    let error = Daemon::new(&server.url, None).unwrap().health().await.unwrap_err();
    assert_eq!(error.refusal(), Some(&Refusal::Invalid));
}
