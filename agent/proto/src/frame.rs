//! Frames: kind, length, payload. Nothing here trusts a length that it has not bounded.

use std::io::{self, IoSlice, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of a control frame's JSON. A request holds arguments and environment, and Linux itself takes
/// few more than this; scripts and files travel as data.
pub const MAX_CONTROL: usize = 1 << 20;

/// Most bytes of a data frame. What a reader must be ready to hold; senders use as much as they have.
pub const MAX_DATA: usize = 256 << 10;

/// Most bytes of a line frame's JSON: a path is at most 4 KiB, and each byte may need six in JSON.
pub const MAX_LINE: usize = 64 << 10;

/// Bytes of standard input that the host may send before the agent has granted more with
/// [`Kind::StdinRoom`], and so the most that the agent ever holds. Input that waits for a command that does not
/// read it must not stand in the way of a `Cancel`.
pub const STDIN_WINDOW: usize = 256 << 10;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// [`crate::Hello`], both ways, first.
    Hello = 0x01,
    /// [`crate::Request`], host to agent, second.
    Request = 0x02,
    /// [`crate::Reply`], agent to host, last.
    Reply = 0x03,
    /// Ask the command to end: TERM now, KILL after its grace. Empty.
    Cancel = 0x10,
    /// KILL everything the command started. Empty.
    Kill = 0x11,
    /// No more standard input. Empty.
    StdinEof = 0x12,
    /// No more of the tree. Empty.
    TreeEnd = 0x13,
    /// The agent will take so many more bytes of standard input: a little-endian `u32` ([`encode_room`]).
    StdinRoom = 0x14,
    /// No more of the archive. Empty.
    ArchiveEnd = 0x15,
    /// [`crate::Line`], agent to host: a line for the job's trace.
    Line = 0x16,
    /// The command's terminal has a new size ([`crate::TerminalSize::encode`]).
    Resize = 0x17,
    /// Bytes for the command's standard input.
    Stdin = 0x20,
    /// Bytes of the command's standard output.
    Stdout = 0x21,
    /// Bytes of the command's standard error.
    Stderr = 0x22,
    /// Bytes of a tar stream.
    Tree = 0x23,
    /// Bytes of an archive.
    Archive = 0x24,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::Hello,
            0x02 => Self::Request,
            0x03 => Self::Reply,
            0x10 => Self::Cancel,
            0x11 => Self::Kill,
            0x12 => Self::StdinEof,
            0x13 => Self::TreeEnd,
            0x14 => Self::StdinRoom,
            0x15 => Self::ArchiveEnd,
            0x16 => Self::Line,
            0x17 => Self::Resize,
            0x20 => Self::Stdin,
            0x21 => Self::Stdout,
            0x22 => Self::Stderr,
            0x23 => Self::Tree,
            0x24 => Self::Archive,
            _ => return None,
        })
    }

    /// Most payload bytes that a frame of this kind may carry.
    #[must_use]
    pub fn max_len(self) -> usize {
        match self {
            Self::Hello => 4096,
            Self::Request | Self::Reply => MAX_CONTROL,
            Self::Cancel | Self::Kill | Self::StdinEof | Self::TreeEnd | Self::ArchiveEnd => 0,
            Self::StdinRoom | Self::Resize => 4,
            Self::Line => MAX_LINE,
            Self::Stdin | Self::Stdout | Self::Stderr | Self::Tree | Self::Archive => MAX_DATA,
        }
    }
}

/// The first five bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// Length of its payload in bytes, within [`Kind::max_len`].
    pub len: usize,
}

impl Header {
    /// Bytes of an encoded header: kind, then the length as little-endian `u32`.
    pub const SIZE: usize = 5;

    /// The header at the start of `bytes`; none if there are too few yet.
    ///
    /// # Errors
    ///
    /// [`FrameError`] for an unknown kind or a length over the kind's bound.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, FrameError> {
        let Some(&[kind, a, b, c, d]) = bytes.first_chunk::<{ Self::SIZE }>() else {
            return Ok(None);
        };
        let kind = Kind::from_byte(kind).ok_or(FrameError::UnknownKind(kind))?;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > kind.max_len() {
            return Err(FrameError::TooLong { kind, len });
        }
        Ok(Some(Self { kind, len }))
    }

    /// The header of a frame with `len` payload bytes.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`] over the kind's bound.
    pub fn encode(kind: Kind, len: usize) -> Result<[u8; Self::SIZE], FrameError> {
        let length = u32::try_from(len)
            .ok()
            .filter(|_| len <= kind.max_len())
            .ok_or(FrameError::TooLong { kind, len })?;
        let [a, b, c, d] = length.to_le_bytes();
        Ok([kind as u8, a, b, c, d])
    }
}

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The payload as `T`.
    ///
    /// # Errors
    ///
    /// [`FrameError::Unexpected`] for another kind, [`FrameError::Json`] if the payload is no such thing.
    pub fn json<T: DeserializeOwned>(&self, kind: Kind) -> Result<T, FrameError> {
        if self.kind != kind {
            return Err(FrameError::Unexpected {
                got: self.kind,
                wanted: kind,
            });
        }
        decode_json(kind, &self.payload)
    }
}

/// A control payload as `T`.
///
/// # Errors
///
/// [`FrameError::Json`] if it is no such thing.
pub fn decode_json<T: DeserializeOwned>(kind: Kind, payload: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(payload).map_err(|source| FrameError::Json { kind, source })
}

/// A whole control frame, ready to be sent.
///
/// # Errors
///
/// [`FrameError::TooLong`] if the JSON is over the kind's bound, [`FrameError::Json`] if there is none for it.
pub fn encode_json<T: Serialize>(kind: Kind, value: &T) -> Result<Vec<u8>, FrameError> {
    let payload = serde_json::to_vec(value).map_err(|source| FrameError::Json { kind, source })?;
    let mut frame = Header::encode(kind, payload.len())?.to_vec();
    frame.extend_from_slice(&payload);
    Ok(frame)
}

/// A whole [`Kind::StdinRoom`] frame.
///
/// # Errors
///
/// [`FrameError::Room`] if `room` is over [`STDIN_WINDOW`].
pub fn encode_room(room: usize) -> Result<Vec<u8>, FrameError> {
    let bytes = u32::try_from(room)
        .ok()
        .filter(|_| room <= STDIN_WINDOW)
        .ok_or(FrameError::Room)?
        .to_le_bytes();
    let mut frame = Header::encode(Kind::StdinRoom, bytes.len())?.to_vec();
    frame.extend_from_slice(&bytes);
    Ok(frame)
}

/// How much more the agent will take, from the payload of a [`Kind::StdinRoom`] frame.
///
/// # Errors
///
/// [`FrameError::Room`] if it is no such payload or grants more than [`STDIN_WINDOW`].
pub fn decode_room(payload: &[u8]) -> Result<usize, FrameError> {
    let bytes = payload.try_into().map_err(|_| FrameError::Room)?;
    let room = u32::from_le_bytes(bytes) as usize;
    if room > STDIN_WINDOW {
        return Err(FrameError::Room);
    }
    Ok(room)
}

/// Takes bytes as they come and gives frames: for readers that must not block.
///
/// Holds at most one frame and what was pushed behind it; whoever pushes bounds that by taking every frame out
/// before pushing more.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Bytes at the front that were given out already.
    taken: usize,
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame; none until more is pushed.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if the stream is broken. It stays broken: every later call says the same.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some(header) = Header::parse(rest)? else {
            return Ok(None);
        };
        let end = Header::SIZE + header.len;
        let Some(payload) = rest.get(Header::SIZE..end) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.taken += end;
        Ok(Some(Frame {
            kind: header.kind,
            payload,
        }))
    }

    /// Whether the stream may end here: no frame is half read.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

/// Reads one frame; none at an end of file that comes between frames.
///
/// # Errors
///
/// [`FrameError`] if reading fails or the stream is broken or ends inside a frame.
pub fn read_frame(from: &mut impl Read) -> Result<Option<Frame>, FrameError> {
    let mut header = [0; Header::SIZE];
    let [first, rest @ ..] = &mut header;
    loop {
        match from.read(std::slice::from_mut(first)) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    from.read_exact(rest).map_err(ended)?;
    let Some(Header { kind, len }) = Header::parse(&header)? else {
        return Ok(None);
    };
    let mut payload = vec![0; len];
    from.read_exact(&mut payload).map_err(ended)?;
    Ok(Some(Frame { kind, payload }))
}

fn ended(error: io::Error) -> FrameError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        FrameError::Truncated
    } else {
        FrameError::Io(error)
    }
}

/// Writes one frame.
///
/// # Errors
///
/// [`FrameError::TooLong`] over the kind's bound, [`FrameError::Io`] if writing fails.
pub fn write_frame(to: &mut impl Write, kind: Kind, payload: &[u8]) -> Result<(), FrameError> {
    let header = Header::encode(kind, payload.len())?;
    let mut parts = [IoSlice::new(&header), IoSlice::new(payload)];
    let mut parts = &mut parts[..];
    while !parts.is_empty() {
        match to.write_vectored(parts) {
            Ok(0) if parts.iter().all(|part| part.is_empty()) => break,
            Ok(0) => return Err(FrameError::Io(io::ErrorKind::WriteZero.into())),
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    Ok(())
}

/// Writes one control frame.
///
/// # Errors
///
/// As [`encode_json`] and [`write_frame`].
pub fn write_json<T: Serialize>(
    to: &mut impl Write,
    kind: Kind,
    value: &T,
) -> Result<(), FrameError> {
    to.write_all(&encode_json(kind, value)?)
        .map_err(FrameError::Io)
}

/// What is wrong with a stream of frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// No frame starts with this byte.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// The frame claims more than its kind may carry.
    #[error("{kind:?} frame of {len} bytes, at most {} are allowed", kind.max_len())]
    TooLong {
        /// Kind of the frame.
        kind: Kind,
        /// The length it claims.
        len: usize,
    },
    /// A frame that has no place here.
    #[error("{got:?} frame where a {wanted:?} frame belongs")]
    Unexpected {
        /// What came.
        got: Kind,
        /// What belongs here.
        wanted: Kind,
    },
    /// The payload of a control frame is not what it should be.
    #[error("the content of a {kind:?} frame is wrong")]
    Json {
        /// Kind of the frame.
        kind: Kind,
        /// What the JSON reader says.
        source: serde_json::Error,
    },
    /// A grant of room for standard input, or input beyond what was granted, is out of bounds.
    #[error("standard input was granted or sent beyond its window of {STDIN_WINDOW} bytes")]
    Room,
    /// A terminal's size of another length.
    #[error("a terminal's size of {0} bytes, not four")]
    Size(usize),
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    Truncated,
    /// Reading or writing failed.
    #[error("the connection failed")]
    Io(#[source] io::Error),
}
