//! An Aho-Corasick automaton in little memory.
//!
//! A state is the longest end of the text read so far that begins some pattern. States are numbered
//! breadth first, so a state's children are neighbours and need no pointers: 25 bytes a state, one
//! state for each byte of a pattern that no other pattern shares. Own rather than a crate's, since
//! the filters need to know a state's depth: the bytes in front of it are decided, the bytes within
//! it are not.

use std::collections::VecDeque;
use std::ops::Range;

/// The state in which no pattern has begun.
pub(super) const ROOT: u32 = 0;

struct State {
    /// The states reached from here, a range of numbers sorted by their byte.
    children: Range<u32>,
    /// The state of the longest proper end of this one that is a state too.
    fail: u32,
    /// Where the search goes on: this state, or what it falls back to if nothing follows it.
    resume: u32,
    /// Bytes of the pattern read.
    depth: u32,
    /// Length of the longest pattern that ends here, 0 if none does.
    found: u32,
}

/// Finds every place where a pattern ends.
pub(super) struct Trie {
    states: Vec<State>,
    /// The byte that leads to each state.
    label: Vec<u8>,
    /// The root's children by byte, [`ROOT`] where there is none.
    first: Box<[u32; 256]>,
}

impl Trie {
    /// Builds the automaton of `patterns`, which must be sorted, distinct and not empty.
    pub(super) fn new(patterns: &[Vec<u8>]) -> Trie {
        let mut trie = Trie::without_links(patterns);
        for (child, &byte) in (0u32..).zip(&trie.label) {
            if trie.state(child).depth == 1
                && let Some(first) = trie.first.get_mut(usize::from(byte))
            {
                *first = child;
            }
        }
        trie.link();
        trie
    }

    /// The states with their children. Those of one state share a prefix: a range of the sorted
    /// patterns.
    fn without_links(patterns: &[Vec<u8>]) -> Trie {
        let mut states = Vec::new();
        let mut label = vec![0];
        let mut queue = VecDeque::from([(0..patterns.len(), 0usize)]);
        let those = |range: &Range<usize>| patterns.get(range.clone()).unwrap_or_default();
        while let Some((mut range, depth)) = queue.pop_front() {
            let mut found = 0;
            if those(&range).first().is_some_and(|p| p.len() == depth) {
                found = number(depth);
                range.start += 1;
            }
            let first = number(label.len());
            while let Some(&byte) = those(&range).first().and_then(|p| p.get(depth)) {
                let same = those(&range)
                    .iter()
                    .take_while(|p| p.get(depth) == Some(&byte))
                    .count();
                queue.push_back((range.start..range.start + same, depth + 1));
                label.push(byte);
                range.start += same;
            }
            states.push(State {
                children: first..number(label.len()),
                fail: ROOT,
                resume: ROOT,
                depth: number(depth),
                found,
            });
        }
        Trie {
            states,
            label,
            first: Box::new([ROOT; 256]),
        }
    }

    /// Fills in where each state falls back to; its parent, and all that is shallower, is done.
    fn link(&mut self) {
        for parent in 0..number(self.states.len()) {
            for child in self.state(parent).children.clone() {
                let fail = match (parent, self.label.get(child as usize)) {
                    (ROOT, _) | (_, None) => ROOT,
                    (_, Some(&label)) => self.step(self.state(parent).fail, label),
                };
                let (found, resume) = (self.state(fail).found, self.state(fail).resume);
                let state = self.state_mut(child);
                state.fail = fail;
                state.resume = if state.children.is_empty() {
                    resume
                } else {
                    child
                };
                if state.found == 0 {
                    state.found = found;
                }
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "a number of this trie")]
    fn state(&self, at: u32) -> &State {
        &self.states[at as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "a number of this trie")]
    fn state_mut(&mut self, at: u32) -> &mut State {
        &mut self.states[at as usize]
    }

    /// The state after `byte`. Falling back costs no more, all in all, than the steps before it.
    #[expect(
        clippy::indexing_slicing,
        reason = "children lie within the labels, and every byte has a first state"
    )]
    fn step(&self, mut at: u32, byte: u8) -> u32 {
        while at != ROOT {
            let state = self.state(at);
            let labels = &self.label[state.children.start as usize..state.children.end as usize];
            if let Some(index) = labels.iter().position(|&label| label == byte) {
                return state.children.start + number(index);
            }
            at = state.fail;
        }
        self.first[usize::from(byte)]
    }

    /// The state to go on with after `byte`, and the length of the longest pattern that ends with
    /// it, 0 if none does.
    pub(super) fn advance(&self, at: u32, byte: u8) -> (u32, u32) {
        let state = self.state(self.step(at, byte));
        (state.resume, state.found)
    }

    /// How many of the last bytes may begin a pattern that has not ended yet.
    pub(super) fn depth(&self, at: u32) -> usize {
        self.state(at).depth as usize
    }
}

/// A count of states, or of a pattern's bytes, as states keep it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "there is one state for each byte of the job's secrets at most, which are far from 4 GiB"
)]
fn number(count: usize) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(patterns: &[&str], text: &str) -> Vec<(usize, u32)> {
        let mut patterns: Vec<_> = patterns.iter().map(|p| p.as_bytes().to_vec()).collect();
        patterns.sort();
        let trie = Trie::new(&patterns);
        let mut at = ROOT;
        let mut ends = Vec::new();
        for (index, byte) in text.bytes().enumerate() {
            let (next, found) = trie.advance(at, byte);
            at = next;
            if found > 0 {
                ends.push((index + 1, found));
            }
        }
        ends
    }

    #[test]
    fn finds_each_pattern_where_it_ends() {
        assert_eq!(ends(&["he", "she", "hers"], "ushers"), [(4, 3), (6, 4)]);
    }

    #[test]
    fn reports_the_longest_of_those_that_end_together() {
        assert_eq!(ends(&["cd", "abcd", "bcd"], "abcd bcd"), [(4, 4), (8, 3)]);
    }

    #[test]
    fn falls_back_within_a_pattern_that_repeats_itself() {
        assert_eq!(ends(&["ababababc"], "abababababc"), [(11, 9)]);
    }

    #[test]
    fn a_finished_leaf_falls_back_to_what_it_begins_anew() {
        let trie = Trie::new(&[b"abab".to_vec()]);
        let at = b"abab"
            .iter()
            .fold(ROOT, |at, &byte| trie.advance(at, byte).0);
        assert_eq!(trie.depth(at), 2);
    }
}
