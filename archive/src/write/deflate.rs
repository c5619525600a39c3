//! Deflate streams (RFC 1951) made of parts that were compressed apart.
//!
//! libdeflate is twice as fast as its peers and compresses whole buffers only: each of its streams says that it
//! ends. [`open_end`] takes that back, so that another can follow.

use libdeflater::{CompressionLvl, Compressor};

use super::deflate_end::{End, find_ends};
use crate::buffer::Buffer;

/// The stream of nothing: one last, empty block.
pub(super) const NOTHING: [u8; 2] = [3, 0];

/// Largest content of a stored block.
const STORED: usize = 65_535;

/// Where a part stands in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// At the end; it may be the only one.
    Last,
    /// The first one, and every second one after it.
    Even,
    /// Between those.
    Odd,
}

impl Position {
    /// Of a part, counted from 0.
    pub(super) fn of(number: u64, last: bool) -> Self {
        match number % 2 {
            _ if last => Self::Last,
            0 => Self::Even,
            _ => Self::Odd,
        }
    }
}

/// Compresses parts.
pub(super) struct Deflate {
    compressor: Compressor,
    finer: Compressor,
    half: Buffer,
}

impl Deflate {
    /// With libdeflate's levels (1 to 12), the second one for the second halves of odd parts.
    pub(super) fn new(levels: [i32; 2]) -> Self {
        let [compressor, finer] =
            levels.map(|level| Compressor::new(CompressionLvl::new(level).unwrap_or_default()));
        Self {
            compressor,
            finer,
            half: Buffer::default(),
        }
    }

    /// Appends the deflate stream of `content` to `out`; unless it is the last, one that goes on.
    pub(super) fn append(&mut self, content: &[u8], position: Position, out: &mut Buffer) {
        let start = out.len();
        let last = position == Position::Last;
        let done = if last {
            append_stream(&mut self.compressor, content, out)
        } else {
            self.append_open(content, position == Position::Odd, out)
        };
        // It cannot be, by the definitions of libdeflate's bound and of a stream.
        if done.is_none() {
            out.truncate(start);
            store(content, last, out);
        }
    }

    /// Appends a stream that goes on, made of two: finding their ends together is faster.
    fn append_open(&mut self, content: &[u8], is_odd: bool, out: &mut Buffer) -> Option<()> {
        let start = out.len();
        let (one, other) = content.split_at(content.len() / 2);
        append_stream(&mut self.compressor, one, out)?;
        self.half.clear();
        let second = if is_odd {
            &mut self.finer
        } else {
            &mut self.compressor
        };
        append_stream(second, other, &mut self.half)?;
        let [end, half_end] = find_ends([out.bytes_mut(start), self.half.bytes()]);
        open_end(out, start, end?)?;
        open_end(&mut self.half, 0, half_end?)?;
        out.extend(self.half.bytes());
        Some(())
    }
}

/// Appends the stream of `content`.
fn append_stream(compressor: &mut Compressor, content: &[u8], out: &mut Buffer) -> Option<()> {
    let room = out.room(compressor.deflate_compress_bound(content.len()));
    let len = compressor.deflate_compress(content, room).ok()?;
    out.fill(len);
    Some(())
}

/// Appends stored blocks.
fn store(content: &[u8], last: bool, out: &mut Buffer) {
    let blocks = content
        .chunks(STORED)
        .chain(content.is_empty().then_some(&[][..]));
    let mut blocks = blocks.peekable();
    while let Some(block) = blocks.next() {
        let len = u16::try_from(block.len()).unwrap_or_default();
        out.extend(&[u8::from(last && blocks.peek().is_none())]);
        out.extend(&len.to_le_bytes());
        out.extend(&(!len).to_le_bytes());
        out.extend(block);
    }
}

/// Makes the stream at `out[start..]`, which ends at `end`, one that goes on: its last block is no longer marked as
/// that, and an empty stored block behind it leads to the next full byte.
fn open_end(out: &mut Buffer, start: usize, end: End) -> Option<()> {
    *out.bytes_mut(start).get_mut(end.last_block / 8)? &= !(1 << (end.last_block % 8));
    out.truncate(start + end.end.div_ceil(8));
    // The stored block's three bits of header are zero, as is what fills its byte up.
    if (end.end + 3).div_ceil(8) > end.end.div_ceil(8) {
        out.extend(&[0]);
    }
    out.extend(&[0, 0, 0xff, 0xff]);
    Some(())
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "bytes of test data")]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;
    use proptest::prelude::*;

    use super::*;

    /// What a stream of these parts unpacks to.
    fn round_trip(level: i32, parts: &[Vec<u8>]) -> Vec<u8> {
        let mut deflate = Deflate::new([level, level]);
        let mut stream = Buffer::default();
        for (number, part) in parts.iter().enumerate() {
            let position = Position::of(number as u64, number + 1 == parts.len());
            deflate.append(part, position, &mut stream);
        }
        let mut unpacked = Vec::new();
        DeflateDecoder::new(stream.bytes())
            .read_to_end(&mut unpacked)
            .unwrap();
        unpacked
    }

    /// Text of chance, more or less random.
    fn text(seed: u64, letters: u64, len: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..len)
            .map(|at| {
                if at % 1000 < 300 {
                    b'x'
                } else {
                    (next() % letters) as u8
                }
            })
            .collect()
    }

    #[test]
    fn parts_of_all_kinds_make_one_stream() {
        for level in [1, 2, 5, 7, 9] {
            let parts = [
                text(1, 3, 700_000),
                text(2, 256, 300_000),
                Vec::new(),
                text(3, 20, 1_000_000),
                vec![0; 500_000],
                text(5, 256, 70_000),
                b"x".to_vec(),
            ];

            assert!(round_trip(level, &parts) == parts.concat(), "{level}");
        }
    }

    #[test]
    fn an_end_that_is_opened_needs_no_stored_copy() {
        let content = text(7, 4, 400_000);
        let mut stream = Buffer::default();

        Deflate::new([5, 2]).append(&content, Position::Odd, &mut stream);

        assert!(stream.len() < 150_000, "{}", stream.len());
        assert!(stream.bytes().ends_with(&[0, 0, 0xff, 0xff]));
    }

    #[test]
    fn stored_blocks_are_a_stream() {
        for len in [0, 1, STORED, STORED + 1, 3 * STORED] {
            let content = text(9, 256, len);
            let mut stream = Buffer::default();
            store(&content, false, &mut stream);
            store(&content, true, &mut stream);
            let mut unpacked = Vec::new();
            DeflateDecoder::new(stream.bytes())
                .read_to_end(&mut unpacked)
                .unwrap();

            assert!(unpacked == [content.clone(), content].concat(), "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_parts_make_one_stream(
            seeds in proptest::collection::vec((any::<u64>(), 1u64..257, 0usize..40_000), 1..5),
            level in 1i32..10,
        ) {
            let parts: Vec<_> = seeds.iter().map(|(seed, letters, len)| text(*seed, *letters, *len)).collect();
            prop_assert!(round_trip(level, &parts) == parts.concat());
        }
    }
}
