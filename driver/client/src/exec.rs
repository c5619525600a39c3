//! A command that runs in the guest.

use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use vk_agent_proto::frame::decode_room;
use vk_agent_proto::{Exited, FrameError, Header, Kind, Reply, STDIN_WINDOW, TerminalSize};

use super::error::{AgentError, Operation};
use super::link::{FrameReader, Link, parse_reply, wrong_reply};

/// Standard input of a command.
pub enum Stdin {
    /// `/dev/null`.
    None,
    /// These bytes, a script above all.
    Bytes(Bytes),
    /// What this reads, until its end or the command's.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

impl std::fmt::Debug for Stdin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A script holds secrets.
        out.write_str(match self {
            Self::None => "None",
            Self::Bytes(_) => "Bytes",
            Self::Reader(_) => "Reader",
        })
    }
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    /// It wrote this to standard output.
    Stdout(Bytes),
    /// It wrote this to standard error.
    Stderr(Bytes),
    /// It ended. All output came before.
    Exited(Exited),
}

/// A running command. Dropping it kills the command with all that it started.
#[derive(Debug)]
pub struct ExecHandle {
    operation: Operation,
    frames: FrameReader,
    room: Arc<Semaphore>,
    control: ExecControl,
    writer: AbortHandle,
    ended: bool,
}

/// Ends a running command, from wherever. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ExecControl {
    signals: mpsc::UnboundedSender<Signal>,
}

/// What goes to a running command past its input.
#[derive(Clone, Copy, Debug)]
enum Signal {
    Cancel,
    Kill,
    Resize(TerminalSize),
}

impl ExecControl {
    /// Asks the command to end: TERM to its process group now, KILL to all that it started after the grace of
    /// its request. Nothing happens if it has ended.
    pub fn cancel(&self) {
        // The command is over if the receiver is gone.
        let _ = self.signals.send(Signal::Cancel);
    }

    /// Sends KILL to all that the command started.
    pub fn kill(&self) {
        let _ = self.signals.send(Signal::Kill);
    }

    /// Gives the command's terminal a new size.
    pub fn resize(&self, size: TerminalSize) {
        let _ = self.signals.send(Signal::Resize(size));
    }
}

impl ExecHandle {
    /// Takes over a connection whose request was sent.
    pub(super) fn start(link: Link, stdin: Stdin, window: usize) -> Self {
        let (operation, frames, write) = link.split();
        let room = Arc::new(Semaphore::new(window));
        let (signals, wanted) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write_all(write, wanted, stdin, Arc::clone(&room)));
        Self {
            operation,
            frames,
            room,
            control: ExecControl { signals },
            writer: writer.abort_handle(),
            ended: false,
        }
    }

    /// A means to end the command while its events are awaited elsewhere.
    #[must_use]
    pub fn control(&self) -> ExecControl {
        self.control.clone()
    }

    /// The next event; [`ExecEvent::Exited`] is the last. Standard input beyond its window moves only while
    /// events are awaited. Loses nothing when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`AgentError::Failed`] if the command could not start, else what broke the connection: the guest's death
    /// is [`AgentError::Closed`] or [`AgentError::Broken`]. There are no more events then.
    pub async fn next_event(&mut self) -> Result<ExecEvent, AgentError> {
        if self.ended {
            return Err(AgentError::Closed {
                operation: self.operation.clone(),
            });
        }
        let event = self.read_event().await;
        self.ended = matches!(event, Err(_) | Ok(ExecEvent::Exited(_)));
        event
    }

    async fn read_event(&mut self) -> Result<ExecEvent, AgentError> {
        loop {
            let (kind, payload) = self.frames.next(&self.operation).await?;
            return match kind {
                Kind::Stdout => Ok(ExecEvent::Stdout(payload)),
                Kind::Stderr => Ok(ExecEvent::Stderr(payload)),
                Kind::StdinRoom => {
                    self.grant(&payload)
                        .map_err(|source| AgentError::broken(&self.operation, source))?;
                    continue;
                }
                kind => match parse_reply(&self.operation, kind, &payload)? {
                    Reply::Exited(exited) => Ok(ExecEvent::Exited(exited)),
                    _ => Err(wrong_reply(&self.operation)),
                },
            };
        }
    }

    /// More input may go, but never more than the window in all: the guest cannot make us send without bound.
    fn grant(&self, payload: &[u8]) -> Result<(), FrameError> {
        let room = decode_room(payload)?;
        if self.room.available_permits() + room > STDIN_WINDOW {
            return Err(FrameError::Room);
        }
        self.room.add_permits(room);
        Ok(())
    }
}

impl Drop for ExecHandle {
    fn drop(&mut self) {
        // It holds the other half of the connection.
        self.writer.abort();
    }
}

/// What one frame of input carries at most.
const CHUNK: u32 = 64 << 10;

/// Writes input and signals until both have ended, or the connection has.
async fn write_all(
    mut to: OwnedWriteHalf,
    mut signals: mpsc::UnboundedReceiver<Signal>,
    mut stdin: Stdin,
    room: Arc<Semaphore>,
) {
    let mut frame = vec![0; Header::SIZE + CHUNK as usize];
    let mut open = !matches!(stdin, Stdin::None);
    loop {
        let written = tokio::select! {
            biased;
            signal = signals.recv() => match signal {
                Some(signal) => write_signal(&mut to, signal).await,
                None => return,
            },
            len = read_input(&mut stdin, &room, &mut frame), if open => {
                open = len > 0;
                let kind = if open { Kind::Stdin } else { Kind::StdinEof };
                write_frame(&mut to, &mut frame, kind, len).await
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// Reads the next piece of input behind the place of the header, as soon as the guest has room for it; how
/// much, zero at its end. What cannot be read ends it: a command sees the same of a broken pipe.
async fn read_input(stdin: &mut Stdin, room: &Semaphore, frame: &mut [u8]) -> usize {
    let Ok(mut permit) = room.acquire_many(CHUNK).await else {
        return 0;
    };
    let place = frame.get_mut(Header::SIZE..).unwrap_or_default();
    let len = match stdin {
        Stdin::None => 0,
        Stdin::Bytes(bytes) => {
            let piece = bytes.split_to(bytes.len().min(place.len()));
            if let Some(place) = place.get_mut(..piece.len()) {
                place.copy_from_slice(&piece);
            }
            piece.len()
        }
        Stdin::Reader(reader) => reader.read(place).await.unwrap_or(0),
    };
    if let Some(used) = permit.split(len) {
        used.forget();
    }
    len
}

async fn write_signal(to: &mut OwnedWriteHalf, signal: Signal) -> Result<(), FrameError> {
    let (kind, size) = match signal {
        Signal::Cancel => (Kind::Cancel, None),
        Signal::Kill => (Kind::Kill, None),
        Signal::Resize(size) => (Kind::Resize, Some(size.encode())),
    };
    let payload = size.as_ref().map_or(&[][..], |size| size.as_slice());
    let mut frame = Header::encode(kind, payload.len())?.to_vec();
    frame.extend_from_slice(payload);
    to.write_all(&frame).await.map_err(FrameError::Io)
}

async fn write_frame(
    to: &mut OwnedWriteHalf,
    frame: &mut [u8],
    kind: Kind,
    len: usize,
) -> Result<(), FrameError> {
    let header = Header::encode(kind, len)?;
    if let Some(place) = frame.get_mut(..Header::SIZE) {
        place.copy_from_slice(&header);
    }
    let whole = frame.get(..Header::SIZE + len).unwrap_or_default();
    to.write_all(whole).await.map_err(FrameError::Io)
}
