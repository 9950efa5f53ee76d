//! A listener that serves so many connections at once and hangs up on those that say nothing.
//!
//! Without a bound, whoever opens connections takes file descriptors away from the socket that containers wait for.
//! Those beyond the bound are not refused: they wait to be accepted, as they would behind a busy server, and a client's
//! own timeout decides for how long. What keeps a place is thereby worth something, hence the second rule.

use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// The listener.
pub(crate) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle: Duration,
}

impl Bounded {
    pub(crate) fn new(listener: TcpListener, places: usize, idle: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(places)), idle }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // Nobody closes the semaphore; if it were closed, nothing would be counted any more.
        let place = self.places.clone().acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let (idle, silence) = (self.idle, Box::pin(sleep(self.idle)));
        (Connection { stream, idle, silence, _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that has a place until it is dropped.
pub(crate) struct Connection {
    stream: TcpStream,
    idle: Duration,
    /// Ends when nothing has moved for too long.
    silence: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Something moved, or the wait for it goes on, or is over.
    fn watch<T>(&mut self, cx: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.silence.as_mut().reset(Instant::now() + self.idle);
            return moved;
        }
        match self.silence.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(cx, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(cx, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn bounded(places: usize, idle: Duration) -> (Bounded, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Bounded::new(listener, places, idle), address)
    }

    #[tokio::test]
    async fn those_beyond_the_bound_wait_for_a_place() {
        let (mut listener, address) = bounded(2, Duration::from_secs(600)).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let (first, _) = listener.accept().await;
        let (_second, _) = listener.accept().await;
        let a_while = async {
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = listener.accept() => panic!("a third connection has no place"),
            () = a_while => {}
        }
        drop(first);
        let (_third, from) = listener.accept().await;
        assert_eq!(from, clients[2].local_addr().unwrap());
    }

    #[tokio::test]
    async fn who_says_nothing_is_hung_up_on() {
        let (mut listener, address) = bounded(1, Duration::from_millis(20)).await;
        let _silent = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = listener.accept().await;
        let mut bytes = [0];
        let mut buffer = ReadBuf::new(&mut bytes);
        let error = poll_fn(|cx| Pin::new(&mut connection).poll_read(cx, &mut buffer)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
