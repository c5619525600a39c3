//! Unpacking zstd frames (RFC 8878, 3.1) on several threads: a cache is a row of small ones. Larger ones, and those that
//! do not say how large they are, are unpacked as they come.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use zstd::bulk::Decompressor;
use zstd::stream::read::Decoder;

use super::{ExtractError, MOST_WINDOW};
use crate::buffer::{Buffer, Spare};
use crate::pool;
use crate::write::MOST_THREADS;

/// What is read at once.
const READ: usize = 256 << 10;

/// Content up to this size is unpacked in one go; vk's frames have 4 MiB, and what a tar says of that.
const SMALL: u64 = 8 << 20;

/// What is unpacked at once of the content of large frames.
const PIECE: usize = 1 << 20;

/// Starts a frame.
const MAGIC: u32 = 0xfd2f_b528;

/// Starts a frame that says nothing, but for the lowest four bits.
const SKIPPABLE: u32 = 0x184d_2a50;

/// Longest header of a frame, magic number included.
const MOST_HEADER: usize = 18;

/// Lets `consume` read what the frames of `archive` unpack to.
///
/// # Errors
///
/// `consume`'s. What is wrong with the frames comes as an error of reading.
pub(super) fn unpacked<T>(
    archive: impl Read + Send,
    threads: usize,
    consume: impl FnOnce(&mut dyn Read) -> Result<T, ExtractError>,
) -> Result<T, ExtractError> {
    let spare = Spares::default();
    let frames = Frames {
        source: Some(Source::Between(BufReader::with_capacity(READ, archive))),
        spare: &spare,
    };
    let unpack = |unpacker: &mut Unpacker<'_>, piece| unpacker.unpack(piece);
    let unpacker = || Unpacker {
        spare: &spare,
        zstd: None,
    };
    pool::pulled(
        threads.min(MOST_THREADS),
        frames,
        unpacker,
        unpack,
        |next| {
            consume(&mut Content {
                next,
                current: Buffer::default(),
                at: 0,
                spare: &spare.content,
            })
        },
    )
}

/// Apart, because frames are much smaller than their content.
#[derive(Default)]
struct Spares {
    frames: Spare,
    content: Spare,
}

/// Something of the archive.
enum Piece {
    /// A whole frame, and the size of its content.
    Frame(Buffer, usize),
    /// Content.
    Plain(Buffer),
}

/// Cuts the archive.
struct Frames<'a, R: Read> {
    /// None at its end.
    source: Option<Source<R>>,
    spare: &'a Spares,
}

/// The archive, from where it is not read yet.
enum Source<R: Read> {
    Between(BufReader<R>),
    /// Inside a large frame, whose first bytes were read already.
    Inside(Decoder<'static, Chain<Cursor<Vec<u8>>, BufReader<R>>>),
}

impl<R: Read> Iterator for Frames<'_, R> {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // Nothing comes behind an error.
            let (source, piece) = match self.source.take()? {
                Source::Between(reader) => match self.frame(reader) {
                    Ok(it) => it?,
                    Err(error) => return Some(Err(error)),
                },
                Source::Inside(decoder) => match self.inside(decoder) {
                    Ok(it) => it,
                    Err(error) => return Some(Err(error)),
                },
            };
            self.source = Some(source);
            if let Some(piece) = piece {
                return Some(Ok(piece));
            }
        }
    }
}

/// Where the archive goes on, and what came before.
type Cut<R> = (Source<R>, Option<Piece>);

impl<R: Read> Frames<'_, R> {
    /// Reads a frame, or begins to; none at the archive's end.
    fn frame(&self, mut reader: BufReader<R>) -> io::Result<Option<Cut<R>>> {
        if is_at_end(&mut reader)? {
            return Ok(None);
        }
        let mut frame = self.spare.frames.take();
        let magic = take(&mut reader, 4, &mut frame)?;
        if magic & !0xf == SKIPPABLE.into() {
            let len = take(&mut reader, 4, &mut frame)?;
            if io::copy(&mut (&mut reader).take(len), &mut io::sink())? < len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.spare.frames.give(frame);
            return Ok(Some((Source::Between(reader), None)));
        }
        if magic != MAGIC.into() {
            return Err(invalid("it is no zstd frame"));
        }
        let header = Header::take(&mut reader, &mut frame)?;
        let size = header.size.filter(|size| *size <= SMALL);
        let size = size.and_then(|size| usize::try_from(size).ok());
        let Some(size) = size.filter(|_| !header.has_dictionary) else {
            return Ok(Some((inside(&frame, reader)?, None)));
        };
        let most = zstd::zstd_safe::compress_bound(size) + MOST_HEADER;
        while frame.len() <= most {
            // A block (3.1.1.2).
            let block = take(&mut reader, 3, &mut frame)?;
            let is_last = block & 1 == 1;
            let len = match block >> 1 & 3 {
                // One byte that is repeated.
                1 => 1,
                3 => return Err(invalid("a zstd block of no known type")),
                _ => block >> 3,
            };
            take_bytes(&mut reader, len, &mut frame)?;
            if is_last {
                take_bytes(&mut reader, 4 * u64::from(header.has_checksum), &mut frame)?;
                let piece = Piece::Frame(frame, size);
                return Ok(Some((Source::Between(reader), Some(piece))));
            }
        }
        // It takes more than its content.
        Ok(Some((inside(&frame, reader)?, None)))
    }

    /// Unpacks something of a large frame.
    fn inside(
        &self,
        mut decoder: Decoder<'static, Chain<Cursor<Vec<u8>>, BufReader<R>>>,
    ) -> io::Result<Cut<R>> {
        let mut piece = self.spare.content.take();
        while piece.len() < PIECE {
            let room = piece.room(PIECE - piece.len());
            match decoder.read(room) {
                Ok(0) => {
                    let (_, reader) = decoder.finish().into_inner();
                    return Ok((Source::Between(reader), Some(Piece::Plain(piece))));
                }
                Ok(got) => piece.fill(got),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((Source::Inside(decoder), Some(Piece::Plain(piece))))
    }
}

/// Goes on with a frame that began with these bytes.
fn inside<R: Read>(begun: &Buffer, reader: BufReader<R>) -> io::Result<Source<R>> {
    let begun = Cursor::new(begun.bytes().to_vec());
    let mut decoder = Decoder::with_buffer(begun.chain(reader))?.single_frame();
    decoder.window_log_max(MOST_WINDOW)?;
    Ok(Source::Inside(decoder))
}

/// What a frame says of itself (RFC 8878, 3.1.1.1).
struct Header {
    /// Bytes of its content.
    size: Option<u64>,
    has_checksum: bool,
    has_dictionary: bool,
}

impl Header {
    /// Reads it, from behind the magic number, to the end of `frame`.
    fn take(reader: &mut impl Read, frame: &mut Buffer) -> io::Result<Self> {
        let descriptor = take(reader, 1, frame)?;
        let is_single_segment = descriptor >> 5 & 1 == 1;
        if !is_single_segment {
            take(reader, 1, frame)?;
        }
        let dictionary = match descriptor & 3 {
            3 => 4,
            len => len,
        };
        take(reader, dictionary, frame)?;
        let size = match descriptor >> 6 {
            0 if is_single_segment => Some(take(reader, 1, frame)?),
            0 => None,
            1 => Some(take(reader, 2, frame)? + 256),
            2 => Some(take(reader, 4, frame)?),
            _ => Some(take(reader, 8, frame)?),
        };
        Ok(Self {
            size,
            has_checksum: descriptor >> 2 & 1 == 1,
            has_dictionary: dictionary > 0,
        })
    }
}

fn is_at_end(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        match reader.fill_buf() {
            Ok(bytes) => return Ok(bytes.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads a number of up to eight bytes, the lowest one first, to the end of `frame`.
fn take(reader: &mut impl Read, len: u64, frame: &mut Buffer) -> io::Result<u64> {
    let start = frame.len();
    take_bytes(reader, len, frame)?;
    let mut number = [0; 8];
    for (to, from) in number.iter_mut().zip(frame.bytes_mut(start)) {
        *to = *from;
    }
    Ok(u64::from_le_bytes(number))
}

/// Reads so many bytes, at most the 2 MiB of a block, to the end of `frame`.
fn take_bytes(reader: &mut impl Read, len: u64, frame: &mut Buffer) -> io::Result<()> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    reader.read_exact(frame.room(len))?;
    frame.fill(len);
    Ok(())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// One thread's tools.
struct Unpacker<'a> {
    spare: &'a Spares,
    zstd: Option<Decompressor<'static>>,
}

impl Unpacker<'_> {
    fn unpack(&mut self, piece: io::Result<Piece>) -> io::Result<Buffer> {
        let (frame, size) = match piece? {
            Piece::Plain(content) => return Ok(content),
            Piece::Frame(frame, size) => (frame, size),
        };
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decompressor::new()?),
        };
        let mut content = self.spare.content.take();
        let got = zstd.decompress_to_buffer(frame.bytes(), content.room(size))?;
        if got != size {
            return Err(invalid("a zstd frame's content is not as long as it says"));
        }
        content.fill(size);
        self.spare.frames.give(frame);
        Ok(content)
    }
}

/// The content of all frames.
struct Content<'a> {
    next: &'a mut dyn FnMut() -> Option<io::Result<Buffer>>,
    current: Buffer,
    /// How much of that was read.
    at: usize,
    spare: &'a Spare,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            let Some(next) = (self.next)() else {
                return Ok(0);
            };
            self.spare.give(std::mem::replace(&mut self.current, next?));
            self.at = 0;
        }
        let mut rest = self.current.bytes().get(self.at..).unwrap_or_default();
        let got = rest.read(buffer)?;
        self.at += got;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use zstd::stream::write::Encoder;

    use super::*;

    fn content_of(frames: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        unpacked(frames, 2, |reader| {
            reader
                .read_to_end(&mut content)
                .map_err(ExtractError::Read)?;
            Ok(())
        })
        .map_err(|error| match error {
            ExtractError::Read(error) => error,
            error => panic!("{error}"),
        })?;
        Ok(content)
    }

    /// How a frame is made.
    #[derive(Clone, Copy, Debug)]
    enum Kind {
        Bulk,
        Stream { checksum: bool },
        Sized { checksum: bool },
        Skippable,
    }

    fn frame(kind: Kind, content: &[u8]) -> Vec<u8> {
        let (checksum, size) = match kind {
            Kind::Bulk => return zstd::bulk::compress(content, 1).unwrap(),
            Kind::Skippable => {
                let len = u32::try_from(content.len()).unwrap();
                let mut frame = (SKIPPABLE + len % 16).to_le_bytes().to_vec();
                frame.extend(len.to_le_bytes());
                frame.extend(content);
                return frame;
            }
            Kind::Stream { checksum } => (checksum, None),
            Kind::Sized { checksum } => (checksum, Some(content.len() as u64)),
        };
        let mut encoder = Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(checksum).unwrap();
        encoder.set_pledged_src_size(size).unwrap();
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Bulk),
            any::<bool>().prop_map(|checksum| Kind::Stream { checksum }),
            any::<bool>().prop_map(|checksum| Kind::Sized { checksum }),
            Just(Kind::Skippable),
        ]
    }

    proptest! {
        #[test]
        fn frames_of_all_kinds_are_one_stream(
            frames in proptest::collection::vec((kind(), 0usize..400_000, any::<u8>()), 0..6),
            cut: usize,
        ) {
            let mut bytes = Vec::new();
            let mut wanted = Vec::new();
            let mut ends = vec![0];
            for (kind, len, seed) in frames {
                let content: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(seed) ^ (at >> 9) as u8).collect();
                bytes.extend(frame(kind, &content));
                ends.push(bytes.len());
                if !matches!(kind, Kind::Skippable) {
                    wanted.extend(content);
                }
            }

            prop_assert!(content_of(&bytes).unwrap() == wanted);
            let cut = cut % (bytes.len() + 1);
            prop_assert_eq!(content_of(&bytes[..cut]).is_ok(), ends.contains(&cut));
        }
    }

    #[test]
    fn a_frame_is_unpacked_whatever_its_size() {
        for len in [SMALL - 1, SMALL, SMALL + 1, 3 * SMALL] {
            let content: Vec<u8> = (0..len).map(|at| (at / 100) as u8).collect();
            for kind in [
                Kind::Bulk,
                Kind::Stream { checksum: true },
                Kind::Sized { checksum: true },
            ] {
                let frames = [frame(kind, &content), frame(Kind::Bulk, b"x")].concat();

                assert!(
                    content_of(&frames).unwrap() == [&content[..], b"x"].concat(),
                    "{kind:?} {len}"
                );
            }
        }
    }

    #[test]
    fn a_frame_of_more_bytes_than_its_content_is_unpacked() {
        let mut frame = frame(Kind::Sized { checksum: false }, b"abc");
        // Blocks of nothing before the first one, which stands behind a header of six bytes.
        let nothing = [0; 3].repeat(1000);
        frame.splice(6..6, nothing);

        assert_eq!(content_of(&frame).unwrap(), b"abc");
    }

    #[test]
    fn what_a_frame_says_of_its_content_must_be_true() {
        let right = frame(Kind::Sized { checksum: false }, &[b'x'; 200]);
        assert_eq!(right[4] >> 5, 1, "one segment, a size of one byte");
        for size in [0, 199, 201, 255] {
            let mut wrong = right.clone();
            wrong[5] = size;

            assert!(content_of(&wrong).is_err(), "{size}");
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        let frame = frame(Kind::Bulk, b"abc");
        for tail in [&b"tail"[..], b"x", &[0; 100]] {
            let bytes = [&frame, tail].concat();

            assert!(content_of(&bytes).is_err(), "{tail:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_not(mut bytes: Vec<u8>, is_frame: bool) {
            if is_frame {
                bytes.splice(0..0, MAGIC.to_le_bytes());
            }
            let _ = content_of(&bytes);
        }
    }
}
