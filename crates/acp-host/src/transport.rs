//! ACP over the pipes of a child: bounded both ways.
//!
//! The SDK's own transports read lines of any length into queues of any length (traps 4 and 13), so this one
//! gives it whole messages through its in-process channel, and only while few are waiting there.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{RawJsonRpcMessage, TransportFrame};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use crate::conn::Conn;
use crate::stderr::Redactor;

/// Messages that may wait in the SDK: enough to keep it busy while the next ones are read and parsed.
const QUEUE: usize = 64;

/// A line longer than this waits until the SDK's queue is empty, so that the queue holds at most one of them.
const LARGE: usize = 64 * 1024;

/// How much is joined into one write: a pipe takes 64 KiB at once.
const JOIN: usize = 64 * 1024;

/// Buffers that grew past this are given back.
const KEEP: usize = 1024 * 1024;

/// How long the output of a process that has ended may pause before it counts as ended too. What the process
/// wrote is in the pipe already; only a stray child that inherited the pipe can keep it open.
const IDLE_AFTER_EXIT: Duration = Duration::from_millis(250);

/// How a child's output ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was closed.
    Closed,
    /// It was no ACP.
    Broken(String),
}

/// Lines of a limited length.
pub(crate) struct BoundedLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    max: usize,
    /// The rest of a line that was too long is being skipped.
    skipping: bool,
    /// The line was given out, and its buffer is free.
    done: bool,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line without its end.
    Whole(&'a [u8]),
    /// The beginning of a line that is longer than the limit. The rest of it is skipped.
    Cut(&'a [u8]),
    /// The end.
    End,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    pub(crate) fn new(reader: R, max: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            line: Vec::new(),
            max,
            skipping: false,
            done: false,
        }
    }

    /// The next line. May be dropped and called again: nothing that was read is lost.
    pub(crate) async fn next(&mut self) -> io::Result<Line<'_>> {
        if std::mem::take(&mut self.done) {
            self.line.clear();
            if self.line.capacity() > KEEP {
                self.line = Vec::new();
            }
        }
        loop {
            let bytes = self.reader.fill_buf().await?;
            if bytes.is_empty() {
                self.done = true;
                // A last line without its end: whole, or torn when the process died in the middle of it.
                return Ok(if self.line.is_empty() { Line::End } else { Line::Whole(&self.line) });
            }
            let newline = bytes.iter().position(|&byte| byte == b'\n');
            let part = newline.unwrap_or(bytes.len());
            let skipping = self.skipping;
            let too_long = !skipping && self.line.len() + part > self.max;
            if !skipping {
                let room = self.max - self.line.len();
                self.line.extend_from_slice(&bytes[..part.min(room)]);
            }
            self.reader.consume(part + usize::from(newline.is_some()));
            self.skipping = (skipping || too_long) && newline.is_none();
            if too_long {
                self.done = true;
                return Ok(Line::Cut(&self.line));
            }
            if newline.is_some() && !skipping {
                self.done = true;
                return Ok(Line::Whole(&self.line));
            }
        }
    }
}

/// Resolves when a process has ended and its output paused for a while.
pub(crate) async fn idle_after_exit(conn: &Conn) {
    conn.exited.cancelled().await;
    tokio::time::sleep(IDLE_AFTER_EXIT).await;
}

/// Reads a child's messages into the SDK until the output ends or is broken, and gives the pipe back: it is to
/// stay open until the process is dead (I12). The SDK sees the end of the connection when this returns.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    conn: Arc<Conn>,
    stdout: R,
    to_sdk: UnboundedSender<TransportFrame>,
    redactor: Arc<Redactor>,
) -> (End, BoundedLines<R>) {
    let mut lines = BoundedLines::new(stdout, conn.limits.max_frame);
    let end = pump(&conn, &mut lines, &to_sdk, &redactor).await;
    (end, lines)
}

async fn pump<R: AsyncRead + Unpin>(
    conn: &Conn,
    lines: &mut BoundedLines<R>,
    to_sdk: &UnboundedSender<TransportFrame>,
    redactor: &Redactor,
) -> End {
    let mut garbage = 0_u32;
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = idle_after_exit(conn) => return End::Closed,
        };
        let line = match line {
            Ok(Line::Whole(line)) => line,
            Ok(Line::Cut(start)) => {
                let start = redactor.excerpt(start);
                let max = conn.limits.max_frame;
                return End::Broken(format!(
                    "it sent a line of more than {max} bytes, which begins with {start}"
                ));
            }
            Ok(Line::End) => return End::Closed,
            Err(error) => return End::Broken(format!("its output could not be read: {error}")),
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let message = match serde_json::from_slice::<RawJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(_) => {
                // The reason could quote the line at any length; the excerpt is enough to find it.
                let excerpt = redactor.excerpt(line);
                garbage += 1;
                if garbage > conn.limits.max_garbage {
                    return End::Broken(format!(
                        "it printed {garbage} lines in a row that are no ACP messages, the last one {excerpt}"
                    ));
                }
                tracing::warn!(
                    agent = conn.name,
                    pid = conn.pid,
                    bytes = line.len(),
                    line = excerpt,
                    "not an ACP message; skipped"
                );
                continue;
            }
        };
        garbage = 0;
        if let RawJsonRpcMessage::Response(response) = &message
            && !conn.awaits(response.id())
        {
            tracing::debug!(agent = conn.name, id = %response.id(), "an answer to nothing");
            continue;
        }
        // The SDK calls our handler once for each message that gets here, and each call wakes this.
        while to_sdk.len() >= QUEUE || (line.len() > LARGE && !to_sdk.is_empty()) {
            conn.handled.notified().await;
        }
        if to_sdk.unbounded_send(TransportFrame::Single(message)).is_err() {
            return End::Closed;
        }
    }
}

/// Writes what the SDK sends until it ends, and gives the pipe back: it is to stay open until the process is
/// dead (I12).
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    conn: Arc<Conn>,
    mut from_sdk: UnboundedReceiver<TransportFrame>,
    mut stdin: W,
) -> W {
    let mut buffer = Vec::new();
    let mut broken = false;
    while let Some(frame) = from_sdk.next().await {
        join(&conn, frame, &mut buffer);
        while buffer.len() < JOIN {
            match from_sdk.next().now_or_never() {
                Some(Some(frame)) => join(&conn, frame, &mut buffer),
                _ => break,
            }
        }
        if !buffer.is_empty() && !broken && !conn.stopping.is_cancelled() {
            let written = tokio::select! {
                written = stdin.write_all(&buffer) => written,
                () = conn.exited.cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
            };
            if let Err(error) = written {
                // The end of the process is seen elsewhere; here only the SDK's queue must not grow.
                tracing::debug!(agent = conn.name, pid = conn.pid, %error, "the agent takes no input any more");
                broken = true;
            }
        }
        buffer.clear();
        if buffer.capacity() > KEEP {
            buffer = Vec::new();
        }
    }
    stdin
}

/// Adds a message to the next write, if it is one that somebody meant to send.
fn join(conn: &Conn, frame: TransportFrame, buffer: &mut Vec<u8>) {
    let TransportFrame::Single(message) = frame else { return };
    match &message {
        RawJsonRpcMessage::Request(request) => conn.sent(request.id.clone()),
        // What the SDK answers by itself, for a responder that was dropped, is not said (trap 1).
        RawJsonRpcMessage::Response(response) if !conn.take_allowed(response.id()) => return,
        // Neither is a cancellation of a request whose waiter went away (trap 12).
        RawJsonRpcMessage::Notification(message) if &*message.method == "$/cancel_request" => return,
        RawJsonRpcMessage::Response(_) | RawJsonRpcMessage::Notification(_) => {}
    }
    let before = buffer.len();
    match serde_json::to_writer(&mut *buffer, &message) {
        Ok(()) => buffer.push(b'\n'),
        Err(error) => {
            tracing::error!(agent = conn.name, %error, "a message cannot be written as JSON");
            buffer.truncate(before);
        }
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
