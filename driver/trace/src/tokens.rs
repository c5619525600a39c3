//! Hides tokens behind well-known prefixes.
//!
//! gitlab-runner, build §6.4: the prefix stays, the run of [`is_token_byte`] behind it becomes one
//! `[MASKED]`. Unlike GitLab Runner, all prefixes count, not the 15 shortest, and nothing is moved,
//! doubled or missed where writes are cut. Nothing is held back: prefixes are shown anyway.

use std::sync::Arc;

use super::finder::{Cursor, Finder};
use super::sink::Sink;

/// The prefix that is always masked behind (gitlab-runner, build §6.4).
const ALWAYS: &str = "glpat-";

/// The prefixes that `FF_MASK_ALL_DEFAULT_TOKENS` adds (gitlab-runner, build §6.4).
const DEFAULTS: [&str; 13] = [
    "gloas-",
    "gldt-",
    "glrt-",
    "glcbt-",
    "glrtr-",
    "glptt-",
    "glft-",
    "glimt-",
    "glagent-",
    "glsoat-",
    "glffct-",
    "_gitlab_session=",
    "gltok-",
];

/// The prefixes of a job: `extra`, without the white space around them, and the default ones.
pub(super) fn prefixes<'a>(
    extra: impl IntoIterator<Item = &'a str>,
    all_defaults: bool,
) -> Vec<Vec<u8>> {
    let defaults = if all_defaults {
        DEFAULTS.as_slice()
    } else {
        &[]
    };
    let known = [ALWAYS].into_iter().chain(defaults.iter().copied());
    known
        .chain(extra.into_iter().map(str::trim))
        .map(|prefix| prefix.as_bytes().to_vec())
        .collect()
}

/// Whether a token may contain this byte (gitlab-runner, build §6.4).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'=')
}

/// The filter of one stream.
pub(super) struct TokenState {
    finder: Option<Arc<Finder>>,
    cursor: Cursor,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    /// Right behind a prefix.
    Prefix,
    /// Within a token that was replaced.
    Token,
}

impl TokenState {
    pub(super) fn new(finder: Option<Arc<Finder>>) -> TokenState {
        TokenState {
            finder,
            cursor: Cursor::default(),
            place: Place::Text,
        }
    }
}

/// The filter with what comes behind it, for one write.
pub(super) struct TokenFilter<'a, S> {
    pub(super) state: &'a mut TokenState,
    pub(super) next: S,
}

impl<S: Sink> Sink for TokenFilter<'_, S> {
    fn text(&mut self, text: &[u8]) {
        let TokenState {
            finder: Some(finder),
            cursor,
            place,
        } = &mut *self.state
        else {
            self.next.text(text);
            return;
        };
        let mut shown = 0;
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match place {
                Place::Text => match finder.next(cursor, text, at) {
                    Some(found) => {
                        at = found.end;
                        *place = Place::Prefix;
                    }
                    None => at = text.len(),
                },
                Place::Prefix if is_token_byte(byte) => {
                    if shown < at {
                        self.next.text(text.get(shown..at).unwrap_or_default());
                    }
                    self.next.mask();
                    shown = at;
                    *place = Place::Token;
                }
                Place::Prefix => *place = Place::Text,
                // A prefix may end within the token or right behind it: keep looking.
                Place::Token if is_token_byte(byte) => {
                    finder.advance(cursor, byte);
                    at += 1;
                    shown = at;
                }
                Place::Token => *place = Place::Text,
            }
        }
        if shown < text.len() {
            self.next.text(text.get(shown..).unwrap_or_default());
        }
    }

    fn mask(&mut self) {
        // A secret does not end the token around it (gitlab-runner, build §6.4), but no prefix
        // goes on behind it.
        self.state.cursor = Cursor::default();
        self.next.mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(extra: &[&str], all: bool) -> TokenState {
        TokenState::new(Finder::new(prefixes(extra.iter().copied(), all)).map(Arc::new))
    }

    /// Filters `text`, in which `|` marks where it is cut into writes and `#` stands for a secret
    /// that was masked before.
    fn filter(extra: &[&str], text: &str) -> String {
        let mut state = state(extra, true);
        let mut out = Vec::new();
        for piece in text.split('|') {
            for (index, part) in piece.split('#').enumerate() {
                let mut filter = TokenFilter {
                    state: &mut state,
                    next: Recorder(&mut out),
                };
                if index > 0 {
                    filter.mask();
                }
                if !part.is_empty() {
                    filter.text(part.as_bytes());
                }
            }
        }
        String::from_utf8(out).unwrap()
    }

    struct Recorder<'a>(&'a mut Vec<u8>);

    impl Sink for Recorder<'_> {
        fn text(&mut self, text: &[u8]) {
            assert!(!text.is_empty());
            self.0.text(text);
        }

        fn mask(&mut self) {
            self.0.mask();
        }
    }

    /// gitlab-runner, build §6.4 and wire §8.6.
    #[test]
    fn hides_the_tokens_that_gitlab_runner_hides() {
        for (extra, text, expected) in [
            (
                &[] as &[&str],
                "commodo glpat-imperdiet in",
                "commodo glpat-[MASKED] in",
            ),
            (&[], "esseglpat-imperdiet=_-. end", "esseglpat-[MASKED] end"),
            (&[], "glpat-impglpat-erdiet Lorem", "glpat-[MASKED] Lorem"),
            (
                &[],
                "glpat|-imperdiet … gl|pat-imperdiet in",
                "glpat-[MASKED] … glpat-[MASKED] in",
            ),
            (&[], "glpat| -imperdiet Lorem", "glpat -imperdiet Lorem"),
            (&[], "Lorglpat- ipsu", "Lorglpat- ipsu"),
            (&["token-"], "token-imperdiet Lorem", "token-[MASKED] Lorem"),
            (
                &["tok-"],
                "Lortok-ipsu dolor sit amt|ok-t, cons-ctg|lpat-tur stok-|d gltok-test e",
                "Lortok-[MASKED] dolor sit amtok-[MASKED], cons-ctglpat-[MASKED] stok-[MASKED] gltok-[MASKED] e",
            ),
            (&[], "_gitlab_session=abc; x", "_gitlab_session=[MASKED]; x"),
            (&[], "xglpat-abc", "xglpat-[MASKED]"),
            (&[], "glpat-abc#def.", "glpat-[MASKED][MASKED]"),
            (&[], "glpat-# x", "glpat-[MASKED] x"),
        ] {
            assert_eq!(filter(extra, text), expected, "{text:?}");
        }
    }

    /// gitlab-runner, build §6.4: defects of GitLab Runner that are not copied.
    #[test]
    fn loses_no_prefix_moves_and_doubles_nothing() {
        let eleven: Vec<_> = (1..=11).map(|n| format!("mask{n}-")).collect();
        let eleven: Vec<_> = eleven.iter().map(String::as_str).collect();
        assert_eq!(
            filter(&eleven, "mask11-a _gitlab_session=b"),
            "mask11-[MASKED] _gitlab_session=[MASKED]"
        );
        assert_eq!(filter(&[], "glpat#\n"), "glpat[MASKED]\n");
        assert_eq!(filter(&[], "glpat-"), "glpat-");
    }

    #[test]
    fn token_split_behind_its_prefix_is_hidden() {
        assert_eq!(
            filter(&[], "glpat-|aaaaaaaaaa|bbbbbbbbbb\n"),
            "glpat-[MASKED]\n"
        );
        assert_eq!(
            filter(&[], "gl|pat|-aaaaaaaaaabbbbbbbbbb\n"),
            "glpat-[MASKED]\n"
        );
    }

    #[test]
    fn prefix_that_ends_right_behind_a_token_counts() {
        assert_eq!(
            filter(&["tok:"], "glpat-xtok:abc."),
            "glpat-[MASKED]:[MASKED]"
        );
    }

    #[test]
    fn only_glpat_is_masked_behind_without_the_feature_flag() {
        let mut state = state(&[], false);
        let mut out = Vec::new();
        TokenFilter {
            state: &mut state,
            next: Recorder(&mut out),
        }
        .text(b"glrt-a glpat-b");
        assert_eq!(out, b"glrt-a glpat-[MASKED]");
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("glpat-"), Just("tok:"), Just("gl"), Just("abc"), Just(" "), Just("_git"),
                    Just("lab_session="), Just("-"), Just(":"), Just("é"), Just("glrtr-"),
                ],
                0..30,
            ),
            cuts in proptest::collection::vec(0usize..9, 0..30),
        ) {
            let text = parts.concat();
            let mut cut_text = String::new();
            let mut next_cut = cuts.into_iter();
            let mut left = next_cut.next().unwrap_or(usize::MAX);
            for letter in text.chars() {
                if left == 0 {
                    cut_text.push('|');
                    left = next_cut.next().unwrap_or(usize::MAX);
                }
                left = left.saturating_sub(1);
                cut_text.push(letter);
            }
            prop_assert_eq!(filter(&["tok:"], &cut_text), filter(&["tok:"], &text));
        }
    }
}
