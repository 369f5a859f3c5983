//! Many clients in one thread. What is measured runs on the same few processors, so this side does as little as can
//! be: the requests were made before the clock ran, the sockets are raw, and one `epoll` tells which client has an
//! answer.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll;

use crate::daemon::PATIENCE;
use crate::http::Head;
use crate::stats::Sample;

/// The requests of each client. It sends one when the one before is answered.
pub(crate) type Requests = Vec<Vec<Vec<u8>>>;

/// What became of it.
pub(crate) struct Load {
    /// When the first request was sent.
    pub(crate) start: Instant,
    /// Until the last answer.
    pub(crate) time: Duration,
    /// Of each request: from its first byte to the answer's last.
    pub(crate) latency: Sample,
}

struct Client {
    stream: TcpStream,
    requests: std::vec::IntoIter<Vec<u8>>,
    sent: Instant,
    got: Vec<u8>,
}

/// Lets all clients loose at once.
pub(crate) fn run(to: SocketAddr, requests: Requests) -> anyhow::Result<Load> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut clients = Vec::with_capacity(requests.len());
    for (number, requests) in requests.into_iter().enumerate() {
        let client = Client::connect(to, requests)?;
        epoll::add(&epoll, &client.stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
        clients.push(client);
    }
    let mut latency = Sample::default();
    let mut ready = Vec::with_capacity(clients.len());
    let start = Instant::now();
    let mut busy = 0;
    for client in &mut clients {
        busy += usize::from(client.send_next()?);
    }
    let patience = Timespec::try_from(PATIENCE).expect("half a minute is a time");
    while busy > 0 {
        ready.clear();
        epoll::wait(&epoll, spare_capacity(&mut ready), Some(&patience))?;
        if ready.is_empty() {
            bail!("{busy} clients have waited for an answer for {} s", PATIENCE.as_secs());
        }
        for event in &ready {
            let number = usize::try_from(event.data.u64()).expect("it was a usize");
            let client = &mut clients[number];
            if let Some(time) = client.receive()? {
                latency.add(time);
                busy -= usize::from(!client.send_next()?);
            }
        }
    }
    Ok(Load { start, time: start.elapsed(), latency })
}

impl Client {
    fn connect(to: SocketAddr, requests: Vec<Vec<u8>>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(to).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let got = Vec::with_capacity(4096);
        Ok(Self { stream, requests: requests.into_iter(), sent: Instant::now(), got })
    }

    /// Sends the next request, if there is one. A request is small, so that it always fits what the socket holds.
    fn send_next(&mut self) -> anyhow::Result<bool> {
        let Some(request) = self.requests.next() else { return Ok(false) };
        self.sent = Instant::now();
        self.stream.write_all(&request)?;
        Ok(true)
    }

    /// Reads what has come; gives how long the answer took, once it is all there.
    fn receive(&mut self) -> anyhow::Result<Option<Duration>> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => bail!("the daemon closed the connection"),
            Ok(count) => self.got.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let head = Head::read(&self.got)?.filter(|head| self.got.len() >= head.end + head.length);
        let Some(head) = head else { return Ok(None) };
        if head.status != 200 {
            bail!("status {}: {}", head.status, String::from_utf8_lossy(&self.got));
        }
        self.got.clear();
        Ok(Some(self.sent.elapsed()))
    }
}
