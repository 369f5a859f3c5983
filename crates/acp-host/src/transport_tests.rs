//! Tests of the bounded lines between us and an agent.

use agent_client_protocol::{Channel, Error, RawJsonRpcId, RawJsonRpcNotification};
use serde_json::{Value, json};

use super::*;
use crate::config::{Limits, Restore};

fn conn() -> Arc<Conn> {
    Arc::new(Conn::new("test", 0, Restore::Native, Limits::default()))
}

fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new(&std::collections::BTreeMap::new()))
}

async fn all_lines(input: &[u8], chunk: usize, max: usize) -> Vec<String> {
    let (mut into, out) = tokio::io::duplex(chunk);
    let input = input.to_vec();
    tokio::spawn(async move { into.write_all(&input).await });
    let mut lines = BoundedLines::new(out, max);
    let mut seen = Vec::new();
    loop {
        match lines.next().await.unwrap() {
            Line::Whole(line) => seen.push(String::from_utf8_lossy(line).into_owned()),
            Line::Cut(line) => seen.push(String::from_utf8_lossy(line).into_owned() + "…"),
            Line::End => return seen,
        }
    }
}

#[tokio::test]
async fn lines_are_the_same_however_the_bytes_arrive() {
    let input = b"one\n\nlonger than that\nten bytes.\nlonger again\nend";
    for chunk in 1..=input.len() {
        assert_eq!(
            all_lines(input, chunk, 10).await,
            ["one", "", "longer tha…", "ten bytes.", "longer aga…", "end"],
            "in chunks of {chunk}"
        );
    }
    assert_eq!(all_lines(b"", 1, 10).await, Vec::<String>::new());
    assert_eq!(all_lines(b"far too long", 3, 4).await, ["far …"]);
}

fn update(text: &str) -> String {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "text": text } }).to_string() + "\n"
}

/// Lets every other task run until it waits for something.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_reader_stops_when_the_queue_is_full_and_goes_on_when_a_message_was_handled() {
    let conn = conn();
    let (ours, mut sdks) = Channel::duplex();
    let input = update("x").repeat(10 * QUEUE);
    let reader =
        tokio::spawn(read(Arc::clone(&conn), std::io::Cursor::new(input.into_bytes()), ours.tx, redactor()));
    settle().await;
    for _ in 0..QUEUE {
        assert!(sdks.rx.next().now_or_never().flatten().is_some());
    }
    assert!(sdks.rx.next().now_or_never().is_none(), "no more than the queue holds were read");
    conn.handled.notify_one();
    let mut rest = 0;
    while sdks.rx.next().await.is_some() {
        rest += 1;
        conn.handled.notify_one();
    }
    assert_eq!(rest, 9 * QUEUE);
    assert_eq!(reader.await.unwrap().0, End::Closed);
}

#[tokio::test]
async fn a_large_message_waits_for_an_empty_queue() {
    let conn = conn();
    let (ours, mut sdks) = Channel::duplex();
    let large = update(&"x".repeat(2 * LARGE));
    let input = update("x") + &large + &large;
    tokio::spawn(read(Arc::clone(&conn), std::io::Cursor::new(input.into_bytes()), ours.tx, redactor()));
    for _ in 0..3 {
        settle().await;
        assert!(sdks.rx.next().now_or_never().flatten().is_some());
        assert!(sdks.rx.next().now_or_never().is_none_or(|end| end.is_none()));
        conn.handled.notify_one();
    }
}

#[tokio::test]
async fn answers_to_nothing_are_dropped_and_those_to_us_are_passed_on_once() {
    let conn = conn();
    conn.sent(RawJsonRpcId::Number(1));
    let (ours, mut sdks) = Channel::duplex();
    let answer = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string() + "\n";
    let input = answer(2) + &answer(1) + &answer(1);
    let (end, _) = read(conn, std::io::Cursor::new(input.into_bytes()), ours.tx, redactor()).await;
    assert_eq!(end, End::Closed);
    assert!(sdks.rx.next().await.is_some());
    assert!(sdks.rx.next().await.is_none());
}

#[tokio::test]
async fn garbage_is_counted_from_the_last_message_on() {
    let garbage = "no json\n".repeat(100);
    for (input, broken) in [
        (garbage.clone() + &update("x") + &garbage, false),
        (garbage.clone() + "\n  \n" + &update("x"), false),
        (garbage.clone() + "{\"jsonrpc\":\"1.0\",\"method\":\"x\"}\n", true),
    ] {
        let (ours, _sdks) = Channel::duplex();
        let (end, _) = read(conn(), std::io::Cursor::new(input.into_bytes()), ours.tx, redactor()).await;
        assert_eq!(matches!(end, End::Broken(_)), broken, "{end:?}");
    }
}

fn answer(id: i64, result: Result<Value, Error>) -> TransportFrame {
    TransportFrame::Single(RawJsonRpcMessage::response(RawJsonRpcId::Number(id), result))
}

#[tokio::test]
async fn i12_only_answers_that_somebody_gave_are_written() {
    let conn = conn();
    assert!(conn.allow(&RawJsonRpcId::Number(2)));
    let (ours, sdks) = Channel::duplex();
    let cancel = RawJsonRpcNotification { method: "$/cancel_request".into(), params: None };
    let update = RawJsonRpcNotification { method: "session/cancel".into(), params: None };
    for frame in [
        answer(1, Err(Error::internal_error())),
        answer(2, Ok(json!("given"))),
        answer(2, Err(Error::internal_error())),
        TransportFrame::Single(cancel.into()),
        TransportFrame::Malformed { raw: "raw".into(), error: Error::parse_error() },
        TransportFrame::Single(update.into()),
    ] {
        sdks.tx.unbounded_send(frame).unwrap();
    }
    drop(sdks);
    let written = write(conn, ours.rx, std::io::Cursor::new(Vec::new())).await.into_inner();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"given\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\"}\n"
    );
}

#[tokio::test]
async fn i12_nothing_is_written_once_it_is_being_stopped() {
    let conn = conn();
    assert!(conn.allow(&RawJsonRpcId::Number(1)));
    let (ours, sdks) = Channel::duplex();
    sdks.tx.unbounded_send(answer(1, Ok(json!("given")))).unwrap();
    drop(sdks);
    conn.stopping.cancel();
    assert!(!conn.allow(&RawJsonRpcId::Number(2)));
    assert!(write(conn, ours.rx, std::io::Cursor::new(Vec::new())).await.into_inner().is_empty());
}
