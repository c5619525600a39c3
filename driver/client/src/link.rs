//! One connection to the agent: opened through the vsock's unix socket, hellos exchanged, frames in and out.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use vk_agent_proto::frame::{decode_json, encode_json};
use vk_agent_proto::{
    AGENT_PORT, FrameError, Header, Hello, Kind, MAX_DATA, Reply, Request, bridge,
};

use super::error::{AgentError, Operation};

/// What is read at once: a whole data frame.
const READ: usize = Header::SIZE + MAX_DATA;

/// A connection that is past its hellos.
#[derive(Debug)]
pub(super) struct Link {
    /// What is done over it.
    pub(super) operation: Operation,
    read: FrameReader,
    write: OwnedWriteHalf,
}

impl Link {
    /// Connects, exchanges hellos and sends the request, all within `within`.
    ///
    /// # Errors
    ///
    /// [`AgentError`]; `Timeout` names the bound.
    pub(super) async fn open(
        path: &Path,
        operation: Operation,
        request: &Request,
        within: Duration,
    ) -> Result<Self, AgentError> {
        let opening = async {
            let stream = connect(path, &operation).await?;
            let mut link = Self::new(stream, operation.clone());
            link.send(Kind::Hello, &Hello::ours()).await?;
            link.send(Kind::Request, request).await?;
            link.hello().await?;
            Ok(link)
        };
        timeout(within, opening).await.unwrap_or_else(|_| {
            Err(AgentError::Timeout {
                operation: operation.clone(),
                within,
            })
        })
    }

    /// Over an open stream.
    pub(super) fn new(stream: UnixStream, operation: Operation) -> Self {
        let (read, write) = stream.into_split();
        Self {
            operation,
            read: FrameReader {
                stream: read,
                bytes: BytesMut::new(),
            },
            write,
        }
    }

    /// Sends a control frame.
    ///
    /// # Errors
    ///
    /// [`AgentError::Broken`], for a request that is too long too.
    pub(super) async fn send<T: Serialize>(
        &mut self,
        kind: Kind,
        value: &T,
    ) -> Result<(), AgentError> {
        let sent = match encode_json(kind, value) {
            Ok(frame) => self.write.write_all(&frame).await.map_err(FrameError::Io),
            Err(error) => Err(error),
        };
        sent.map_err(|source| AgentError::broken(&self.operation, source))
    }

    /// Waits for the guest's hello and checks it.
    ///
    /// # Errors
    ///
    /// [`AgentError::Hello`] if the agent is of another build.
    pub(super) async fn hello(&mut self) -> Result<(), AgentError> {
        let (kind, payload) = self.read.next(&self.operation).await?;
        let theirs: Hello = parse(Kind::Hello, kind, &payload)
            .map_err(|source| AgentError::broken(&self.operation, source))?;
        theirs.check().map_err(|source| AgentError::Hello {
            operation: self.operation.clone(),
            source,
        })
    }

    /// Waits for the reply, when no other frame can come before it.
    ///
    /// # Errors
    ///
    /// [`AgentError::Failed`] if that is the reply.
    pub(super) async fn reply(&mut self) -> Result<Reply, AgentError> {
        let (kind, payload) = self.read.next(&self.operation).await?;
        parse_reply(&self.operation, kind, &payload)
    }

    /// Its two directions.
    pub(super) fn split(self) -> (Operation, FrameReader, OwnedWriteHalf) {
        (self.operation, self.read, self.write)
    }
}

/// The frames that come in.
#[derive(Debug)]
pub(super) struct FrameReader {
    stream: OwnedReadHalf,
    bytes: BytesMut,
}

impl FrameReader {
    /// The next frame. Loses nothing when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`AgentError::Closed`] at the end, [`AgentError::Broken`] for what is no frame.
    pub(super) async fn next(
        &mut self,
        operation: &Operation,
    ) -> Result<(Kind, Bytes), AgentError> {
        poll_fn(|context| self.poll_next(context, operation)).await
    }

    /// As [`FrameReader::next`].
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        operation: &Operation,
    ) -> Poll<Result<(Kind, Bytes), AgentError>> {
        let broken = |source| AgentError::broken(operation, source);
        loop {
            if let Some(header) = Header::parse(&self.bytes).map_err(broken)? {
                let whole = Header::SIZE + header.len;
                if self.bytes.len() >= whole {
                    let mut frame = self.bytes.split_to(whole).freeze();
                    return Poll::Ready(Ok((header.kind, frame.split_off(Header::SIZE))));
                }
                self.bytes.reserve(whole - self.bytes.len());
            }
            if self.bytes.capacity() - self.bytes.len() < READ / 4 {
                self.bytes.reserve(READ);
            }
            // The future holds no state of its own, so that a new one for each poll is as good.
            let got = ready!(pin!(self.stream.read_buf(&mut self.bytes)).poll(context));
            match got {
                Ok(0) if self.bytes.is_empty() => {
                    return Poll::Ready(Err(AgentError::Closed {
                        operation: operation.clone(),
                    }));
                }
                Ok(0) => return Poll::Ready(Err(broken(FrameError::Truncated))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(broken(FrameError::Io(error)))),
            }
        }
    }
}

/// The payload of a frame that must be of kind `wanted`.
fn parse<T: DeserializeOwned>(wanted: Kind, got: Kind, payload: &[u8]) -> Result<T, FrameError> {
    if got != wanted {
        return Err(FrameError::Unexpected { got, wanted });
    }
    decode_json(wanted, payload)
}

/// The reply in a frame.
///
/// # Errors
///
/// [`AgentError::Failed`] if that is what it says, [`AgentError::Broken`] if it is none.
pub(super) fn parse_reply(
    operation: &Operation,
    kind: Kind,
    payload: &[u8],
) -> Result<Reply, AgentError> {
    match parse(Kind::Reply, kind, payload) {
        Ok(Reply::Failed(failed)) => Err(AgentError::failed(operation, &failed)),
        Ok(reply) => Ok(reply),
        Err(source) => Err(AgentError::broken(operation, source)),
    }
}

/// A reply that does not belong to the operation.
pub(super) fn wrong_reply(operation: &Operation) -> AgentError {
    AgentError::broken(
        operation,
        FrameError::Unexpected {
            got: Kind::Reply,
            wanted: Kind::Reply,
        },
    )
}

async fn connect(path: &Path, operation: &Operation) -> Result<UnixStream, AgentError> {
    let unreachable = |source| AgentError::Connect {
        operation: operation.clone(),
        path: path.to_owned(),
        source,
    };
    let refused = || AgentError::Refused {
        operation: operation.clone(),
    };
    let mut stream = UnixStream::connect(path).await.map_err(unreachable)?;
    let line = bridge::connect_line(AGENT_PORT);
    if stream.write_all(line.as_bytes()).await.is_err() {
        return Err(refused());
    }
    // Byte by byte: what follows the line is the guest's already.
    let mut answer = Vec::with_capacity(bridge::MAX_LINE);
    while answer.last() != Some(&b'\n') && answer.len() < bridge::MAX_LINE {
        match stream.read_u8().await {
            Ok(byte) => answer.push(byte),
            Err(_) => return Err(refused()),
        }
    }
    match bridge::parse_ok(&answer) {
        Some(_) => Ok(stream),
        None => Err(refused()),
    }
}
