//! HTTP as bytes: what a test sends is exactly what it says, malformed or not.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The body as JSON; `null` if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The `code` of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The JSON body of a response that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }
}

/// Status line and headers.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    /// A header's value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Sends one request on a connection of its own and reads the head of the response. What came after the head
/// already is the second part.
pub(crate) async fn open(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> io::Result<(Head, Vec<u8>, TcpStream)> {
    let mut stream = TcpStream::connect(to).await?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request.push_str(&format!("Host: {to}\r\n"));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body.unwrap_or_default());
    stream.write_all(&bytes).await?;

    let mut got = Vec::new();
    let end = loop {
        if let Some(at) = got.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut got).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no response"));
        }
    };
    let rest = got.split_off(end + 4);
    let text = String::from_utf8_lossy(&got).into_owned();
    let mut lines = text.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    Ok((Head { status: status.unwrap_or(0), headers }, rest, stream))
}

/// Sends one request and reads the whole response.
pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> io::Result<Response> {
    let whole = async {
        let (head, rest, mut stream) = open(to, method, path, headers, body).await?;
        let mut chunks = Body::new(&head, rest);
        while !chunks.done && stream.read_buf(&mut chunks.raw).await? > 0 {
            chunks.decode();
        }
        if !chunks.complete() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the response was cut off"));
        }
        Ok(Response { status: head.status, head, body: chunks.text })
    };
    match timeout(PATIENCE, whole).await {
        Ok(result) => result,
        Err(_) => panic!("{method} {path}: no response"),
    }
}

/// A body as it comes: chunked, of a known length, or up to the end of the connection.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) raw: Vec<u8>,
    pub(crate) text: Vec<u8>,
    length: Option<usize>,
    chunked: bool,
    pub(crate) done: bool,
}

impl Body {
    pub(crate) fn new(head: &Head, raw: Vec<u8>) -> Self {
        let chunked = head.get("transfer-encoding").is_some_and(|how| how.contains("chunked"));
        let none = matches!(head.status, 204 | 304);
        let length = if none { Some(0) } else { head.get("content-length").and_then(|n| n.parse().ok()) };
        let mut body = Self { raw, text: Vec::new(), length, chunked, done: false };
        body.decode();
        body
    }

    fn complete(&self) -> bool {
        self.done || (!self.chunked && self.length.is_none())
    }

    /// Moves what is whole from `raw` to `text`.
    pub(crate) fn decode(&mut self) {
        if !self.chunked {
            self.text.append(&mut self.raw);
            self.done = self.length.is_some_and(|length| self.text.len() >= length);
            return;
        }
        while let Some(line) = self.raw.windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(&self.raw[..line]).unwrap();
            let size = usize::from_str_radix(size.split(';').next().unwrap().trim(), 16).unwrap();
            if size == 0 {
                self.done = true;
                return;
            }
            if self.raw.len() < line + 2 + size + 2 {
                return;
            }
            self.text.extend_from_slice(&self.raw[line + 2..line + 2 + size]);
            self.raw.drain(..line + 2 + size + 2);
        }
    }
}
