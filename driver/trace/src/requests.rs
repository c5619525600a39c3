//! Lines by which a running job asks for a value of its own to be hidden: `::add-mask::VALUE`, as GitLab Runner's
//! `proxy-exec` reads them (gitlab-runner, build §2.10).
//!
//! Such a line is no text: it goes no further. What begins like one at a line's start is held until it is known.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::{memchr, memmem, memrchr};

/// How such a line begins.
const MARK: &[u8] = b"::add-mask::";

/// [`MARK`] at the start of any line but a stream's first.
const MARKED_LINE: &[u8] = b"\n::add-mask::";

/// Most bytes of a value that count.
const LONGEST: usize = 64 << 10;

/// Columns at which `base64` breaks lines (GNU coreutils).
const BASE64_COLUMNS: usize = 76;

/// Shortest encoded text that is looked for: shorter ones would hide innocent text.
const SHORTEST_ENCODED: usize = 8;

/// Finds such lines in one stream.
pub(super) struct Requests {
    /// The line so far, if it may be such a line.
    line: Vec<u8>,
    at_line_start: bool,
}

/// What a piece of a stream is made of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Text to go on with.
    Text(Cow<'a, [u8]>),
    /// A value to hide from here on.
    Value(Vec<u8>),
}

impl Requests {
    /// Of a stream that has not begun.
    pub(super) fn new() -> Self {
        Self {
            line: Vec::new(),
            at_line_start: true,
        }
    }

    /// Takes the next part away from `piece`, the stream's next bytes; none once nothing is left that can be told.
    pub(super) fn next<'a>(&mut self, piece: &mut &'a [u8]) -> Option<Part<'a>> {
        loop {
            if piece.is_empty() {
                return None;
            }
            if self.line.len() >= MARK.len() {
                return self.read_value(piece).map(Part::Value);
            }
            if self.line.is_empty() && !self.at_line_start {
                return Some(Part::Text(Cow::Borrowed(self.take_text(piece))));
            }
            self.at_line_start = false;
            let wanted = MARK.get(self.line.len()..).unwrap_or_default();
            let same = wanted
                .iter()
                .zip(*piece)
                .take_while(|(a, b)| a == b)
                .count();
            self.line.extend(take(piece, same));
            if same < wanted.len() && !piece.is_empty() && !self.line.is_empty() {
                return Some(Part::Text(Cow::Owned(std::mem::take(&mut self.line))));
            }
        }
    }

    /// What is left at the stream's end.
    pub(super) fn close(&mut self) -> Option<Part<'static>> {
        let line = std::mem::take(&mut self.line);
        match line.strip_prefix(MARK) {
            Some(value) => Some(Part::Value(value.to_vec())),
            None if line.is_empty() => None,
            None => Some(Part::Text(Cow::Owned(line))),
        }
    }

    /// A value, once its line is whole.
    fn read_value(&mut self, piece: &mut &[u8]) -> Option<Vec<u8>> {
        let end = memchr(b'\n', piece);
        let bytes = take(piece, end.unwrap_or(piece.len()));
        let room = (MARK.len() + LONGEST).saturating_sub(self.line.len());
        self.line.extend(bytes.iter().take(room));
        end?;
        take(piece, 1);
        self.at_line_start = true;
        let line = std::mem::take(&mut self.line);
        Some(line.get(MARK.len()..).unwrap_or_default().to_vec())
    }

    /// Text up to where the next such line begins, or may begin.
    fn take_text<'a>(&mut self, piece: &mut &'a [u8]) -> &'a [u8] {
        let begins = memmem::find(piece, MARKED_LINE).map(|at| at + 1);
        let begins = begins.or_else(|| {
            let from = piece.len().saturating_sub(MARK.len());
            let last = piece.get(from..).unwrap_or_default();
            let start = memrchr(b'\n', last)? + 1;
            MARK.starts_with(last.get(start..)?).then_some(from + start)
        });
        self.at_line_start = begins.is_some();
        take(piece, begins.unwrap_or(piece.len()))
    }
}

/// Takes `count` bytes away from the front of `piece`.
fn take<'a>(piece: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (front, rest) = piece.split_at_checked(count).unwrap_or((piece, &[]));
    *piece = rest;
    front
}

/// The byte strings that a value makes secret: itself without the white space around it, and what `base64` makes of it,
/// with or without a line break behind it, in one line or as many as it takes.
pub(super) fn patterns(value: &[u8]) -> Vec<Vec<u8>> {
    let value = value.trim_ascii();
    let mut patterns = vec![value.to_vec()];
    for end in [&b""[..], b"\n"] {
        let encoded = STANDARD.encode([value, end].concat()).into_bytes();
        let lines: Vec<&[u8]> = encoded.chunks(BASE64_COLUMNS).collect();
        let whole = lines.join(&b'\n');
        let texts = lines.iter().copied().chain([whole.as_slice(), &encoded]);
        patterns.extend(
            texts
                .filter(|text| text.len() >= SHORTEST_ENCODED)
                .map(<[u8]>::to_vec),
        );
    }
    patterns.retain(|pattern| !pattern.is_empty());
    patterns.sort();
    patterns.dedup();
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text and the values of a stream that comes in `pieces`.
    fn read(pieces: &[&[u8]]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut requests = Requests::new();
        let (mut text, mut values) = (Vec::new(), Vec::new());
        let mut note = |part: Part<'_>| match part {
            Part::Text(more) => text.extend_from_slice(&more),
            Part::Value(value) => values.push(value),
        };
        for piece in pieces {
            let mut piece = *piece;
            while let Some(part) = requests.next(&mut piece) {
                note(part);
            }
        }
        if let Some(part) = requests.close() {
            note(part);
        }
        (text, values)
    }

    /// The rule: whole lines that begin with the mark are requests, all else is text.
    fn by_the_rule(text: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (mut kept, mut values) = (Vec::new(), Vec::new());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_prefix(MARK) {
                Some(value) => values.push(value.strip_suffix(b"\n").unwrap_or(value).to_vec()),
                None => kept.extend_from_slice(line),
            }
        }
        (kept, values)
    }

    #[test]
    fn a_line_in_the_middle_of_a_line_is_text() {
        let text = b"x ::add-mask::a\n::add-mask\n :::add-mask::b\n";
        assert_eq!(read(&[text]), (text.to_vec(), vec![]));
    }

    #[test]
    fn a_value_of_any_length_costs_bounded_memory() {
        let mut requests = Requests::new();
        for _ in 0..1000 {
            let mut piece: &[u8] = &[b'x'; 4096];
            if requests.line.is_empty() {
                let mut mark = MARK;
                assert!(requests.next(&mut mark).is_none());
            }
            assert!(requests.next(&mut piece).is_none());
            assert!(requests.line.len() <= MARK.len() + LONGEST);
        }
    }

    #[test]
    fn base64_in_lines_is_looked_for_line_by_line_and_short_ones_are_not() {
        let value = [b's'; 70];
        let encoded = STANDARD.encode(value);
        let patterns = patterns(&value);

        let (first, second) = encoded.split_at(BASE64_COLUMNS);
        for wanted in [&encoded, first, second, &format!("{first}\n{second}")] {
            assert!(patterns.contains(&wanted.as_bytes().to_vec()), "{wanted}");
        }
        assert_eq!(super::patterns(b" ab\r"), [b"ab"]);
        assert_eq!(super::patterns(b" \r"), Vec::<Vec<u8>>::new());
    }

    proptest! {
        #[test]
        fn any_cuts_give_what_the_rule_says(
            lines in proptest::collection::vec(
                prop_oneof![
                    Just("::add-mask::secret\n"), Just("::add-mask::\n"), Just("::add-mask::::add-mask::\n"),
                    Just(":"), Just("::add-"), Just("mask::"), Just("\n"), Just("text"), Just("::add-mask::"),
                ],
                0..12,
            ),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let text = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();

            prop_assert_eq!(read(&pieces), by_the_rule(&text));
        }
    }
}
