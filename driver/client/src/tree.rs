//! Trees to and from the guest.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::unix::OwnedWriteHalf;
use vk_agent_proto::{FrameError, Header, Kind, Reply, TreeSummary};

use super::error::{AgentError, Operation};
use super::link::{FrameReader, Link, parse_reply, wrong_reply};

/// What one frame carries at most. Four times as much gained nothing when measured.
const CHUNK: usize = 64 << 10;

/// Sends `tar` and waits for the agent's verdict, which may come early.
///
/// # Errors
///
/// [`AgentError`].
pub(super) async fn put(
    link: Link,
    tar: impl AsyncRead + Unpin + Send,
) -> Result<TreeSummary, AgentError> {
    let (operation, mut frames, mut write) = link.split();
    let verdict = async {
        let (kind, payload) = frames.next(&operation).await?;
        match parse_reply(&operation, kind, &payload)? {
            Reply::Done(summary) => Ok(summary),
            _ => Err(wrong_reply(&operation)),
        }
    };
    judged(verdict, send(&mut write, tar, TREE, &operation)).await
}

/// Does `sending` until it is done and the guest gives its `verdict`, which may come early.
///
/// # Errors
///
/// Those of the verdict, and of what cannot be sent because of this host.
pub(super) async fn judged<T>(
    verdict: impl Future<Output = Result<T, AgentError>>,
    sending: impl Future<Output = Result<(), AgentError>>,
) -> Result<T, AgentError> {
    tokio::pin!(verdict);
    tokio::select! {
        biased;
        early = &mut verdict => return early,
        sent = sending => match sent {
            // The guest's own words about it are better, if there are any.
            Err(AgentError::Broken { .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    verdict.await
}

/// Kinds of the frames with a tree's bytes and behind them.
const TREE: (Kind, Kind) = (Kind::Tree, Kind::TreeEnd);

/// Sends all that `from` reads in frames of the first kind, and one of the second kind behind them.
///
/// # Errors
///
/// [`AgentError::Source`] if it cannot be read, [`AgentError::Broken`] if it cannot be sent.
pub(super) async fn send(
    to: &mut OwnedWriteHalf,
    mut from: impl AsyncRead + Unpin,
    (data, end): (Kind, Kind),
    operation: &Operation,
) -> Result<(), AgentError> {
    let mut frame = vec![0; Header::SIZE + CHUNK];
    loop {
        let (header, payload) = frame.split_at_mut(Header::SIZE);
        let len = from
            .read(payload)
            .await
            .map_err(|source| AgentError::Source {
                operation: operation.clone(),
                source,
            })?;
        let kind = if len == 0 { end } else { data };
        let sent = match Header::encode(kind, len) {
            Ok(bytes) => {
                header.copy_from_slice(&bytes);
                let whole = frame.get(..Header::SIZE + len).unwrap_or_default();
                to.write_all(whole).await.map_err(FrameError::Io)
            }
            Err(error) => Err(error),
        };
        sent.map_err(|source| AgentError::broken(operation, source))?;
        if len == 0 {
            return Ok(());
        }
    }
}

/// A tar stream out of the guest. Ends only where the agent says that it is whole; an error's inner value is
/// an [`AgentError`].
#[derive(Debug)]
pub struct TreeStream {
    operation: Operation,
    frames: FrameReader,
    _write: OwnedWriteHalf,
    current: Bytes,
    summary: Option<TreeSummary>,
}

impl TreeStream {
    /// Of a connection whose request was sent.
    pub(super) fn new(link: Link) -> Self {
        let (operation, frames, write) = link.split();
        Self {
            operation,
            frames,
            _write: write,
            current: Bytes::new(),
            summary: None,
        }
    }

    /// What the guest says was in it; none before its end.
    #[must_use]
    pub fn summary(&self) -> Option<TreeSummary> {
        self.summary
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AgentError>> {
        while self.current.is_empty() && self.summary.is_none() {
            let (kind, payload) = ready!(self.frames.poll_next(context, &self.operation))?;
            match kind {
                Kind::Tree => self.current = payload,
                Kind::TreeEnd => {}
                kind => match parse_reply(&self.operation, kind, &payload)? {
                    Reply::Done(summary) => self.summary = Some(summary),
                    _ => return Poll::Ready(Err(wrong_reply(&self.operation))),
                },
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TreeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_more(context)).map_err(io::Error::other)?;
        let len = self.current.len().min(buffer.remaining());
        buffer.put_slice(self.current.get(..len).unwrap_or_default());
        self.current.advance(len);
        Poll::Ready(Ok(()))
    }
}
