//! A connection that limits the time for the head of a request after its first byte.
//!
//! Hyper's limit begins with the end of the previous response. A webhook server sets that one to longer
//! than the API server keeps an idle connection.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A connection whose reads fail if a head is not complete in time.
pub(super) struct HeadTimeout<S> {
    stream: S,
    limit: Duration,
    awaits_head: AwaitsHead,
    /// The end of the time for the head in progress.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Whether the next byte of a connection is part of a head. All clones share the state.
#[derive(Clone)]
pub(super) struct AwaitsHead(Arc<AtomicBool>);

// === impl AwaitsHead ===

impl AwaitsHead {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(super) fn set(&self, awaits_head: bool) {
        self.0.store(awaits_head, Ordering::Relaxed);
    }
}

// === impl HeadTimeout ===

impl<S> HeadTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration, awaits_head: AwaitsHead) -> Self {
        Self {
            stream,
            limit,
            awaits_head,
            deadline: None,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if !self.awaits_head.0.load(Ordering::Relaxed) {
            self.deadline = None;
            return read;
        }
        if read.is_ready() {
            if buffer.filled().len() > before && self.deadline.is_none() {
                self.deadline = Some(Box::pin(sleep(self.limit)));
            }
            return read;
        }
        let Some(deadline) = &mut self.deadline else {
            return Poll::Pending;
        };
        ready!(deadline.as_mut().poll(cx));
        let text = format!(
            "the head of a request was not complete within {:?}",
            self.limit
        );
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
