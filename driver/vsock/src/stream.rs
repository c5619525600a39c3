//! The host's end of a connection: a socket that never blocks, and what it has not taken yet.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Nobody reads the socket any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// What reading brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadEnd {
    Bytes(usize),
    /// Nothing for now.
    Empty,
    /// There will be no more.
    End,
}

/// Most that is read away before a socket is dropped: a socket dropped with unread bytes gives its peer an error where
/// the end of the stream should be. A Unix socket's default buffer, twice.
const LEFT_OVER: usize = 512 * 1024;

#[derive(Debug)]
pub(super) struct HostStream {
    socket: UnixStream,
    /// Bytes of the guest that the socket has no room for. Bounded by the credit the guest was given.
    outbox: VecDeque<u8>,
    /// The poller is asked to tell when there is room again.
    pub(super) waits_for_room: bool,
}

impl HostStream {
    /// `socket` must be non-blocking.
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            outbox: VecDeque::new(),
            waits_for_room: false,
        }
    }

    pub(super) fn needs_room(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Takes `bytes`; returns how many bytes, of these and earlier ones, the socket took.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<u32, Gone> {
        let mut rest = bytes;
        let mut taken = 0;
        if self.outbox.is_empty() {
            while !rest.is_empty() {
                let count = write_some(&self.socket, rest)?;
                if count == 0 {
                    break;
                }
                rest = rest.get(count..).unwrap_or_default();
                taken += count;
            }
        }
        self.outbox.extend(rest);
        Ok(as_u32(taken))
    }

    /// Writes what earlier writes left; returns how many bytes the socket took.
    pub(super) fn flush(&mut self) -> Result<u32, Gone> {
        let mut taken = 0;
        while !self.outbox.is_empty() {
            let (first, _) = self.outbox.as_slices();
            let count = write_some(&self.socket, first)?;
            if count == 0 {
                return Ok(as_u32(taken));
            }
            self.outbox.drain(..count);
            taken += count;
        }
        // An idle connection holds no memory.
        self.outbox = VecDeque::new();
        Ok(as_u32(taken))
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadEnd {
        loop {
            return match self.socket.read(buffer) {
                Ok(0) => ReadEnd::End,
                Ok(count) => ReadEnd::Bytes(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => ReadEnd::Empty,
                Err(_) => ReadEnd::End,
            };
        }
    }

    pub(super) fn end_writing(&self) {
        // Fails if the peer is gone, which is noticed when the socket is read.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    pub(super) fn end_reading(&self) {
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Closes the socket so that the peer, once it has read all, sees the end of the stream.
    pub(super) fn close(mut self) {
        self.end_reading();
        let mut buffer = [0; 4096];
        let mut left = LEFT_OVER;
        while let ReadEnd::Bytes(count) = self.read(&mut buffer) {
            left = left.saturating_sub(count);
            if left == 0 {
                break;
            }
        }
    }
}

impl AsFd for HostStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn write_some(mut socket: &UnixStream, bytes: &[u8]) -> Result<usize, Gone> {
    loop {
        return match socket.write(bytes) {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(gone(&error)),
        };
    }
}

fn gone(error: &io::Error) -> Gone {
    tracing::trace!(%error, "a host stream takes no more of the guest's bytes");
    Gone
}

/// Never cut: counts are bounded by the guest's credit, which has 32 bits.
fn as_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
