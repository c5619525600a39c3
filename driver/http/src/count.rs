//! Bytes of a transfer, counted while they pass.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Counts a transfer's bytes. Clones count the same transfer.
#[derive(Clone, Debug, Default)]
pub struct Count(Arc<AtomicU64>);

impl Count {
    /// Counts `bytes` more.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Begins anew: the transfer is made once more.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A reader whose bytes are counted.
pub struct Counted<R> {
    inner: R,
    count: Count,
}

impl<R> Counted<R> {
    /// A reader of `inner` whose bytes `count` counts.
    pub fn new(inner: R, count: Count) -> Self {
        Self { inner, count }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.count.add(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}
