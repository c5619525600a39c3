//! Skips text in which no pattern begins.

use aho_corasick::packed;

use super::grams::Grams;

/// Longest head in bytes. The vectors compare at most four; the rest keeps mistakes rare.
const MAX_HEAD: usize = 8;

/// Most heads for which the vectors are faster than [`Grams`].
const MAX_HEADS: usize = 24;

/// What looking at one stretch of text tells.
pub(super) enum SkipResult {
    /// No pattern begins before `from`; what ends at `until` may belong to one.
    Maybe { from: usize, until: usize },
    /// No pattern begins before this position; behind it the text is too short to tell.
    NotBefore(usize),
}

/// The way to skip that suits the patterns and the processor.
pub(super) enum Skip {
    /// Looks for the first `len` bytes of each pattern, with vector instructions.
    Heads { heads: packed::Searcher, len: usize },
    /// For many patterns, and where there are no such instructions.
    Grams(Grams),
}

impl Skip {
    /// For `patterns`, none of them empty.
    pub(super) fn new(patterns: &[Vec<u8>]) -> Skip {
        let shortest = patterns.iter().map(Vec::len).min().unwrap_or(1);
        let len = shortest.min(MAX_HEAD);
        // None is shorter.
        let heads = patterns.iter().filter_map(|pattern| pattern.get(..len));
        let mut heads: Vec<_> = heads.collect();
        heads.sort_unstable();
        heads.dedup();
        let searcher = match heads.len() <= MAX_HEADS {
            true => packed::Searcher::new(heads),
            false => None,
        };
        match searcher {
            Some(heads) => Skip::Heads { heads, len },
            None => Skip::Grams(Grams::new(patterns)),
        }
    }

    /// What no pattern is shorter than: where fewer bytes of one were read, looking again is
    /// quicker than reading on.
    pub(super) fn shortest(&self) -> usize {
        match self {
            Skip::Heads { len, .. } => *len,
            Skip::Grams(grams) => grams.gram(),
        }
    }

    /// Looks for a pattern that begins at `from` or later.
    pub(super) fn look(&self, text: &[u8], from: usize) -> SkipResult {
        match self {
            Skip::Heads { heads, len } => match heads.find_in(text, (from..text.len()).into()) {
                Some(found) => SkipResult::Maybe {
                    from: found.start(),
                    until: found.end(),
                },
                None => SkipResult::NotBefore(from.max((text.len() + 1).saturating_sub(*len))),
            },
            Skip::Grams(grams) => grams.look(text, from),
        }
    }
}
