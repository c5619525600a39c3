//! The frame on its way to the host. One at a time: while it waits for the host nothing else is read, and so
//! the host's pace becomes the command's.

use std::io::{self, Read, Write};

use vk_agent_proto::{FrameError, Header, Kind, MAX_DATA};

/// A frame, sent in part.
pub(super) struct Outbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Outbox {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; Header::SIZE + MAX_DATA].into(),
            start: 0,
            end: 0,
        }
    }

    /// Whether all was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets what is left.
    pub(super) fn clear(&mut self) {
        self.start = self.end;
    }

    /// Makes a frame of what one read from `source` gives; how many bytes, zero at its end. Only when empty.
    ///
    /// # Errors
    ///
    /// What `source` says, `WouldBlock` above all.
    pub(super) fn fill(&mut self, kind: Kind, source: &mut impl Read) -> io::Result<usize> {
        let (header, payload) = self.bytes.split_at_mut(Header::SIZE);
        let len = source.read(payload)?;
        if len == 0 {
            return Ok(0);
        }
        header.copy_from_slice(&Header::encode(kind, len).map_err(io::Error::other)?);
        self.start = 0;
        self.end = Header::SIZE + len;
        Ok(len)
    }

    /// Takes an encoded frame. Only when empty.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`] if there is no place for it.
    pub(super) fn put(&mut self, kind: Kind, frame: &[u8]) -> Result<(), FrameError> {
        let len = frame.len();
        let place = self.bytes.get_mut(..len);
        place
            .ok_or(FrameError::TooLong { kind, len })?
            .copy_from_slice(frame);
        self.start = 0;
        self.end = len;
        Ok(())
    }

    /// Sends what `host` takes without blocking.
    ///
    /// # Errors
    ///
    /// The host is gone.
    pub(super) fn flush(&mut self, host: &mut impl Write) -> io::Result<()> {
        while let Some(rest @ [_, ..]) = self.bytes.get(self.start..self.end) {
            match host.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.start += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
