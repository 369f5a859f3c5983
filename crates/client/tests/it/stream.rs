//! A session's events over broken connections and restarts.

use std::time::Duration;

use crate::support::{Server, reply};
use axum::body::{Body, Bytes};
use axum::response::Response;
use holdpoint_client::{ClientError, Cursor, Daemon, EventKind, Signal, Subscription, Update};
use holdpoint_model::ids::{ClientId, SessionId};
use serde_json::json;

fn stream(epoch: &str, frames: &[String], then: Then) -> Option<Response> {
    use futures::StreamExt as _;
    let text = format!("retry: 3000\n\n: hello\n\n{}", frames.concat());
    let first = futures::stream::once(async move { Ok::<_, std::io::Error>(Bytes::from(text)) });
    let body = match then {
        Then::End => Body::from_stream(first),
        Then::Stay => Body::from_stream(first.chain(futures::stream::pending())),
    };
    let response = Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .header("X-Qwen-Event-Epoch", epoch)
        .header("X-Qwen-SSE-Stream-Id", format!("stream-of-{epoch}"))
        .body(body)
        .unwrap();
    Some(response)
}

#[derive(Clone, Copy)]
enum Then {
    End,
    Stay,
}

fn text(id: u64, text: &str) -> String {
    let event = json!({"id": id, "v": 1, "type": "session_update",
        "data": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}});
    format!("id: {id}\nevent: session_update\ndata: {event}\n\n")
}

fn bare(kind: &str, data: serde_json::Value) -> String {
    format!("event: {kind}\ndata: {}\n\n", json!({"v": 1, "type": kind, "data": data}))
}

fn subscribe(server: &Server, from: Cursor) -> Subscription {
    Daemon::new(&server.url, None)
        .unwrap()
        .with_client_id(ClientId::new("client_a").unwrap())
        .events(&SessionId::new("ses-1").unwrap(), from)
}

/// Signals as short texts, up to and with the one that is `last`.
async fn until(subscription: &mut Subscription, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let one = match subscription.next().await {
            Ok(Signal::Event(event)) => match event.parse() {
                EventKind::Update(Update::AgentText(text)) => text,
                EventKind::Resync(resync) => format!("resync {}", resync.reason),
                EventKind::ReplayComplete => "replayed".to_owned(),
                other => format!("{other:?}"),
            },
            Ok(Signal::Lost { .. }) => "lost".to_owned(),
            Ok(Signal::Back) => "back".to_owned(),
            Ok(Signal::Resumed(attached)) => format!("resumed as {}", attached.client_id),
            Err(error) => format!("error {error}"),
        };
        all.push(one);
        if all.last().is_some_and(|one| one == last) {
            return all;
        }
        assert!(all.len() < 50, "{all:?}");
    }
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_the_last_event_with_its_epoch() {
    let server = Server::start(|n| match n {
        0 => stream("e1", &[text(1, "one"), text(2, "two")], Then::End),
        // A daemon may send again what was seen: it is not told twice.
        _ => stream("e1", &[text(2, "two"), text(3, "three")], Then::Stay),
    })
    .await;
    let mut subscription = subscribe(&server, Cursor::after(0, Some("e1".into())));
    assert_eq!(until(&mut subscription, "three").await, ["one", "two", "lost", "back", "three"]);
    let seen = server.seen();
    assert_eq!(seen[0].path, "/session/ses-1/events");
    assert_eq!(seen[0].header("last-event-id"), Some("0"));
    assert_eq!(seen[1].path, "/session/ses-1/events?connectReason=resume&previousStreamId=stream-of-e1");
    assert_eq!(seen[1].header("last-event-id"), Some("2"));
    assert_eq!(seen[1].header("x-qwen-event-epoch"), Some("e1"));
    assert_eq!(seen[1].header("x-qwen-client-id"), Some("client_a"));
    assert_eq!(subscription.cursor(), &Cursor::after(3, Some("e1".into())));
}

#[tokio::test]
async fn after_a_restart_the_session_is_resumed_and_the_new_epoch_is_read_from_its_start() {
    let server = Server::start(|n| match n {
        0 => stream("e1", &[text(7, "before")], Then::End),
        1 => reply(404, json!({"error": "no such session", "code": "session_not_found"})),
        2 => reply(200, json!({"sessionId": "ses-1", "clientId": "client_a", "hasActivePrompt": true})),
        _ => stream(
            "e2",
            &[
                bare("state_resync_required", json!({"reason": "epoch_reset", "lastDeliveredId": 7})),
                text(1, "after"),
                bare("replay_complete", json!({"replayedCount": 1})),
            ],
            Then::Stay,
        ),
    })
    .await;
    let mut subscription = subscribe(&server, Cursor::after(6, Some("e1".into())));
    assert_eq!(
        until(&mut subscription, "replayed").await,
        ["before", "lost", "resumed as client_a", "back", "resync epoch_reset", "after", "replayed"]
    );
    let seen = server.seen();
    assert_eq!(seen[2].path, "/session/ses-1/resume");
    assert_eq!(seen[2].header("x-qwen-client-id"), Some("client_a"));
    assert_eq!(seen[3].header("last-event-id"), Some("7"));
    assert_eq!(seen[3].header("x-qwen-event-epoch"), Some("e1"));
    assert_eq!(subscription.cursor(), &Cursor::after(1, Some("e2".into())));
}

#[tokio::test]
async fn a_changed_epoch_counts_even_without_a_resync_frame() {
    let server = Server::start(|n| match n {
        0 => stream("e1", &[text(9, "before")], Then::End),
        _ => stream("e2", &[text(1, "after")], Then::Stay),
    })
    .await;
    let mut subscription = subscribe(&server, Cursor::after(8, Some("e1".into())));
    assert_eq!(until(&mut subscription, "after").await, ["before", "lost", "back", "after"]);
}

#[tokio::test]
async fn an_outage_is_told_once_and_ends_when_the_limit_is_reached() {
    let server = Server::start(|n| match n {
        0 => stream("e1", &[text(1, "one")], Then::End),
        _ => None,
    })
    .await;
    let mut subscription = subscribe(&server, Cursor::default()).give_up_after(Duration::from_millis(1));
    let mut lost = 0;
    let error = loop {
        match subscription.next().await {
            Ok(Signal::Lost { .. }) => lost += 1,
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(lost, 1);
    assert!(!matches!(error, ClientError::Refused(_)), "{error:?}");
    assert_eq!(server.seen()[0].header("last-event-id"), None);
}

#[tokio::test]
async fn the_first_failure_is_the_callers_to_hear() {
    let url = crate::support::free_address().await;
    let mut subscription =
        Daemon::new(&url, None).unwrap().events(&SessionId::new("s").unwrap(), Cursor::default());
    assert!(matches!(subscription.next().await, Err(ClientError::Unreachable { .. })));

    let server =
        Server::start(|_| reply(404, json!({"error": "no such session", "code": "session_not_found"}))).await;
    let mut subscription = subscribe(&server, Cursor::default()).without_resume();
    assert!(matches!(subscription.next().await, Err(ClientError::Refused(_))));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn frames_that_are_no_events_are_left_out() {
    let server = Server::start(|_| {
        let odd = [
            "data: not json\n\n",
            "data: {\"v\":2,\"type\":\"x\"}\n\n",
            "data: [1]\n\n",
            ": comment\n\n",
            "event: x\n\n",
        ];
        let mut frames: Vec<String> = odd.iter().map(|frame| (*frame).to_owned()).collect();
        frames.push(text(1, "good").replace('\n', "\r\n"));
        stream("e1", &frames, Then::Stay)
    })
    .await;
    assert_eq!(until(&mut subscribe(&server, Cursor::default()), "good").await, ["good"]);
}

#[tokio::test]
async fn h12_an_event_that_never_came_is_asked_for_when_a_sign_of_life_names_it() {
    let alive = |id: u64| bare("alive", json!({"lastEventId": id, "eventEpoch": "e1"}));
    let server = Server::start(move |n| match n {
        0 => stream("e1", &[alive(0), text(1, "one"), alive(1), alive(2)], Then::Stay),
        _ => stream("e1", &[text(2, "two"), alive(2)], Then::Stay),
    })
    .await;
    let mut subscription = subscribe(&server, Cursor::after(0, Some("e1".into())));
    assert_eq!(until(&mut subscription, "two").await, ["one", "lost", "back", "two"]);
    assert_eq!(server.seen()[1].header("last-event-id"), Some("1"));
}

#[tokio::test]
async fn a_page_is_no_event_stream() {
    let server = Server::start(|_| reply(200, json!({}))).await;
    let error = subscribe(&server, Cursor::default()).next().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreadable { .. }), "{error:?}");
}
