//! A tar stream inside frames.

use std::io::{self, Read, Write};

use vk_agent_proto::frame::write_frame;
use vk_agent_proto::{FrameError, Header, Kind};

/// Reads the payloads of `Tree` frames up to `TreeEnd`.
pub(super) struct TreeReader<R> {
    frames: R,
    /// Bytes left of the current frame.
    left: usize,
    ended: bool,
}

impl<R: Read> TreeReader<R> {
    /// Of the frames in `frames`, which should be buffered.
    pub(super) fn new(frames: R) -> Self {
        Self {
            frames,
            left: 0,
            ended: false,
        }
    }

    /// Reads and forgets what is left: a tar may have padding behind its end.
    ///
    /// # Errors
    ///
    /// As reading.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        io::copy(self, &mut io::sink()).map(drop)
    }

    fn next_frame(&mut self) -> io::Result<()> {
        let mut bytes = [0; Header::SIZE];
        self.frames.read_exact(&mut bytes)?;
        let header = Header::parse(&bytes).map_err(io::Error::other)?;
        match header {
            Some(Header {
                kind: Kind::Tree,
                len,
            }) => self.left = len,
            Some(Header {
                kind: Kind::TreeEnd,
                ..
            })
            | None => self.ended = true,
            Some(Header { kind: got, .. }) => {
                let wanted = Kind::Tree;
                return Err(io::Error::other(FrameError::Unexpected { got, wanted }));
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for TreeReader<R> {
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

/// Sends what is written as `Tree` frames.
pub(super) struct TreeWriter<W> {
    frames: W,
    buffer: Vec<u8>,
}

/// Payload of the frames we make. Larger ones gained nothing when measured.
const CHUNK: usize = 64 << 10;

impl<W: Write> TreeWriter<W> {
    /// Into `frames`.
    pub(super) fn new(frames: W) -> Self {
        Self {
            frames,
            buffer: Vec::with_capacity(CHUNK),
        }
    }
}

impl<W: Write> Write for TreeWriter<W> {
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
            write_frame(&mut self.frames, Kind::Tree, &self.buffer).map_err(
                |error| match error {
                    FrameError::Io(error) => error,
                    other => io::Error::other(other),
                },
            )?;
            self.buffer.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let data: Vec<u8> = (0..3 * CHUNK + 17).map(|byte| byte as u8).collect();
        let mut frames = Vec::new();
        let mut writer = TreeWriter::new(&mut frames);
        for piece in data.chunks(1_000) {
            writer.write_all(piece).unwrap();
        }
        writer.flush().unwrap();
        write_frame(&mut frames, Kind::TreeEnd, b"").unwrap();

        let mut read = Vec::new();
        TreeReader::new(frames.as_slice())
            .read_to_end(&mut read)
            .unwrap();

        assert!(read == data);
    }

    #[test]
    fn a_stream_without_its_end_is_an_error() {
        let mut frames = Vec::new();
        write_frame(&mut frames, Kind::Tree, b"abc").unwrap();

        let result = TreeReader::new(frames.as_slice()).read_to_end(&mut Vec::new());

        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn another_frame_is_an_error() {
        let mut frames = Vec::new();
        write_frame(&mut frames, Kind::Stdin, b"abc").unwrap();

        assert!(
            TreeReader::new(frames.as_slice())
                .read_to_end(&mut Vec::new())
                .is_err()
        );
    }
}
