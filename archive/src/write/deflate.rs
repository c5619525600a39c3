//! Deflate streams (RFC 1951) made of parts that were compressed apart.
//!
//! libdeflate is twice as fast as its peers and compresses whole buffers only: each of its streams says that it
//! ends. [`open_end`] finds where a stream says so and takes it back, so that another can follow.

use libdeflater::{CompressionLvl, Compressor};

/// The stream of nothing: one last, empty block.
pub(super) const END: [u8; 2] = [3, 0];

/// Largest content of a stored block.
const STORED: usize = 65_535;

/// Compresses parts.
pub(super) struct Deflate {
    compressor: Compressor,
}

impl Deflate {
    /// With one of libdeflate's levels (1 to 12).
    pub(super) fn new(level: i32) -> Self {
        let level = CompressionLvl::new(level).unwrap_or_default();
        Self {
            compressor: Compressor::new(level),
        }
    }

    /// Appends the deflate stream of `content` to `out`; without `last` one that goes on.
    pub(super) fn append(&mut self, content: &[u8], last: bool, out: &mut Vec<u8>) {
        let start = out.len();
        let bound = self.compressor.deflate_compress_bound(content.len());
        out.resize(start + bound, 0);
        let room = out.get_mut(start..).unwrap_or_default();
        match self.compressor.deflate_compress(content, room) {
            Ok(len) => out.truncate(start + len),
            // It cannot be, by the bound's definition.
            Err(_) => {
                out.truncate(start);
                return store(content, last, out);
            }
        }
        if !last && open_end(out, start).is_none() {
            out.truncate(start);
            store(content, last, out);
        }
    }
}

/// Appends stored blocks.
fn store(content: &[u8], last: bool, out: &mut Vec<u8>) {
    let blocks = content
        .chunks(STORED)
        .chain(content.is_empty().then_some(&[][..]));
    let mut blocks = blocks.peekable();
    while let Some(block) = blocks.next() {
        let len = u16::try_from(block.len()).unwrap_or_default();
        out.push(u8::from(last && blocks.peek().is_none()));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend(block);
    }
}

/// Makes the stream at `out[start..]` one that goes on: its last block is no longer marked as that, and an empty
/// stored block behind it leads to the next full byte. None if it is no stream.
fn open_end(out: &mut Vec<u8>, start: usize) -> Option<()> {
    let mut bits = Bits {
        bytes: out.get(start..)?,
        at: 0,
    };
    let mut tables = Tables::default();
    let last = loop {
        let header = bits.at;
        let is_last = bits.take(1)? == 1;
        tables.skip_block(&mut bits)?;
        if is_last {
            break header;
        }
    };
    let end = bits.at;
    *out.get_mut(start + last / 8)? &= !(1 << (last % 8));
    // The stored block's three bits of header are zero, as is what fills its byte up.
    let len = (end + 3).div_ceil(8);
    out.truncate(start + end.div_ceil(8));
    out.resize(start + len, 0);
    out.extend([0, 0, 0xff, 0xff]);
    Some(())
}

/// A position in a stream of bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next 57 bits or more; zeros behind the end.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => {
                let mut bytes = [0; 8];
                for (to, from) in bytes.iter_mut().zip(rest) {
                    *to = *from;
                }
                u64::from_le_bytes(bytes)
            }
        };
        word >> (self.at % 8)
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        self.at += count as usize;
        (self.at <= self.bytes.len() * 8).then_some(())
    }

    /// The next bits as a number; at most 16.
    fn take(&mut self, count: u32) -> Option<usize> {
        let bits = self.peek() & ((1 << count) - 1);
        self.skip(count)?;
        usize::try_from(bits).ok()
    }
}

/// Longest code (RFC 1951, 3.2.7).
const MOST_BITS: u32 = 15;

/// Codes up to this length are looked up, longer ones are rare and read bit by bit.
const FAST_BITS: u32 = 11;

/// Codes of one alphabet.
struct Table {
    /// For each bits what symbol they begin with (times 16), and how many bits that has; zero for a longer code.
    fast: Vec<u16>,
    /// How many codes there are of each length.
    counts: [u32; MOST_BITS as usize + 1],
    /// Symbols in the order of their codes.
    symbols: Vec<u16>,
}

impl Table {
    fn new() -> Self {
        Self {
            fast: vec![0; 1 << FAST_BITS],
            counts: [0; MOST_BITS as usize + 1],
            symbols: Vec::new(),
        }
    }

    /// From the code lengths (RFC 1951, 3.2.2).
    fn set(&mut self, lengths: &[u8]) {
        self.fast.fill(0);
        self.symbols.clear();
        let mut code = 0u32;
        for (bits, count) in (0..).zip(&mut self.counts).skip(1) {
            *count = 0;
            for (symbol, _) in (0u16..)
                .zip(lengths)
                .filter(|(_, len)| u32::from(**len) == bits)
            {
                if bits <= FAST_BITS {
                    let reversed = code.reverse_bits() >> (32 - bits);
                    let entry = (symbol << 4) | u16::try_from(bits).unwrap_or_default();
                    let mut at = reversed as usize;
                    while let Some(place) = self.fast.get_mut(at) {
                        *place = entry;
                        at += 1 << bits;
                    }
                }
                *count += 1;
                self.symbols.push(symbol);
                code += 1;
            }
            code <<= 1;
        }
    }

    /// The symbol that `bits` begin with, and its length.
    fn look_up(&self, bits: u64) -> Option<(u16, u32)> {
        let at = usize::try_from(bits & ((1 << FAST_BITS) - 1)).ok()?;
        match *self.fast.get(at)? {
            0 => self.read(bits),
            entry => Some((entry >> 4, u32::from(entry & 15))),
        }
    }

    /// As [`Table::look_up`], for codes of any length: those of one length are consecutive numbers.
    fn read(&self, mut bits: u64) -> Option<(u16, u32)> {
        let (mut code, mut first, mut index) = (0u32, 0u32, 0u32);
        for (len, count) in (0..).zip(&self.counts).skip(1) {
            code |= u32::try_from(bits & 1).ok()?;
            bits >>= 1;
            if let Some(place) = code.checked_sub(first).filter(|place| place < count) {
                let symbol = self.symbols.get((index + place) as usize)?;
                return Some((*symbol, len));
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

struct Tables {
    /// Letters, lengths and the end of a block.
    main: Table,
    distance: Table,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            main: Table::new(),
            distance: Table::new(),
        }
    }
}

/// Symbol that ends a block.
const END_OF_BLOCK: u16 = 256;

/// In which order the lengths of the lengths' codes come (RFC 1951, 3.2.7).
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

impl Tables {
    /// Moves behind a block, from its type on.
    fn skip_block(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        match bits.take(2)? {
            0 => {
                bits.at = bits.at.next_multiple_of(8);
                let len = bits.take(16)?;
                bits.skip(16)?;
                return bits.skip(u32::try_from(len * 8).ok()?);
            }
            1 => {
                let lengths = [(8, 144), (9, 112), (7, 24), (8, 8)];
                let lengths = lengths.map(|(len, count)| vec![len; count]).concat();
                self.main.set(&lengths);
                self.distance.set(&[5; 30]);
            }
            2 => self.read_codes(bits)?,
            _ => return None,
        }
        loop {
            let word = bits.peek();
            let (symbol, len) = self.main.look_up(word)?;
            match symbol {
                0..END_OF_BLOCK => bits.skip(len)?,
                END_OF_BLOCK => return bits.skip(len),
                _ => {
                    let extra = match symbol {
                        265..=284 => u32::from(symbol - 261) / 4,
                        _ => 0,
                    };
                    let used = len + extra;
                    let (distance, len) = self.distance.look_up(word >> used)?;
                    let extra = (u32::from(distance) / 2).saturating_sub(1);
                    bits.skip(used + len + extra)?;
                }
            }
        }
    }

    /// Reads a block's own codes (RFC 1951, 3.2.7).
    fn read_codes(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        let main = bits.take(5)? + 257;
        let distances = bits.take(5)? + 1;
        let count = bits.take(4)? + 4;
        let mut lengths = [0u8; 19];
        for at in ORDER.iter().take(count) {
            *lengths.get_mut(*at)? = u8::try_from(bits.take(3)?).ok()?;
        }
        self.main.set(&lengths);
        let mut lengths: Vec<u8> = Vec::with_capacity(320);
        while lengths.len() < main + distances {
            let (symbol, len) = self.main.look_up(bits.peek())?;
            bits.skip(len)?;
            let (value, count) = match symbol {
                16 => (*lengths.last()?, 3 + bits.take(2)?),
                17 => (0, 3 + bits.take(3)?),
                18 => (0, 11 + bits.take(7)?),
                length => (u8::try_from(length).ok()?, 1),
            };
            lengths.resize(lengths.len() + count, value);
        }
        self.main.set(lengths.get(..main)?);
        self.distance.set(lengths.get(main..main + distances)?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;
    use proptest::prelude::*;

    use super::*;

    /// What a stream of these parts unpacks to.
    fn round_trip(level: i32, parts: &[Vec<u8>]) -> Vec<u8> {
        let mut deflate = Deflate::new(level);
        let mut stream = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            deflate.append(part, number + 1 == parts.len(), &mut stream);
        }
        let mut unpacked = Vec::new();
        DeflateDecoder::new(stream.as_slice())
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
        for level in [1, 5, 7, 9] {
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
        let mut stream = Vec::new();

        Deflate::new(5).append(&content, false, &mut stream);

        assert!(stream.len() < 150_000, "{}", stream.len());
        assert!(stream.ends_with(&[0, 0, 0xff, 0xff]));
    }

    #[test]
    fn stored_blocks_are_a_stream() {
        for len in [0, 1, STORED, STORED + 1, 3 * STORED] {
            let content = text(9, 256, len);
            let mut stream = Vec::new();
            store(&content, false, &mut stream);
            store(&content, true, &mut stream);
            let mut unpacked = Vec::new();
            DeflateDecoder::new(stream.as_slice())
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

        #[test]
        fn any_bytes_are_a_stream_or_not(bytes: Vec<u8>) {
            open_end(&mut bytes.clone(), 0);
        }
    }
}
