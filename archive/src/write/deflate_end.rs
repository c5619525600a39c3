//! Finds the last block of a deflate stream (RFC 1951) and where it ends. The content does not matter for that: only
//! how many bits each symbol takes.

/// A stream's end, in bits from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Where the header of the last block begins, whose first bit says that it is the last.
    pub(super) last_block: usize,
    /// Behind the last block.
    pub(super) end: usize,
}

/// The ends of two streams, each of which its bytes begin with; none if there is no whole one.
///
/// Each look-up waits for the one before. Two streams at once take little longer than one.
pub(super) fn find_ends(streams: [&[u8]; 2]) -> [Option<End>; 2] {
    let [mut one, mut other] = streams.map(Walk::new);
    while let (State::Inside, State::Inside) = (&one.state, &other.state) {
        if let (Some(mut first), Some(mut second)) = (one.fast(), other.fast()) {
            while first.step() && second.step() {}
            let places = (first.at(), second.at());
            (one.bits.at, other.bits.at) = places;
        }
        one.symbol();
        other.symbol();
    }
    [one.finish(), other.finish()]
}

/// How far a stream is read.
struct Walk<'a> {
    bits: Bits<'a>,
    tables: Tables,
    state: State,
    /// The header of the current block.
    header: usize,
    is_last: bool,
}

enum State {
    /// Between the symbols of a block.
    Inside,
    Ended(End),
    /// It is no stream, or not whole.
    Broken,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut walk = Self {
            bits: Bits { bytes, at: 0 },
            tables: Tables::default(),
            state: State::Broken,
            header: 0,
            is_last: false,
        };
        walk.state = walk.block().unwrap_or(State::Broken);
        walk
    }

    /// Reads a block's header, after stored blocks.
    fn block(&mut self) -> Option<State> {
        loop {
            self.header = self.bits.at;
            self.is_last = self.bits.take(1)? == 1;
            if self.tables.begin_block(&mut self.bits)? {
                return Some(State::Inside);
            }
            if self.is_last {
                return Some(self.ended());
            }
        }
    }

    fn ended(&self) -> State {
        State::Ended(End {
            last_block: self.header,
            end: self.bits.at,
        })
    }

    /// Moves behind a symbol, and into the next block at a block's end.
    fn symbol(&mut self) {
        let next = match self.tables.skip_symbol(&mut self.bits) {
            Some(false) => return,
            Some(true) if self.is_last => Some(self.ended()),
            Some(true) => self.block(),
            None => None,
        };
        self.state = next.unwrap_or(State::Broken);
    }

    fn fast(&self) -> Option<Fast<'_>> {
        Fast::new(&self.bits, &self.tables)
    }

    fn finish(mut self) -> Option<End> {
        loop {
            match self.state {
                State::Inside => {}
                State::Ended(end) => return Some(end),
                State::Broken => return None,
            }
            if let Some(mut fast) = self.fast() {
                while fast.step() {}
                self.bits.at = fast.at();
            }
            self.symbol();
        }
    }
}

/// A position in a stream of bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next 57 bits or more, zeros behind the end; none if the position is far behind it.
    fn peek(&self) -> Option<u64> {
        let rest = self.bytes.get(self.at / 8..)?;
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
        Some(word >> (self.at % 8))
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        self.at += count as usize;
        (self.at <= self.bytes.len() * 8).then_some(())
    }

    /// The next bits as a number; at most 16.
    fn take(&mut self, count: u32) -> Option<usize> {
        let bits = self.peek()? & ((1 << count) - 1);
        self.skip(count)?;
        usize::try_from(bits).ok()
    }
}

/// Longest code (RFC 1951, 3.2.7).
const MOST_BITS: u32 = 15;

/// Codes of one alphabet.
#[derive(Default)]
struct Codes {
    /// How many codes there are of each length.
    counts: [u32; MOST_BITS as usize + 1],
    /// Symbols in the order of their codes.
    symbols: Vec<u16>,
}

impl Codes {
    /// From the code lengths (RFC 1951, 3.2.2).
    fn set(&mut self, lengths: &[u8]) {
        self.symbols.clear();
        for (bits, count) in (0u8..).zip(&mut self.counts).skip(1) {
            let before = self.symbols.len();
            let those = (0u16..).zip(lengths).filter(|(_, len)| **len == bits);
            self.symbols.extend(those.map(|(symbol, _)| symbol));
            *count = u32::try_from(self.symbols.len() - before).unwrap_or_default();
        }
    }

    /// The symbol that `bits` begin with, and its length: codes of one length are consecutive numbers.
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

    /// All codes, the first bit lowest, with their lengths and symbols, as long as they fit the lengths.
    fn all(&self) -> impl Iterator<Item = (u32, u32, u16)> {
        let mut code = 0u32;
        let mut symbols = self.symbols.as_slice();
        let of_len = move |(len, count): (u32, &u32)| {
            code <<= 1;
            let first = code;
            code += count;
            let (those, rest) = symbols
                .split_at_checked(*count as usize)
                .unwrap_or_default();
            symbols = rest;
            (first..)
                .zip(those)
                .map(move |(code, symbol)| (code.reverse_bits() >> (32 - len), len, *symbol))
        };
        (0..).zip(&self.counts).skip(1).flat_map(of_len)
    }
}

/// What some bits begin with: how many of them that takes, and two flags.
#[derive(Clone, Copy)]
struct Step(u8);

impl Step {
    /// A code that is too long, the end of a block, or none: to be read as a symbol.
    const SLOW: Self = Self(1 << 5);

    /// The bit that is set if a distance follows.
    const DISTANCE: u32 = 6;

    fn new(code: u32, extra: u32, distance: bool) -> Self {
        let bits = (code + extra) | u32::from(distance) << Self::DISTANCE;
        u8::try_from(bits).map_or(Self::SLOW, Self)
    }

    fn bits(self) -> u32 {
        u32::from(self.0 & 31)
    }

    fn is_slow(self) -> bool {
        self.0 & Self::SLOW.0 != 0
    }

    /// This one if `before` has a distance, else a step of no bits.
    fn if_distance(self, before: Self) -> Self {
        Self(self.0 & (before.0 >> Self::DISTANCE & 1).wrapping_neg())
    }
}

/// Steps by the bits that they begin with. Codes longer than those are rare, and read bit by bit.
struct Steps<const COUNT: usize>([Step; COUNT]);

impl<const COUNT: usize> Steps<COUNT> {
    /// How many bits are looked up.
    const BITS: u32 = COUNT.ilog2();

    fn look_up(&self, bits: u64) -> Step {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the lowest bits are looked at"
        )]
        let at = bits as usize & (COUNT - 1);
        self.0.get(at).copied().unwrap_or(Step::SLOW)
    }

    fn set(&mut self, codes: &Codes, step: impl Fn(u16, u32) -> Step) {
        self.0.fill(Step::SLOW);
        for (code, len, symbol) in codes.all().take_while(|(_, len, _)| *len <= Self::BITS) {
            let mut at = code as usize;
            while let Some(place) = self.0.get_mut(at) {
                *place = step(symbol, len);
                at += 1 << len;
            }
        }
    }
}

/// How many steps are kept, for codes of 11 and of 10 bits: nearly all.
const MAIN: usize = 1 << 11;
const DISTANCE: usize = 1 << 10;

struct Tables {
    /// Literals, lengths and the end of a block.
    main: Codes,
    main_steps: Box<Steps<MAIN>>,
    distance: Codes,
    distance_steps: Box<Steps<DISTANCE>>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            main: Codes::default(),
            main_steps: Box::new(Steps([Step::SLOW; _])),
            distance: Codes::default(),
            distance_steps: Box::new(Steps([Step::SLOW; _])),
        }
    }
}

/// Moves behind symbols that can be looked up, as long as there are eight bytes more.
struct Fast<'a> {
    bytes: &'a [u8],
    main: &'a Steps<MAIN>,
    distance: &'a Steps<DISTANCE>,
    /// The bits to come, the first one lowest.
    word: u64,
    /// How many of them are there for sure.
    held: u32,
    /// The byte that comes behind those.
    next: usize,
}

impl<'a> Fast<'a> {
    /// From a position on; none near the end.
    fn new(bits: &Bits<'a>, tables: &'a Tables) -> Option<Self> {
        let next = bits.at / 8;
        let skip = u32::try_from(bits.at % 8).ok()?;
        let word = bits.bytes.get(next..)?.first_chunk()?;
        Some(Self {
            bytes: bits.bytes,
            main: &tables.main_steps,
            distance: &tables.distance_steps,
            word: u64::from_le_bytes(*word) >> skip,
            held: 64 - skip,
            next: next + 8,
        })
    }

    /// Moves behind a literal, or a length with its distance. False, and no move, if that takes another way.
    #[inline(always)]
    fn step(&mut self) -> bool {
        let step = self.main.look_up(self.word);
        let distance = self.distance.look_up(self.word >> step.bits());
        let distance = distance.if_distance(step);
        let more = self.bytes.get(self.next..).and_then(<[u8]>::first_chunk);
        let Some(more) = more.filter(|_| !step.is_slow() && !distance.is_slow()) else {
            return false;
        };
        let used = step.bits() + distance.bits();
        self.word >>= used;
        self.held -= used;
        // Filled up to 56 bits or more without a branch, as libdeflate does it: bits that are there come again.
        self.word |= u64::from_le_bytes(*more) << self.held;
        self.next += (63 - self.held as usize) / 8;
        self.held |= 56;
        true
    }

    fn at(&self) -> usize {
        self.next * 8 - self.held as usize
    }
}

/// Symbol that ends a block.
const END_OF_BLOCK: u16 = 256;

/// In which order the lengths of the lengths' codes come (RFC 1951, 3.2.7).
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// Bits behind the code of a length or literal (RFC 1951, 3.2.5).
fn length_extra(symbol: u16) -> u32 {
    match symbol {
        265..=284 => u32::from(symbol - 261) / 4,
        _ => 0,
    }
}

/// Bits behind the code of a distance.
fn distance_extra(symbol: u16) -> u32 {
    (u32::from(symbol) / 2).saturating_sub(1)
}

impl Tables {
    /// Reads a block's header from its type on, and says whether symbols follow; a stored block is left behind.
    fn begin_block(&mut self, bits: &mut Bits<'_>) -> Option<bool> {
        match bits.take(2)? {
            0 => {
                bits.at = bits.at.next_multiple_of(8);
                let len = bits.take(16)?;
                bits.skip(16)?;
                bits.skip(u32::try_from(len * 8).ok()?)?;
                return Some(false);
            }
            1 => {
                let lengths = [(8, 144), (9, 112), (7, 24), (8, 8)];
                let lengths = lengths.map(|(len, count)| vec![len; count]).concat();
                self.set(&lengths, &[5; 30]);
            }
            2 => self.read_codes(bits)?,
            _ => return None,
        }
        Some(true)
    }

    /// Moves behind a symbol, and says whether it ends the block.
    fn skip_symbol(&self, bits: &mut Bits<'_>) -> Option<bool> {
        let word = bits.peek()?;
        let (symbol, len) = self.main.read(word)?;
        let used = len + length_extra(symbol);
        if symbol > END_OF_BLOCK {
            let (distance, len) = self.distance.read(word >> used)?;
            bits.skip(used + len + distance_extra(distance))?;
        } else {
            bits.skip(len)?;
        }
        Some(symbol == END_OF_BLOCK)
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
            let (symbol, len) = self.main.read(bits.peek()?)?;
            bits.skip(len)?;
            let (value, count) = match symbol {
                16 => (*lengths.last()?, 3 + bits.take(2)?),
                17 => (0, 3 + bits.take(3)?),
                18 => (0, 11 + bits.take(7)?),
                length => (u8::try_from(length).ok()?, 1),
            };
            lengths.resize(lengths.len() + count, value);
        }
        self.set(lengths.get(..main)?, lengths.get(main..main + distances)?);
        Some(())
    }

    fn set(&mut self, main: &[u8], distance: &[u8]) {
        self.main.set(main);
        self.main_steps.set(&self.main, |symbol, len| match symbol {
            0..END_OF_BLOCK => Step::new(len, 0, false),
            END_OF_BLOCK => Step::SLOW,
            _ => Step::new(len, length_extra(symbol), true),
        });
        self.distance.set(distance);
        self.distance_steps.set(&self.distance, |symbol, len| {
            Step::new(len, distance_extra(symbol), false)
        });
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "bytes of test data")]
mod tests {
    use std::io::Write;

    use flate2::write::DeflateEncoder;
    use flate2::{Compression, Decompress, FlushDecompress};
    use proptest::prelude::*;

    use super::*;

    /// Bytes of chance, few or many kinds of them, with repetitions.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let piece = (
            1u16..256,
            proptest::collection::vec(any::<u16>(), 1..300),
            1usize..40,
        )
            .prop_map(|(letters, bytes, times)| {
                let bytes: Vec<u8> = bytes.iter().map(|it| (it % letters) as u8).collect();
                bytes.repeat(times)
            });
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn the_end_is_where_a_decoder_stops(content in content(), level in 0u32..10, tail: Vec<u8>, cut: usize) {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
            encoder.write_all(&content).unwrap();
            let mut stream = encoder.finish().unwrap();
            let len = stream.len();
            let other = stream[..cut % len].to_vec();
            stream.extend(tail);

            let [end, same] = find_ends([&stream, &stream]);
            prop_assert_eq!(end, same);
            let end = end.unwrap();
            prop_assert_eq!(find_ends([&other, &stream]), [None, Some(end)]);

            prop_assert_eq!(end.end.div_ceil(8), len);
            prop_assert!(end.last_block < end.end);
            // Without the mark a decoder looks for another block, and reads all that it can.
            let mark = 1 << (end.last_block % 8);
            prop_assert!(stream[end.last_block / 8] & mark != 0);
            stream[end.last_block / 8] &= !mark;
            stream.truncate(len);
            let mut unpacked = Vec::with_capacity(content.len() + 1000);
            let status = Decompress::new(false)
                .decompress_vec(&stream, &mut unpacked, FlushDecompress::None)
                .unwrap();
            prop_assert_ne!(status, flate2::Status::StreamEnd);
            prop_assert!(unpacked == content);
        }

        #[test]
        fn any_bytes_are_a_stream_or_not(bytes: Vec<u8>) {
            let [end, _] = find_ends([&bytes, &[]]);

            prop_assert!(end.is_none_or(|end| end.end <= 8 * bytes.len()));
        }
    }
}
