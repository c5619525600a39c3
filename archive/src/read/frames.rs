//! Unpacking zstd frames (RFC 8878, 3.1) on several threads: a cache is a row of small ones. From the first one on that is
//! larger, or does not say how large it is, the rest is unpacked as it is read.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use zstd::bulk::Decompressor;
use zstd::stream::read::Decoder;

use super::{ExtractError, MOST_WINDOW};
use crate::buffer::{Buffer, SpareBuffers};
use crate::pool;
use crate::write::{FRAME, MOST_THREADS};

/// What is read at once.
const READ: usize = 256 << 10;

/// Content up to this size is unpacked in one go: vk's frames, whose first one of a large file has its headers besides.
const SMALL: u64 = (FRAME + (64 << 10)) as u64;

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
    let spare = SpareBufferSets::default();
    let frames = Frames {
        archive: Some(BufReader::with_capacity(READ, archive)),
        spare: &spare,
    };
    pool::pulled(
        threads.min(MOST_THREADS),
        frames,
        || Unpacker {
            spare: &spare,
            zstd: None,
        },
        |unpacker, piece| unpacker.unpack(piece),
        |next| {
            consume(&mut Content {
                next,
                current: Buffer::default(),
                at: 0,
                rest: None,
                spare: &spare,
            })
        },
    )
}

/// Apart, because frames are much smaller than their content.
#[derive(Default)]
struct SpareBufferSets {
    frames: SpareBuffers,
    content: SpareBuffers,
}

/// The archive from a frame on that began with these bytes.
type Rest<R> = Chain<Cursor<Vec<u8>>, BufReader<R>>;

/// Something of the archive.
enum Piece<R> {
    /// A whole frame, and the size of its content.
    Frame(Buffer, usize),
    Rest(Rest<R>),
}

/// Cuts the archive.
struct Frames<'a, R> {
    /// None behind its end, an error, or what is not cut.
    archive: Option<BufReader<R>>,
    spare: &'a SpareBufferSets,
}

impl<R: Read> Iterator for Frames<'_, R> {
    type Item = io::Result<Piece<R>>;

    fn next(&mut self) -> Option<Self::Item> {
        let archive = self.archive.take()?;
        self.cut(archive).transpose()
    }
}

impl<R: Read> Frames<'_, R> {
    /// Cuts the next frame off; none at the archive's end.
    fn cut(&mut self, mut archive: BufReader<R>) -> io::Result<Option<Piece<R>>> {
        let mut frame = self.spare.frames.take();
        loop {
            if is_at_end(&mut archive)? {
                return Ok(None);
            }
            frame.clear();
            let magic = take(&mut archive, 4, &mut frame)?;
            if magic & !0xf != SKIPPABLE.into() {
                break;
            }
            let len = take(&mut archive, 4, &mut frame)?;
            if io::copy(&mut (&mut archive).take(len), &mut io::sink())? < len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if let Some(size) = small(&mut archive, &mut frame)? {
            self.archive = Some(archive);
            return Ok(Some(Piece::Frame(frame, size)));
        }
        let begun = Cursor::new(frame.bytes().to_vec());
        Ok(Some(Piece::Rest(begun.chain(archive))))
    }
}

/// Reads the rest of a frame that is small, to the end of `frame`, and says how large its content is.
fn small(archive: &mut impl Read, frame: &mut Buffer) -> io::Result<Option<usize>> {
    if !frame.bytes().starts_with(&MAGIC.to_le_bytes()) {
        return Ok(None);
    }
    let header = Header::take(archive, frame)?;
    let size = header.size.filter(|size| *size <= SMALL);
    let size = size.and_then(|size| usize::try_from(size).ok());
    let Some(size) = size.filter(|_| header.is_usual) else {
        return Ok(None);
    };
    // Blocks (3.1.1.2), as long as they do not take more than their content.
    let most = zstd::zstd_safe::compress_bound(size) + MOST_HEADER;
    while frame.len() <= most {
        let block = take(archive, 3, frame)?;
        let is_last = block & 1 == 1;
        let len = match block >> 1 & 3 {
            // One byte that is repeated.
            1 => 1,
            _ => block >> 3,
        };
        take_bytes(archive, len, frame)?;
        if is_last {
            take_bytes(archive, 4 * u64::from(header.has_checksum), frame)?;
            return Ok(Some(size));
        }
    }
    Ok(None)
}

/// What a frame says of itself (RFC 8878, 3.1.1.1).
struct Header {
    /// Bytes of its content.
    size: Option<u64>,
    has_checksum: bool,
    /// Whether it needs no dictionary, and no window that is too large.
    is_usual: bool,
}

impl Header {
    /// Reads it, from behind the magic number, to the end of `frame`.
    fn take(reader: &mut impl Read, frame: &mut Buffer) -> io::Result<Self> {
        let descriptor = take(reader, 1, frame)?;
        let is_single_segment = descriptor >> 5 & 1 == 1;
        let mut window = 0;
        if !is_single_segment {
            let descriptor = take(reader, 1, frame)?;
            let base = 1 << (10 + (descriptor >> 3));
            window = base + base / 8 * (descriptor & 7);
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
            is_usual: dictionary == 0 && window <= 1 << MOST_WINDOW,
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
    spare: &'a SpareBufferSets,
    zstd: Option<Decompressor<'static>>,
}

/// What comes out.
enum Unpacked<R> {
    Content(Buffer),
    Rest(Rest<R>),
}

impl Unpacker<'_> {
    fn unpack<R>(&mut self, piece: io::Result<Piece<R>>) -> io::Result<Unpacked<R>> {
        let (frame, size) = match piece? {
            Piece::Rest(rest) => return Ok(Unpacked::Rest(rest)),
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
        Ok(Unpacked::Content(content))
    }
}

/// The content of all frames.
struct Content<'a, R: Read> {
    next: &'a mut dyn FnMut() -> Option<io::Result<Unpacked<R>>>,
    current: Buffer,
    /// How much of that was read.
    at: usize,
    /// What comes behind it, once that is not cut any more.
    rest: Option<Decoder<'static, Rest<R>>>,
    spare: &'a SpareBufferSets,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            if let Some(rest) = &mut self.rest {
                return rest.read(buffer);
            }
            match (self.next)() {
                None => return Ok(0),
                Some(next) => self.go_on(next?)?,
            }
        }
        let mut content = self.current.bytes().get(self.at..).unwrap_or_default();
        let got = content.read(buffer)?;
        self.at += got;
        Ok(got)
    }
}

impl<R: Read> Content<'_, R> {
    fn go_on(&mut self, next: Unpacked<R>) -> io::Result<()> {
        match next {
            Unpacked::Content(content) => {
                let read = std::mem::replace(&mut self.current, content);
                self.spare.content.give(read);
                self.at = 0;
            }
            Unpacked::Rest(rest) => {
                // Its window takes memory in turn.
                self.spare.frames.clear();
                self.spare.content.clear();
                let mut rest = Decoder::with_buffer(rest)?;
                rest.window_log_max(MOST_WINDOW)?;
                self.rest = Some(rest);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "bytes of test data")]
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

    /// What zstd itself makes of it.
    fn reference(frames: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        if frames.is_empty() {
            // zstd misses a frame, tar its end.
            return Ok(content);
        }
        let mut decoder = Decoder::with_buffer(frames)?;
        decoder.window_log_max(MOST_WINDOW)?;
        decoder.read_to_end(&mut content)?;
        Ok(content)
    }

    /// What we take has the content that zstd finds. It bears with a last frame that lacks some of its end.
    fn check(frames: &[u8]) -> Result<(), TestCaseError> {
        if let Ok(content) = content_of(frames) {
            prop_assert_eq!(Some(content), reference(frames).ok());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn damage_is_seen_if_zstd_sees_it(
            frames in proptest::collection::vec((kind(), proptest::collection::vec(any::<u8>(), 0..50)), 1..4),
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        ) {
            let mut bytes: Vec<u8> = frames.iter().flat_map(|(kind, content)| frame(*kind, content)).collect();
            for (at, change) in changes {
                let at = at % bytes.len();
                bytes[at] ^= change;
            }

            check(&bytes)?;
        }

        #[test]
        fn any_bytes_are_what_zstd_says_or_refused(mut bytes: Vec<u8>, is_frame: bool) {
            if is_frame {
                bytes.splice(0..0, MAGIC.to_le_bytes());
            }

            check(&bytes)?;
        }
    }
}
