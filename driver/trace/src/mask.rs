//! Hides secrets.
//!
//! The rule, for the whole text of a stream, however it was cut into writes: take every occurrence of
//! a secret, drop those that lie within another. Go from left to right: an occurrence that begins at
//! or behind the end of the last one replaced is replaced by `[MASKED]`; of one that begins before
//! it, what sticks out is hidden without a mark of its own. So no byte of any occurrence is shown.
//!
//! GitLab Runner (gitlab-runner, build §6.2) runs one filter a secret, longest first, which misses secrets
//! that overlap themselves across writes and moves text behind masks. Where those defects do
//! not show, the result is the same.
//!
//! Held back are the bytes that may begin a secret: fewer than the longest has.

use std::collections::VecDeque;
use std::sync::Arc;

use super::finder::{Cursor, Finder};
use super::sink::Sink;

/// The filter of one stream.
///
/// Positions count from the stream's first byte.
pub(super) struct Masker {
    finder: Option<Arc<Finder>>,
    cursor: Cursor,
    held: Held,
    /// Position of the first byte held.
    origin: u64,
    /// Occurrences of which one that begins as early or earlier may still turn out to be longer:
    /// start and end, both ascending.
    open: VecDeque<(u64, u64)>,
    /// End of the last occurrence that was replaced.
    replaced: u64,
    /// Everything before this was handed on or hidden.
    done: u64,
}

impl Masker {
    pub(super) fn new(finder: Option<Arc<Finder>>) -> Masker {
        Masker {
            finder,
            cursor: Cursor::default(),
            held: Held::default(),
            origin: 0,
            open: VecDeque::new(),
            replaced: 0,
            done: 0,
        }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn write(&mut self, piece: &[u8], next: &mut impl Sink) {
        let Some(finder) = self.finder.clone() else {
            if !piece.is_empty() {
                next.text(piece);
            }
            return;
        };
        let start = self.end_of_held();
        let mut at = 0;
        while let Some(found) = finder.next(&mut self.cursor, piece, at) {
            at = found.end;
            let end = start + at as u64;
            self.occurrence(end - found.len as u64, end);
            self.settle(end - finder.undecided(self.cursor) as u64, piece, next);
        }
        let end = start + piece.len() as u64;
        let decided = end - finder.undecided(self.cursor) as u64;
        self.settle(decided, piece, next);
        self.show(decided, piece, next);
        self.keep(decided, piece);
    }

    /// Hands on what is left, at the stream's end.
    pub(super) fn close(&mut self, next: &mut impl Sink) {
        let end = self.end_of_held();
        self.settle(end, &[], next);
        self.show(end, &[], next);
        self.keep(end, &[]);
        self.cursor = Cursor::default();
    }

    /// Looks for `finder`'s patterns from here on, which are those so far and others; in what is held, too.
    pub(super) fn change(&mut self, finder: Arc<Finder>, next: &mut impl Sink) {
        self.finder = Some(finder);
        self.cursor = Cursor::default();
        // They begin in what is held, and are found again.
        self.open.clear();
        let held = std::mem::take(&mut self.held);
        self.write(held.bytes(), next);
    }

    /// Position behind the last byte held: where the piece begins that a write brings.
    fn end_of_held(&self) -> u64 {
        self.origin + self.held.bytes().len() as u64
    }

    /// Notes an occurrence, and drops those within it.
    fn occurrence(&mut self, start: u64, end: u64) {
        while self.open.back().is_some_and(|&(other, _)| other >= start) {
            self.open.pop_back();
        }
        self.open.push_back((start, end));
    }

    /// Decides on the occurrences that begin before `decided`.
    fn settle(&mut self, decided: u64, piece: &[u8], next: &mut impl Sink) {
        while let Some(&(start, end)) = self.open.front().filter(|(start, _)| *start < decided) {
            self.open.pop_front();
            if start >= self.replaced {
                self.show(start, piece, next);
                next.mask();
                self.replaced = end;
            }
            self.done = self.done.max(end);
        }
    }

    /// Hands on the text up to `end`, as far as it was neither handed on nor hidden.
    fn show(&mut self, end: u64, piece: &[u8], next: &mut impl Sink) {
        if end <= self.done {
            return;
        }
        for (text, start) in [
            (self.held.bytes(), self.origin),
            (piece, self.end_of_held()),
        ] {
            let place = |position: u64| {
                let place = usize::try_from(position.saturating_sub(start));
                place.map_or(text.len(), |place| place.min(text.len()))
            };
            let shown = text.get(place(self.done)..place(end)).unwrap_or_default();
            if !shown.is_empty() {
                next.text(shown);
            }
        }
        self.done = end;
    }

    /// Holds what follows `decided`.
    fn keep(&mut self, decided: u64, piece: &[u8]) {
        let known = self.held.bytes().len();
        let gone = usize::try_from(decided - self.origin).unwrap_or(usize::MAX);
        self.held.drop_front(gone.min(known));
        self.held
            .extend(piece.get(gone.saturating_sub(known)..).unwrap_or_default());
        self.origin = decided;
    }
}

/// A queue of bytes in one slice.
#[derive(Default)]
struct Held {
    buffer: Vec<u8>,
    /// Bytes at the buffer's front that have left; never more than stay, so moving is paid for.
    gone: usize,
}

impl Held {
    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.gone..).unwrap_or_default()
    }

    fn drop_front(&mut self, count: usize) {
        self.gone += count;
        if self.gone * 2 >= self.buffer.len() {
            self.buffer.drain(..self.gone.min(self.buffer.len()));
            self.gone = 0;
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets;
    use proptest::prelude::*;

    fn masker(secrets: &[&str]) -> Masker {
        let patterns = secrets::patterns(secrets.iter().copied());
        Masker::new(Finder::new(patterns).map(Arc::new))
    }

    /// Masks `text`, in which `|` marks where it is cut into writes.
    fn mask(secrets: &[&str], text: &str) -> String {
        let mut masker = masker(secrets);
        let mut out = Vec::new();
        for piece in text.split('|') {
            masker.write(piece.as_bytes(), &mut out);
        }
        masker.close(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The rule of the module's documentation, word for word.
    fn by_the_rule(patterns: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
        let all: Vec<(usize, usize)> = patterns
            .iter()
            .flat_map(|p| {
                let windows = text.windows(p.len()).enumerate();
                windows
                    .filter(move |(_, w)| w == p)
                    .map(|(start, w)| (start, start + w.len()))
            })
            .collect();
        let mut outer: Vec<_> = all
            .iter()
            .filter(|a| !all.iter().any(|b| a != &b && b.0 <= a.0 && a.1 <= b.1))
            .copied()
            .collect();
        outer.sort_unstable();
        let mut out = Vec::new();
        let (mut replaced, mut done) = (0, 0);
        for (start, end) in outer {
            if start >= replaced {
                out.extend_from_slice(text.get(done..start).unwrap_or_default());
                out.extend_from_slice(b"[MASKED]");
                replaced = end;
            }
            done = done.max(end);
        }
        out.extend_from_slice(&text[done..]);
        out
    }

    /// gitlab-runner, build §6.2 and wire §8.6, as GitLab Runner has them.
    #[test]
    fn masks_as_gitlab_runner_does() {
        let this = "this is the end";
        for (secrets, text, expected) in [
            (
                &["secret"] as &[&str],
                "hello sec|ret\n",
                "hello [MASKED]\n",
            ),
            (
                &["secret", "secretlong"],
                "secretlong secret secretlon",
                "[MASKED] [MASKED] [MASKED]lon",
            ),
            (&["secret", "secretlong"], "secretl|on!", "[MASKED]lon!"),
            (&["aab"], "aaab", "a[MASKED]"),
            (&["MASKED", "secret"], "a secret b", "a [MASKED] b"),
            (&["MASKED"], "x[MASKED]y", "x[[MASKED]]y"),
            (&["  pad  "], "xpadx", "x[MASKED]x"),
            (&["l1\nl2"], "a l1\n|l2 b\n", "a [MASKED] b\n"),
            (
                &[""],
                "empty secrets have no effect",
                "empty secrets have no effect",
            ),
            (&["secrets"], "secrets", "[MASKED]"),
            (&["secrets"], "secret|s s|ecrets", "[MASKED] [MASKED]"),
            (&["secrets"], "secretssecrets", "[MASKED][MASKED]"),
            (&["secrets"], "ssecrets s|secrets", "s[MASKED] s[MASKED]"),
            (
                &["at"],
                "at the start of the buffer",
                "[MASKED] the start of the buffer",
            ),
            (
                &["all", "values", "are", "masked"],
                "all values are masked",
                "[MASKED] [MASKED] [MASKED] [MASKED]",
            ),
            (
                &["foo", "bar"],
                "prefix|ed, su|ffi|xed |and split|:| xfo|ox y|bary ffo|o ba|rr ffooo b|barr",
                "prefixed, suffixed and split: x[MASKED]x y[MASKED]y f[MASKED] [MASKED]r f[MASKED]o b[MASKED]r",
            ),
            (
                &["foo", "bar"],
                "prefixed and suffixed: xfoox ybary ffoo barr ffooo bbarr",
                "prefixed and suffixed: x[MASKED]x y[MASKED]y f[MASKED] [MASKED]r f[MASKED]o b[MASKED]r",
            ),
            (
                &["split", "all", "values", "are", "masked"],
                "sp|lit al|l val|ues ar|e |mask|ed",
                "[MASKED] [MASKED] [MASKED] [MASKED] [MASKED]",
            ),
            (
                &["mask", "prefix_mask"],
                "prefix_mask mask prefix_|mask prefix_ma|sk mas|k",
                "[MASKED] [MASKED] [MASKED] [MASKED] [MASKED]",
            ),
            (
                &[this, "en foobar", "en"],
                "overlap: this is the en| foobar",
                "overlap: this is the [MASKED]",
            ),
        ] {
            assert_eq!(mask(secrets, text), expected, "{secrets:?} in {text:?}");
        }
    }

    /// gitlab-runner, build §6.2: what GitLab Runner misses or reorders, and vk does not.
    #[test]
    fn masks_where_gitlab_runner_leaks_or_reorders() {
        assert_eq!(mask(&["aab"], "aa|ab"), "a[MASKED]");
        assert_eq!(mask(&["abab1"], "abab|ab1"), "ab[MASKED]");
        assert_eq!(mask(&["abcd", "cdef"], "abcdef"), "[MASKED]");
    }

    #[test]
    fn secret_that_repeats_its_start_is_masked_across_writes() {
        assert_eq!(mask(&["ababababc"], "abababab|ababc!"), "abab[MASKED]!");
        assert_eq!(mask(&["aaaaaaaab"], "xaaaaaaaa|aab y"), "xaa[MASKED] y");
    }

    #[test]
    fn json_secret_is_hidden_whole_and_brackets_elsewhere_are_not() {
        let secret = "{\n\"key\": \"hunter2\"\n}";
        assert_eq!(
            mask(
                &[secret],
                "{}\n{\n\"key\": \"hunter2\"\n}\n  \"key\": \"hunter2\",\n"
            ),
            "{}\n[MASKED]\n  [MASKED],\n"
        );
    }

    #[test]
    fn short_value_is_masked_within_words() {
        assert_eq!(mask(&["dev"], "development"), "[MASKED]elopment");
        assert_eq!(mask(&["x"], "x|xy"), "[MASKED][MASKED]y");
    }

    /// Golden jobs 08, 09, 68, 69, 71, 72.
    #[test]
    fn golden_jobs_are_masked_as_recorded() {
        let nested = ["hunter2-hunter2-x", "hunter2-hunter2"];
        assert_eq!(mask(&nested, "hunter2-hun|ter2-x\n"), "[MASKED]\n");
        assert_eq!(
            mask(&nested, "hunter2-hunter2-xhunter2-hunter2-x"),
            "[MASKED][MASKED]"
        );
        assert_eq!(
            mask(&nested, "$ echo hunter2-hunter2\n"),
            "$ echo [MASKED]\n"
        );
        let pem = "line-one-aaaa\nline-two-bbbb\nline-three-cccc";
        assert_eq!(mask(&[pem], &format!("{pem}\n")), "[MASKED]\n");
        assert_eq!(
            mask(&[pem], "line-one-aaaa\nline-two-bbbb\n"),
            "[MASKED]\n[MASKED]\n"
        );
        assert_eq!(
            mask(&["sekret-sekret-1"], "[sekret-sekret-1]"),
            "[[MASKED]]"
        );
        assert_eq!(
            mask(&["abc", "abcdefgh"], "[abc] [abcdefgh] abcdefg"),
            "[[MASKED]] [[MASKED]] [MASKED]defg"
        );
        assert_eq!(
            mask(&["sekret-value-9"], "sekret-\nvalue-9 sekret-value-9"),
            "sekret-\nvalue-9 [MASKED]"
        );
        assert_eq!(
            mask(&["sekret-value-9"], "pre-sekret-value-9-post"),
            "pre-[MASKED]-post"
        );
    }

    #[test]
    fn large_secret_in_two_writes_is_one_mask() {
        let half = "_".repeat(8000);
        assert_eq!(
            mask(&[&half.repeat(2)], &format!("large secret: {half}|{half}")),
            "large secret: [MASKED]"
        );
    }

    #[test]
    fn text_that_cannot_begin_a_secret_is_handed_on_at_once() {
        let mut masker = masker(&["secret"]);
        let mut out = Vec::new();
        masker.write(b"hello sec", &mut out);
        assert_eq!(out, b"hello ");
    }

    #[test]
    fn finished_secret_that_none_continues_is_masked_at_once() {
        let mut masker = masker(&["secret"]);
        let mut out = Vec::new();
        masker.write(b"a secret", &mut out);
        assert_eq!(out, b"a [MASKED]");
    }

    /// Secrets of few letters, so that they overlap each other and themselves.
    fn secrets() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let plain = proptest::collection::vec(b'a'..b'd', 1..12);
        let repeated = (
            proptest::collection::vec(b'a'..b'c', 1..4),
            1usize..5,
            any::<bool>(),
        )
            .prop_map(|(unit, times, tail)| {
                let mut secret = unit.repeat(times);
                if tail {
                    secret.push(b'c');
                }
                secret
            });
        proptest::collection::vec(prop_oneof![plain, repeated], 1..6)
    }

    /// Text of pieces of the secrets among other letters.
    fn text(secrets: &[Vec<u8>]) -> impl Strategy<Value = Vec<u8>> + use<> {
        let secrets = secrets.to_vec();
        let part = (0..secrets.len(), 0usize..12, 0usize..12).prop_map(move |(index, from, to)| {
            let secret = &secrets[index];
            secret[from.min(secret.len() - 1)..]
                .iter()
                .take(to)
                .copied()
                .collect()
        });
        let noise = proptest::collection::vec(b'a'..b'f', 0..10);
        proptest::collection::vec(prop_oneof![3 => part, 1 => noise], 0..20)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Any text, any secrets, any split.
        #[test]
        fn masking_pieces_equals_masking_the_whole_by_the_rule(
            (secrets, text) in secrets().prop_flat_map(|s| (Just(s.clone()), text(&s))),
            cuts in proptest::collection::vec(0usize..14, 0..20),
        ) {
            let mut masker = Masker::new(Finder::new(secrets.clone()).map(Arc::new));
            let longest = secrets.iter().map(Vec::len).max().unwrap();
            let mut out = Vec::new();
            let mut rest = text.as_slice();
            for cut in cuts.into_iter().chain([text.len()]) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                masker.write(piece, &mut out);
                rest = after;
                prop_assert!(masker.held.bytes().len() < longest);
            }
            masker.close(&mut out);
            prop_assert_eq!(&out, &by_the_rule(&secrets, &text));
            for shown in String::from_utf8(out).unwrap().split("[MASKED]") {
                for secret in &secrets {
                    prop_assert!(!shown.as_bytes().windows(secret.len()).any(|w| w == secret));
                }
            }
        }
    }
}
