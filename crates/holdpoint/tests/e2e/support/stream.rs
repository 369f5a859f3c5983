//! A session's events, awaited one by one.

use std::collections::VecDeque;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;
use super::http::{self, Body, Head};

/// One connection to `GET /session/:id/events`. It is connected when it exists: what happens from then on is
/// seen.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) head: Head,
    socket: TcpStream,
    body: Body,
    ready: VecDeque<Value>,
    /// Every event so far.
    pub(crate) seen: Vec<Value>,
}

impl Stream {
    pub(crate) async fn open(to: std::net::SocketAddr, session: &str, headers: &[(&str, &str)]) -> Self {
        let path = format!("/session/{session}/events");
        let mut headers = headers.to_vec();
        headers.push(("Accept", "text/event-stream"));
        let opened = timeout(PATIENCE, http::open(to, "GET", &path, &headers, None)).await;
        let (head, rest, socket) = opened.expect("the stream opens in time").unwrap();
        assert_eq!(head.status, 200, "{path}: {}", String::from_utf8_lossy(&rest));
        let body = Body::new(&head, rest);
        Self { head, socket, body, ready: VecDeque::new(), seen: Vec::new() }
    }

    /// The next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            self.cut();
            if let Some(event) = self.ready.pop_front() {
                self.seen.push(event.clone());
                return Some(event);
            }
            // A connection that breaks is an end as any other here.
            match timeout(PATIENCE, self.socket.read_buf(&mut self.body.raw)).await {
                Ok(Ok(n)) if n > 0 => self.body.decode(),
                Ok(_) => return None,
                Err(_) => panic!("the stream is silent; so far: {:#?}", self.brief()),
            }
        }
    }

    /// The next event that fits.
    pub(crate) async fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let whole = async {
            loop {
                match self.next().await {
                    Some(event) if fits(&event) => return Some(event),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        match timeout(PATIENCE, whole).await {
            Ok(Some(event)) => event,
            Ok(None) => panic!("the stream ended before {what}; so far: {:#?}", self.brief()),
            Err(_) => panic!("waited in vain for {what}; so far: {:#?}", self.brief()),
        }
    }

    /// The next event of this type.
    pub(crate) async fn wait_for(&mut self, kind: &str) -> Value {
        self.wait(kind, |event| event["type"] == kind).await
    }

    /// The end of this prompt's turn.
    pub(crate) async fn turn_end(&mut self, prompt: &str) -> Value {
        self.wait("the end of the turn", |event| {
            matches!(event["type"].as_str(), Some("turn_complete" | "turn_error"))
                && event["data"]["promptId"] == prompt
        })
        .await
    }

    /// Reads to the end of the stream.
    pub(crate) async fn drain(&mut self) {
        while self.next().await.is_some() {}
    }

    /// Whether an event of this type came.
    pub(crate) fn saw(&self, kind: &str) -> bool {
        self.seen.iter().any(|event| event["type"] == kind)
    }

    fn cut(&mut self) {
        while let Some(end) = self.body.text.windows(2).position(|two| two == b"\n\n") {
            let frame: Vec<u8> = self.body.text.drain(..end + 2).collect();
            let frame = String::from_utf8(frame).unwrap();
            let data: Vec<&str> = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
            if !data.is_empty() {
                self.ready.push_back(serde_json::from_str(data.join("\n").trim()).unwrap());
            }
        }
    }

    fn brief(&self) -> Vec<String> {
        let line = |event: &Value| event.to_string().chars().take(300).collect();
        self.seen.iter().map(line).collect()
    }
}
