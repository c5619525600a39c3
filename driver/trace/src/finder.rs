//! Finds where patterns end in a text that comes in pieces.
//!
//! [`Skip`] passes over what cannot begin a pattern; the automaton reads the rest, and the last bytes of
//! each piece, so that its state at the piece's end is that of the whole text.

use super::skip::{Skip, SkipResult};
use super::trie::{ROOT, Trie};

/// A fixed set of patterns.
pub(super) struct Finder {
    trie: Trie,
    skip: Skip,
}

/// How far the search has come in one text.
#[derive(Clone, Copy, Default)]
pub(super) struct Cursor {
    state: u32,
}

/// A place where a pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Position behind the pattern, in the piece searched.
    pub(super) end: usize,
    /// Length of the longest pattern that ends here.
    pub(super) len: usize,
}

impl Finder {
    /// A finder for `patterns`, or `None` if there are none but empty ones.
    pub(super) fn new(mut patterns: Vec<Vec<u8>>) -> Option<Finder> {
        patterns.retain(|pattern| !pattern.is_empty());
        patterns.sort();
        patterns.dedup();
        if patterns.is_empty() {
            return None;
        }
        Some(Finder {
            trie: Trie::new(&patterns),
            skip: Skip::new(&patterns),
        })
    }

    /// The next end of a pattern in `piece`, searched from `at` on; `None` once all is read.
    pub(super) fn next(&self, cursor: &mut Cursor, piece: &[u8], mut at: usize) -> Option<Found> {
        // The automaton reads at least up to here before the filter has its turn again.
        let mut until = at;
        while at < piece.len() {
            if cursor.state == ROOT && at >= until {
                match self.skip.look(piece, at) {
                    SkipResult::Maybe { from, until: end } => (at, until) = (from, end),
                    SkipResult::NotBefore(from) => (at, until) = (from, piece.len()),
                }
            }
            let Some(&byte) = piece.get(at) else { break };
            let (state, found) = self.trie.advance(cursor.state, byte);
            cursor.state = state;
            at += 1;
            if found > 0 {
                return Some(Found {
                    end: at,
                    len: found as usize,
                });
            }
            let depth = self.trie.depth(state);
            if at >= until && at < piece.len() && depth < self.skip.shortest() && depth <= at {
                // Too little read to be worth going on: let the filter look at it once more.
                cursor.state = ROOT;
                at -= depth;
                until = at;
            }
        }
        None
    }

    /// Moves on by one byte without looking ahead; true if a pattern ends with it.
    pub(super) fn advance(&self, cursor: &mut Cursor, byte: u8) -> bool {
        let (state, found) = self.trie.advance(cursor.state, byte);
        cursor.state = state;
        found > 0
    }

    /// How many of the bytes read last may begin a pattern.
    pub(super) fn undecided(&self, cursor: Cursor) -> usize {
        self.trie.depth(cursor.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grams::Grams;
    use proptest::prelude::*;

    fn naive(patterns: &[Vec<u8>], text: &[u8]) -> Vec<(usize, usize)> {
        (1..=text.len())
            .filter_map(|end| {
                let longest = patterns
                    .iter()
                    .filter(|p| text[..end].ends_with(p))
                    .map(Vec::len);
                longest.max().map(|len| (end, len))
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn finds_what_a_naive_search_finds_however_the_text_is_cut(
            patterns in proptest::collection::vec(proptest::collection::vec(b'a'..b'd', 1..24), 1..6),
            filler in proptest::collection::vec(b'a'..b'h', 0..80),
            cuts in proptest::collection::vec(1usize..20, 0..12),
            grams in any::<bool>(),
        ) {
            let text = [filler.clone(), patterns[0].clone(), filler, patterns.concat()].concat();
            let mut finder = Finder::new(patterns.clone()).unwrap();
            if grams {
                finder.skip = Skip::Grams(Grams::new(&patterns));
            }
            let mut cursor = Cursor::default();
            let mut found = Vec::new();
            let mut start = 0usize;
            for len in cuts.into_iter().chain([usize::MAX]) {
                let end = start.saturating_add(len).min(text.len());
                let mut at = 0;
                while let Some(f) = finder.next(&mut cursor, &text[start..end], at) {
                    found.push((start + f.end, f.len));
                    at = f.end;
                }
                start = end;
            }
            prop_assert_eq!(found, naive(&patterns, &text));
        }
    }
}
