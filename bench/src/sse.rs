//! A session's stream.

use std::net::SocketAddr;

use anyhow::bail;
use serde_json::Value;

use crate::http::Connection;

/// A stream that is read by whoever waits for something on it.
pub(crate) struct Events {
    http: Connection,
    text: Vec<u8>,
}

impl Events {
    /// Opens it from its beginning on.
    pub(crate) fn open(to: SocketAddr, session: &str) -> anyhow::Result<Self> {
        let mut http = Connection::open(to)?;
        let request = format!(
            "GET /session/{session}/events HTTP/1.1\r\nhost: {to}\r\naccept: text/event-stream\r\nlast-event-id: 0\r\n\r\n"
        );
        let head = http.start(request.as_bytes())?;
        if head.status != 200 || !head.chunked {
            bail!("the stream answered with {}", head.status);
        }
        Ok(Self { http, text: Vec::new() })
    }

    /// Reads up to the next event of one of these types.
    pub(crate) fn next(&mut self, kinds: &[&str]) -> anyhow::Result<Value> {
        loop {
            while let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                let frame: Vec<u8> = self.text.drain(..end + 2).collect();
                let frame = std::str::from_utf8(&frame)?;
                let kind =
                    frame.lines().find_map(|line| line.strip_prefix("event:")).unwrap_or_default().trim();
                if kinds.contains(&kind) {
                    let data = frame.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or_default();
                    return Ok(serde_json::from_str(data)?);
                }
                if matches!(kind, "turn_error" | "session_died" | "client_evicted") {
                    bail!("instead of {kinds:?} came {frame}");
                }
            }
            let Some(chunk) = self.http.chunk()? else { bail!("the stream ended before {kinds:?}") };
            self.text.extend_from_slice(&chunk);
        }
    }

    /// The `data` of the next question.
    pub(crate) fn question(&mut self) -> anyhow::Result<Value> {
        let mut event = self.next(&["permission_request"])?;
        Ok(event["data"].take())
    }
}
