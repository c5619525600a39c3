//! A filter that tells where no pattern can begin, by looking at few bytes.
//!
//! Let every pattern be at least `gram + stride - 1` bytes long. Wherever one stands in the text, one
//! of its first `stride` grams (runs of `gram` bytes) lies on a position divisible by `stride`. So it
//! is enough to look at one gram every `stride` bytes and ask whether it is among those, which a
//! table of 65,536 bits answers, wrongly with "yes" now and then.

/// Longest gram in bytes: what one load fetches.
const MAX_GRAM: usize = 4;

/// Longest stride in bytes. A longer one gains little, and the bytes at a write's end that no gram
/// covers go through the automaton one by one.
const MAX_STRIDE: usize = 13;

/// Most grams in the table: so that a random gram is found in it by mistake once in 16 times.
const MAX_GRAMS: usize = 4096;

/// The table of grams.
pub(super) struct Grams {
    bits: Box<[u64; 1024]>,
    gram: usize,
    stride: usize,
}

/// What looking at one stretch of text tells.
pub(super) enum Look {
    /// No pattern begins before `from`; the gram that ends at `until` may belong to one.
    Maybe { from: usize, until: usize },
    /// No pattern begins before this position; behind it the text is too short to tell.
    NotBefore(usize),
}

impl Grams {
    /// The table for `patterns`, none of them empty.
    pub(super) fn new(patterns: &[Vec<u8>]) -> Grams {
        let shortest = patterns.iter().map(Vec::len).min().unwrap_or(1);
        let gram = shortest.min(MAX_GRAM);
        let room = (MAX_GRAMS / patterns.len().max(1)).max(1);
        let stride = (shortest - gram + 1).min(MAX_STRIDE).min(room);
        let mut grams = Grams {
            bits: Box::new([0; 1024]),
            gram,
            stride,
        };
        for pattern in patterns {
            for window in pattern[..gram + stride - 1].windows(gram) {
                let hash = match gram {
                    1 => hash::<1>(window),
                    2 => hash::<2>(window),
                    3 => hash::<3>(window),
                    _ => hash::<4>(window),
                };
                grams.bits[usize::from(hash >> 6)] |= 1 << (hash & 63);
            }
        }
        grams
    }

    /// Bytes of a gram. The automaton may hand back to this filter what it read of fewer.
    pub(super) fn gram(&self) -> usize {
        self.gram
    }

    /// Looks for a pattern that begins at `from` or later.
    pub(super) fn look(&self, text: &[u8], from: usize) -> Look {
        match self.gram {
            1 => self.look_for::<1>(text, from),
            2 => self.look_for::<2>(text, from),
            3 => self.look_for::<3>(text, from),
            _ => self.look_for::<4>(text, from),
        }
    }

    fn look_for<const GRAM: usize>(&self, text: &[u8], from: usize) -> Look {
        let back = self.stride - 1;
        let mut at = from + back;
        while let Some(window) = text.get(at..at + GRAM) {
            if self.holds(hash::<GRAM>(window)) {
                return Look::Maybe {
                    from: at - back,
                    until: at + GRAM,
                };
            }
            at += self.stride;
        }
        Look::NotBefore((at - back).min(text.len()))
    }

    fn holds(&self, hash: u16) -> bool {
        self.bits[usize::from(hash >> 6)] >> (hash & 63) & 1 != 0
    }
}

/// The bit that stands for a gram of `GRAM` bytes: itself where 16 bits hold it.
fn hash<const GRAM: usize>(window: &[u8]) -> u16 {
    let number = match *window {
        [a] => u32::from(a),
        [a, b] => u32::from_le_bytes([a, b, 0, 0]),
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
        [] => 0,
    };
    match GRAM {
        1 | 2 => number as u16,
        // 2^32 divided by the golden ratio: spreads what differs into the upper bits.
        _ => (number.wrapping_mul(0x9e37_79b1) >> 16) as u16,
    }
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
                    Look::Maybe { from: found, .. } if found >= before.len() => break,
                    Look::Maybe { from: found, .. } => from = found + 1,
                    Look::NotBefore(end) => {
                        prop_assert!(end <= before.len());
                        break;
                    }
                }
                prop_assert!(from <= before.len());
            }
        }
    }
}
