//! Carries frames between two byte streams and the SDK's channel.
//!
//! The SDK's own line transport reads lines of any length and answers a malformed one with its whole text
//! (traps 4, 13), so lines are read and judged here, and the SDK sees only valid messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_client_protocol::{Channel, Error, RawJsonRpcMessage, TransportFrame};
use futures::StreamExt as _;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, mpsc};

use super::lines::{Line, MAX_LINE, read_line};
use super::{internal, invalid_request};

/// How many messages may wait for the writer before whoever sends the next one waits too: a burst of model
/// output, and no more memory than that for a reader that has stopped.
const MAX_WAITING: u64 = 256;

/// How much is joined into one write: the size of a pipe.
const JOIN: usize = 64 * 1024;

/// Own error answers that wait for the writer: as many malformed lines as one may send before it reads.
const COMPLAINTS: usize = 16;

/// Counts what was handed to the SDK and what was written, since its queue has no bound of its own.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    sent: AtomicU64,
    written: AtomicU64,
    progress: Notify,
}

impl Pace {
    /// Waits until there is room, and takes it.
    pub(crate) async fn room(&self) {
        loop {
            let progress = self.progress.notified();
            if self.waiting() < MAX_WAITING {
                break;
            }
            progress.await;
        }
        self.count();
    }

    /// Takes room without waiting: for questions, which are few.
    pub(crate) fn count(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    fn waiting(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).saturating_sub(self.written.load(Ordering::Relaxed))
    }

    fn wrote(&self, messages: u64) {
        self.written.fetch_add(messages, Ordering::Relaxed);
        self.progress.notify_waiters();
    }
}

/// Both directions of one connection.
pub(crate) struct Link {
    /// The SDK's end.
    pub(crate) channel: Channel,
    /// How full the outgoing queue is.
    pub(crate) pace: Arc<Pace>,
    /// Runs until the peer is gone.
    pub(crate) reader: tokio::task::JoinHandle<LinkEnd>,
    /// Runs until everything is written.
    pub(crate) writer: tokio::task::JoinHandle<LinkEnd>,
}

/// How one direction ended.
#[derive(Debug)]
pub(crate) enum LinkEnd {
    /// In good order.
    Closed,
    /// The system refused.
    Failed(std::io::Error),
}

/// Connects two byte streams to a channel for the SDK.
pub(crate) fn link<R, W>(source: R, sink: W) -> Link
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (channel, ours) = Channel::duplex();
    let (outgoing, incoming) = ours.into_parts();
    let (complaints, complained) = mpsc::channel(COMPLAINTS);
    let pace = Arc::new(Pace::default());
    let reader = tokio::spawn(read(BufReader::with_capacity(JOIN, source), incoming, complaints));
    let writer = tokio::spawn(write(sink, outgoing, complained, Arc::clone(&pace)));
    Link { channel, pace, reader, writer }
}

async fn read<R: AsyncRead + Unpin>(
    mut source: BufReader<R>,
    incoming: futures::channel::mpsc::UnboundedSender<TransportFrame>,
    complaints: mpsc::Sender<String>,
) -> LinkEnd {
    loop {
        let frame = match read_line(&mut source, MAX_LINE).await {
            Ok(Line::End) => return LinkEnd::Closed,
            Err(error) => return LinkEnd::Failed(error),
            Ok(Line::Text(line)) => TransportFrame::parse_json(&line),
            Ok(Line::NotText) => complaint_frame("a line is not UTF-8"),
            Ok(Line::TooLong) => complaint_frame(&format!("a line is longer than {MAX_LINE} bytes")),
        };
        match frame {
            TransportFrame::Single(message) => {
                if incoming.unbounded_send(TransportFrame::Single(message)).is_err() {
                    return LinkEnd::Closed;
                }
            }
            TransportFrame::Malformed { raw, error } => {
                tracing::warn!(code = i32::from(error.code), "a malformed line was refused");
                // What looks like a response answers nothing of ours: an answer to it would go in circles.
                if !looks_like_response(&raw) && complaints.send(complaint(&raw, &error)).await.is_err() {
                    return LinkEnd::Closed;
                }
            }
            other => tracing::warn!(?other, "a frame of an unknown kind was dropped"),
        }
        // The dispatcher only sorts what comes in; let it keep up, so that its queue stays short.
        tokio::task::yield_now().await;
    }
}

fn complaint_frame(problem: &str) -> TransportFrame {
    TransportFrame::Malformed { raw: String::new(), error: invalid_request(problem) }
}

fn looks_like_response(raw: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(raw)
        .is_ok_and(|v| v.get("method").is_none() && (v.get("result").is_some() || v.get("error").is_some()))
}

/// The answer to a malformed line: its id where it has one, and never its text.
fn complaint(raw: &str, error: &Error) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(raw).ok();
    let id = value.as_ref().and_then(|value| value.get("id")).filter(|id| id.is_string() || id.is_number());
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": { "code": i32::from(error.code), "message": error.message },
    })
    .to_string()
}

async fn write<W: AsyncWrite + Unpin>(
    mut sink: W,
    mut outgoing: futures::channel::mpsc::UnboundedReceiver<TransportFrame>,
    mut complained: mpsc::Receiver<String>,
    pace: Arc<Pace>,
) -> LinkEnd {
    let mut bytes = Vec::with_capacity(JOIN);
    let mut complaining = true;
    loop {
        let mut messages = 0;
        tokio::select! {
            frame = outgoing.next() => match frame {
                Some(frame) => messages += append(&mut bytes, frame),
                None => break,
            },
            line = complained.recv(), if complaining => match line {
                Some(line) => append_line(&mut bytes, &line),
                None => complaining = false,
            },
        }
        // What waits already goes out with it.
        while bytes.len() < JOIN
            && let Ok(frame) = outgoing.try_recv()
        {
            messages += append(&mut bytes, frame);
        }
        if let Err(error) = sink.write_all(&bytes).await {
            return LinkEnd::Failed(error);
        }
        if let Err(error) = sink.flush().await {
            return LinkEnd::Failed(error);
        }
        bytes.clear();
        pace.wrote(messages);
    }
    LinkEnd::Closed
}

/// Adds a message; answers how many messages it counts for. An answer counts for none: nobody took room for it, since a
/// prompt has its answer only when its turn ends, and turns that wait for people must not use up the room of the others.
fn append(bytes: &mut Vec<u8>, frame: TransportFrame) -> u64 {
    let counts = !matches!(&frame, TransportFrame::Single(RawJsonRpcMessage::Response(_)));
    let line = match &frame {
        TransportFrame::Single(message) => serde_json::to_string(message),
        // Only our reader makes such frames, and it keeps them.
        _ => return 0,
    };
    match line {
        Ok(line) => append_line(bytes, &line),
        Err(error) => {
            tracing::error!(%error, "a message could not be written as JSON");
            if let TransportFrame::Single(RawJsonRpcMessage::Response(response)) = &frame {
                let refusal = RawJsonRpcMessage::response(
                    RawJsonRpcMessage::Response(response.clone())
                        .response_id()
                        .cloned()
                        .unwrap_or(agent_client_protocol::RawJsonRpcId::Null),
                    Err(internal("the answer could not be written as JSON")),
                );
                if let Ok(line) = serde_json::to_string(&refusal) {
                    append_line(bytes, &line);
                }
            }
        }
    }
    u64::from(counts)
}

fn append_line(bytes: &mut Vec<u8>, line: &str) {
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn update(text: &str) -> TransportFrame {
        let message = RawJsonRpcMessage::notification("session/update".to_owned(), json!({ "text": text }));
        TransportFrame::Single(message.unwrap())
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_holds_the_sender_back() {
        let (mut client, agent) = tokio::io::duplex(64);
        let (source, sink) = tokio::io::split(agent);
        let link = link(source, sink);
        let mut sent = 0;
        // The first that must wait does wait; nothing is written, since the pipe holds 64 bytes.
        loop {
            let room = tokio::time::timeout(std::time::Duration::from_millis(50), link.pace.room());
            if room.await.is_err() {
                break;
            }
            link.channel.tx.unbounded_send(update("some text that is longer than the pipe is wide")).unwrap();
            sent += 1;
            assert!(sent <= MAX_WAITING + 1, "nothing holds the sender back");
        }
        let reading = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while client.read(&mut buffer).await.unwrap() > 0 {}
        });
        link.pace.room().await;
        drop(link.channel);
        assert!(matches!(link.writer.await, Ok(LinkEnd::Closed)));
        reading.abort();
    }

    #[test]
    fn an_answer_takes_no_room_however_long_it_is_waited_for() {
        let answer = RawJsonRpcMessage::response(agent_client_protocol::RawJsonRpcId::Null, Ok(json!({})));
        let mut bytes = Vec::new();
        assert_eq!(append(&mut bytes, TransportFrame::Single(answer)), 0);
        assert_eq!(append(&mut bytes, update("x")), 1);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 2);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_or_no_text_is_refused_and_the_next_is_read() {
        let (client, agent) = tokio::io::duplex(1 << 20);
        let (source, sink) = tokio::io::split(agent);
        let mut link = link(source, sink);
        let (mut answers, mut client) = tokio::io::split(client);
        tokio::spawn(async move {
            let chunk = vec![b'x'; 1 << 20];
            for _ in 0..=MAX_LINE >> 20 {
                client.write_all(&chunk).await.unwrap();
            }
            client.write_all(b"\n\xff\n{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}\n").await.unwrap();
            // Held open: the answers go the same way.
            std::future::pending::<()>().await;
        });
        let frame = link.channel.rx.next().await.unwrap();
        assert!(
            matches!(frame, TransportFrame::Single(RawJsonRpcMessage::Notification(n)) if &*n.method == "hello")
        );
        let mut text = String::new();
        while text.lines().count() < 2 {
            let mut buffer = [0; 4096];
            let read = answers.read(&mut buffer).await.unwrap();
            text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        assert!(text.contains("a line is longer than") && text.contains("a line is not UTF-8"), "{text}");
    }
}
