//! A filter that tells where no pattern can begin, by looking at few bytes.
//!
//! Let every pattern be at least `gram + stride - 1` bytes long. Wherever one stands in the text, one
//! of its first `stride` grams (runs of `gram` bytes) lies on a position divisible by `stride`. So it
//! is enough to look at one gram every `stride` bytes and ask whether it is among those, which two
//! tables of 65,536 bits answer, wrongly with "yes" now and then.

use super::skip::SkipResult;

/// Longest gram in bytes: what one load fetches.
const MAX_GRAM: usize = 4;

/// Longest stride in bytes. A longer one gains little, and the bytes at a write's end that no gram
/// covers go through the automaton one by one.
const MAX_STRIDE: usize = 13;

/// Most grams in the tables: so that a random gram is found in one by mistake once in 16 times, in
/// both once in 256.
const MAX_GRAMS: usize = 4096;

/// The grams, each a bit of either table.
pub(super) struct Grams {
    first: Table,
    second: Table,
    gram: usize,
    stride: usize,
}

impl Grams {
    /// The tables for `patterns`, none of them empty.
    pub(super) fn new(patterns: &[Vec<u8>]) -> Grams {
        let shortest = patterns.iter().map(Vec::len).min().unwrap_or(1);
        let gram = shortest.min(MAX_GRAM);
        let room = (MAX_GRAMS / patterns.len().max(1)).max(1);
        let stride = (shortest - gram + 1).min(MAX_STRIDE).min(room);
        let mut grams = Grams {
            first: Table::default(),
            second: Table::default(),
            gram,
            stride,
        };
        for pattern in patterns {
            // No pattern is shorter than that.
            let beginning = pattern.get(..gram + stride - 1).unwrap_or(pattern);
            for window in beginning.windows(gram) {
                let gram = match gram {
                    1 => number::<1>(window),
                    2 => number::<2>(window),
                    3 => number::<3>(window),
                    _ => number::<4>(window),
                };
                grams.first.insert(hash(gram, FIRST));
                grams.second.insert(hash(gram, SECOND));
            }
        }
        grams
    }

    /// Bytes of a gram.
    pub(super) fn gram(&self) -> usize {
        self.gram
    }

    /// Looks for a pattern that begins at `from` or later.
    pub(super) fn look(&self, text: &[u8], from: usize) -> SkipResult {
        match self.gram {
            1 => self.look_for::<1>(text, from),
            2 => self.look_for::<2>(text, from),
            3 => self.look_for::<3>(text, from),
            _ => self.look_for::<4>(text, from),
        }
    }

    fn look_for<const GRAM: usize>(&self, text: &[u8], from: usize) -> SkipResult {
        let back = self.stride - 1;
        let mut at = from + back;
        while let Some(window) = text.get(at..at + GRAM) {
            if self.holds(number::<GRAM>(window)) {
                return SkipResult::Maybe {
                    from: at - back,
                    until: at + GRAM,
                };
            }
            at += self.stride;
        }
        SkipResult::NotBefore((at - back).min(text.len()))
    }

    fn holds(&self, gram: u32) -> bool {
        self.first.holds(hash(gram, FIRST)) && self.second.holds(hash(gram, SECOND))
    }
}

/// A set of 16-bit numbers.
struct Table(Box<[u64; 1024]>);

impl Default for Table {
    fn default() -> Table {
        Table(Box::new([0; 1024]))
    }
}

impl Table {
    fn insert(&mut self, number: u16) {
        if let Some(word) = self.0.get_mut(usize::from(number >> 6)) {
            *word |= 1 << (number & 63);
        }
    }

    fn holds(&self, number: u16) -> bool {
        self.0
            .get(usize::from(number >> 6))
            .is_some_and(|word| word >> (number & 63) & 1 != 0)
    }
}

/// The bytes of a gram as one number.
fn number<const GRAM: usize>(window: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    if let Some(gram) = window.first_chunk::<GRAM>()
        && let Some(low) = bytes.first_chunk_mut::<GRAM>()
    {
        *low = *gram;
    }
    u32::from_le_bytes(bytes)
}

/// 2^32 divided by the golden ratio: spreads what differs into the upper bits.
const FIRST: u32 = 0x9e37_79b1;
/// Another odd number without a pattern in its bits.
const SECOND: u32 = 0x85eb_ca6b;

fn hash(gram: u32, factor: u32) -> u16 {
    (gram.wrapping_mul(factor) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_skips_the_beginning_of_a_pattern(
            pattern in proptest::collection::vec(b'a'..b'd', 1..24),
            before in proptest::collection::vec(b'a'..b'd', 0..40),
        ) {
            let grams = Grams::new(std::slice::from_ref(&pattern));
            let text = [before.clone(), pattern].concat();
            let mut from = 0;
            loop {
                match grams.look(&text, from) {
                    SkipResult::Maybe { from: found, .. } if found >= before.len() => break,
                    SkipResult::Maybe { from: found, .. } => from = found + 1,
                    SkipResult::NotBefore(end) => {
                        prop_assert!(end <= before.len());
                        break;
                    }
                }
                prop_assert!(from <= before.len());
            }
        }
    }
}
