//! A client that adds as little as possible to what it measures: blocking, one connection, kept alive.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The response must have this status. Its body is not read: that takes time when it is long.
    pub(crate) fn check(&self, status: u16) -> anyhow::Result<()> {
        if self.status != status {
            bail!("status {} instead of {status}: {}", self.status, String::from_utf8_lossy(&self.body));
        }
        Ok(())
    }

    /// The JSON body of a response that must have this status.
    pub(crate) fn expect(&self, status: u16) -> anyhow::Result<Value> {
        self.check(status)?;
        Ok(serde_json::from_slice(&self.body).unwrap_or(Value::Null))
    }
}

/// One connection.
pub(crate) struct Connection {
    stream: TcpStream,
    host: SocketAddr,
    /// What came and was not taken yet.
    pub(crate) rest: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(to: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(to).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, host: to, rest: Vec::with_capacity(16 * 1024) })
    }

    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Response> {
        self.stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host).as_bytes())?;
        self.response()
    }

    pub(crate) fn delete(&mut self, path: &str) -> anyhow::Result<Response> {
        self.stream.write_all(format!("DELETE {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host).as_bytes())?;
        self.response()
    }

    pub(crate) fn post(
        &mut self,
        path: &str,
        client: Option<&str>,
        body: &Value,
    ) -> anyhow::Result<Response> {
        self.send(&request(self.host, path, client, &body.to_string()))
    }

    /// Sends a whole request that was made before the clock ran.
    pub(crate) fn send(&mut self, request: &[u8]) -> anyhow::Result<Response> {
        self.stream.write_all(request)?;
        self.response()
    }

    /// Sends a request and reads the head of the response.
    pub(crate) fn start(&mut self, request: &[u8]) -> anyhow::Result<Head> {
        self.stream.write_all(request)?;
        self.head()
    }

    /// Waits for more bytes.
    pub(crate) fn fill(&mut self) -> anyhow::Result<()> {
        let mut piece = [0; 16 * 1024];
        let count = self.stream.read(&mut piece)?;
        if count == 0 {
            bail!("the connection was closed");
        }
        self.rest.extend_from_slice(&piece[..count]);
        Ok(())
    }

    fn head(&mut self) -> anyhow::Result<Head> {
        loop {
            if let Some(head) = Head::read(&self.rest)? {
                self.rest.drain(..head.end);
                return Ok(head);
            }
            self.fill()?;
        }
    }

    fn response(&mut self) -> anyhow::Result<Response> {
        let head = self.head()?;
        let mut body = Vec::new();
        if head.chunked {
            while let Some(chunk) = self.chunk()? {
                body.extend_from_slice(&chunk);
            }
        } else {
            while self.rest.len() < head.length {
                self.fill()?;
            }
            body.extend(self.rest.drain(..head.length));
        }
        Ok(Response { status: head.status, body })
    }

    /// The next chunk of a chunked body; `None` after the last.
    pub(crate) fn chunk(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some((chunk, end)) = find_chunk(&self.rest)? {
                let bytes = self.rest[chunk].to_vec();
                self.rest.drain(..end);
                return Ok((!bytes.is_empty()).then_some(bytes));
            }
            self.fill()?;
        }
    }
}

/// The bytes of a POST.
pub(crate) fn request(host: SocketAddr, path: &str, client: Option<&str>, body: &str) -> Vec<u8> {
    let client = client.map(|id| format!("x-qwen-client-id: {id}\r\n")).unwrap_or_default();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{client}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The head of a response or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Of a response.
    pub(crate) status: u16,
    pub(crate) length: usize,
    pub(crate) chunked: bool,
    /// Where the body begins.
    pub(crate) end: usize,
}

impl Head {
    /// Reads it, if it is all there.
    pub(crate) fn read(bytes: &[u8]) -> anyhow::Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..end]).context("a head that is no text")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let mut head = Self { status: status.unwrap_or(0), length: 0, chunked: false, end: end + 4 };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                head.length = value.trim().parse().context("a content-length")?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                head.chunked = value.contains("chunked");
            }
        }
        Ok(Some(head))
    }
}

/// The place of the first chunk's bytes, and where the next chunk begins.
fn find_chunk(bytes: &[u8]) -> anyhow::Result<Option<(Range<usize>, usize)>> {
    let Some(line) = bytes.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let size = std::str::from_utf8(&bytes[..line])?;
    let size = usize::from_str_radix(size.trim(), 16).context("the size of a chunk")?;
    let (start, end) = (line + 2, line + 2 + size);
    Ok((bytes.len() >= end + 2).then_some((start..end, end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_chunks_are_read_when_they_are_whole() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(Head::read(&text[..20]).unwrap(), None);
        let head = Head::read(text).unwrap().unwrap();
        assert_eq!((head.status, head.length, head.chunked, head.end), (200, 2, false, text.len() - 2));
        assert_eq!(find_chunk(b"3\r\nab").unwrap(), None);
        assert_eq!(find_chunk(b"3\r\nabc\r\n0\r\n\r\n").unwrap(), Some((3..6, 8)));
    }
}
