//! Connections whose other side reads nothing: they are given up after a while, and not only when TCP does
//! (WIRE b.2, `writer_idle_timeout`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long one that reads again after the limit has to be told that it was let go.
const GRACE: Duration = Duration::from_secs(5);

/// Whether the other side of a connection has read nothing for longer than it may. What was being sent then is
/// the last of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalled(Arc<AtomicBool>);

impl Stalled {
    /// Whether it has.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets a stall that is over: another response begins.
    pub(crate) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A stream that fails when nothing can be written to it for too long.
pub(crate) struct Impatient<S> {
    inner: S,
    limit: Option<Duration>,
    stalled: Stalled,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
    /// The limit is over, and the grace runs.
    over: bool,
}

impl<S> Impatient<S> {
    /// `limit` is how long a write may wait; `None` is for ever.
    pub(crate) fn new(inner: S, limit: Option<Duration>, stalled: Stalled) -> Self {
        Self { inner, limit, stalled, timer: None, over: false }
    }

    /// Takes what became of a write: one that waits is timed.
    fn time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let Some(limit) = self.limit else { return written };
        if written.is_ready() {
            self.timer = None;
            self.over = false;
            return written;
        }
        loop {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
            ready!(timer.as_mut().poll(cx));
            if self.over {
                let problem = format!("nothing was read for {} ms", limit.as_millis());
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)));
            }
            self.over = true;
            self.stalled.set();
            metrics::counter!("holdpoint_http_stalled_total").increment(1);
            timer.as_mut().reset(Instant::now() + GRACE.min(limit));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.time(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn b4_a_write_that_nobody_reads_fails_after_the_limit_and_the_grace() {
        let (_other, ours) = duplex(8);
        let stalled = Stalled::default();
        let mut ours = Impatient::new(ours, Some(LIMIT), stalled.clone());
        ours.write_all(b"12345678").await.unwrap();
        let since = Instant::now();
        let error = ours.write_all(b"9").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(since.elapsed(), LIMIT + GRACE);
        assert!(stalled.is_set());
    }

    #[tokio::test(start_paused = true)]
    async fn b4_one_that_reads_in_time_has_the_whole_limit_again() {
        let (mut other, ours) = duplex(1);
        let stalled = Stalled::default();
        let mut ours = Impatient::new(ours, Some(LIMIT), stalled.clone());
        let writing = tokio::spawn(async move { ours.write_all(b"1234").await });
        for _ in 0..4 {
            // Slower than the limit would allow for all of it, and quick enough for each.
            tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
            other.read_u8().await.unwrap();
        }
        writing.await.unwrap().unwrap();
        assert!(!stalled.is_set());
    }

    #[tokio::test(start_paused = true)]
    async fn b4_one_that_reads_within_the_grace_goes_on_and_is_known_to_have_stalled() {
        let (mut other, ours) = duplex(1);
        let stalled = Stalled::default();
        let mut ours = Impatient::new(ours, Some(LIMIT), stalled.clone());
        let writing = tokio::spawn(async move { ours.write_all(b"12").await });
        tokio::time::sleep(LIMIT + GRACE / 2).await;
        other.read_u8().await.unwrap();
        writing.await.unwrap().unwrap();
        assert!(stalled.is_set());
        stalled.forget();
        assert!(!stalled.is_set());
    }

    #[tokio::test(start_paused = true)]
    async fn b4_without_a_limit_it_waits() {
        let (_other, ours) = duplex(1);
        let mut ours = Impatient::new(ours, None, Stalled::default());
        let waits = tokio::time::timeout(LIMIT * 1000, ours.write_all(b"12")).await;
        assert!(waits.is_err(), "still waiting");
    }
}
