//! A stream of bytes inside frames.

use std::io::{self, Read, Write};

use vk_agent_proto::frame::write_frame;
use vk_agent_proto::{FrameError, Header, Kind};

/// Which frames carry a stream, and which one ends it.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    data: Kind,
    end: Kind,
}

/// A tar stream.
pub(super) const TREE: Kinds = Kinds {
    data: Kind::Tree,
    end: Kind::TreeEnd,
};

/// An archive.
pub(crate) const ARCHIVE: Kinds = Kinds {
    data: Kind::Archive,
    end: Kind::ArchiveEnd,
};

/// Reads the payloads of a stream's frames up to its end.
pub(crate) struct FrameReader<R> {
    frames: R,
    kinds: Kinds,
    /// Bytes left of the current frame.
    left: usize,
    ended: bool,
}

impl<R: Read> FrameReader<R> {
    /// Of the frames in `frames`, which should be buffered.
    pub(crate) fn new(frames: R, kinds: Kinds) -> Self {
        Self {
            frames,
            kinds,
            left: 0,
            ended: false,
        }
    }

    /// Reads and forgets what is left: a tar may have padding behind its end.
    ///
    /// # Errors
    ///
    /// As reading.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        io::copy(self, &mut io::sink()).map(drop)
    }

    fn next_frame(&mut self) -> io::Result<()> {
        let mut bytes = [0; Header::SIZE];
        self.frames.read_exact(&mut bytes)?;
        let header = Header::parse(&bytes).map_err(io::Error::other)?;
        match header {
            Some(Header { kind, len }) if kind == self.kinds.data => self.left = len,
            Some(Header { kind, .. }) if kind == self.kinds.end => self.ended = true,
            None => self.ended = true,
            Some(Header { kind: got, .. }) => {
                let wanted = self.kinds.data;
                return Err(io::Error::other(FrameError::Unexpected { got, wanted }));
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.ended {
            self.next_frame()?;
        }
        let want = self.left.min(buffer.len());
        let Some(buffer) = buffer.get_mut(..want).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let got = self.frames.read(buffer)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= got;
        Ok(got)
    }
}

/// Sends what is written as a stream's frames.
pub(crate) struct FrameWriter<W> {
    frames: W,
    kinds: Kinds,
    buffer: Vec<u8>,
}

/// Payload of the frames we make. Larger ones gained nothing when measured.
const CHUNK: usize = 64 << 10;

impl<W: Write> FrameWriter<W> {
    /// Into `frames`.
    pub(crate) fn new(frames: W, kinds: Kinds) -> Self {
        Self {
            frames,
            kinds,
            buffer: Vec::with_capacity(CHUNK),
        }
    }

    /// Sends what is left and the frame that ends the stream.
    ///
    /// # Errors
    ///
    /// As writing.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.flush()?;
        write_frame(&mut self.frames, self.kinds.end, b"").map_err(into_io)
    }
}

fn into_io(error: FrameError) -> io::Error {
    match error {
        FrameError::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write> Write for FrameWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == CHUNK {
            self.flush()?;
        }
        let room = CHUNK - self.buffer.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.buffer.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            write_frame(&mut self.frames, self.kinds.data, &self.buffer).map_err(into_io)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "bytes of test data")]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let data: Vec<u8> = (0..3 * CHUNK + 17).map(|byte| byte as u8).collect();
        let mut frames = Vec::new();
        let mut writer = FrameWriter::new(&mut frames, TREE);
        for piece in data.chunks(1_000) {
            writer.write_all(piece).unwrap();
        }
        writer.end().unwrap();

        let mut read = Vec::new();
        FrameReader::new(frames.as_slice(), TREE)
            .read_to_end(&mut read)
            .unwrap();

        assert!(read == data);
    }

    #[test]
    fn a_stream_without_its_end_is_an_error() {
        let mut frames = Vec::new();
        write_frame(&mut frames, Kind::Tree, b"abc").unwrap();

        let result = FrameReader::new(frames.as_slice(), TREE).read_to_end(&mut Vec::new());

        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn another_frame_is_an_error() {
        let mut frames = Vec::new();
        write_frame(&mut frames, Kind::Stdin, b"abc").unwrap();

        assert!(
            FrameReader::new(frames.as_slice(), TREE)
                .read_to_end(&mut Vec::new())
                .is_err()
        );
    }
}
