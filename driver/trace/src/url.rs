//! Hides the values of sensitive URL parameters.
//!
//! gitlab-runner, build §6.3: behind `?` or `&`, one of [`NAMES`] in any case and `=`, everything up to the
//! next `?`, `&`, white space or control character becomes one `[MASKED]`, an empty value too. It
//! takes no URL around it. GitLab Runner writes the mask when the value ends, this filter when it
//! begins: the text is the same, nothing is held back.

use super::sink::Sink;

/// The parameters whose values are hidden (gitlab-runner, build §6.3).
const NAMES: [&str; 6] = [
    "private_token",
    "authenticity_token",
    "rss_token",
    "x-amz-signature",
    "x-amz-credential",
    "x-amz-security-token",
];

/// The filter of one stream.
#[derive(Default)]
pub(super) struct UrlState {
    place: Place,
}

#[derive(Default)]
enum Place {
    /// Outside a parameter.
    #[default]
    Text,
    /// Behind a separator.
    Name(Name),
    /// Within a value, with what may be the beginning of a character that ends it.
    Value(Partial),
}

/// What was read of a name.
#[derive(Clone, Copy)]
struct Name {
    /// A bit for each of [`NAMES`] that begins so.
    matching: u8,
    len: usize,
}

impl Default for Name {
    fn default() -> Name {
        Name {
            matching: (1 << NAMES.len()) - 1,
            len: 0,
        }
    }
}

impl Name {
    /// The name with one more byte, unless no name begins so.
    fn with(self, byte: u8) -> Option<Name> {
        let byte = byte.to_ascii_lowercase();
        let matching = self.those(|name| name.as_bytes().get(self.len) == Some(&byte));
        (matching != 0).then_some(Name {
            matching,
            len: self.len + 1,
        })
    }

    fn is_sensitive(self) -> bool {
        self.those(|name| name.len() == self.len) != 0
    }

    /// The bits of the names that begin so and pass `test`.
    fn those(self, test: impl Fn(&str) -> bool) -> u8 {
        let names = NAMES.iter().enumerate().filter(|(_, name)| test(name));
        names.fold(0, |bits, (index, _)| bits | 1 << index) & self.matching
    }
}

/// The first bytes of a character of several.
#[derive(Clone, Copy, Default)]
struct Partial {
    bytes: [u8; 3],
    len: usize,
}

/// What a byte of a value turns out to be.
enum Step {
    /// Part of the value.
    Hidden,
    /// Maybe the start of a character that ends the value.
    More(Partial),
    /// The last byte of the character that ends it.
    End,
}

impl Partial {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn step(mut self, byte: u8) -> Step {
        if self.len == 0 && byte.is_ascii() {
            let ends = matches!(byte, b'?' | b'&' | b' ') || byte.is_ascii_control();
            return if ends { Step::End } else { Step::Hidden };
        }
        let Some(slot) = self.bytes.get_mut(self.len) else {
            return Step::Hidden;
        };
        *slot = byte;
        self.len += 1;
        // White space and control characters have three bytes at most.
        match std::str::from_utf8(self.bytes()) {
            Ok(text) if text.chars().all(|c| c.is_whitespace() || c.is_control()) => Step::End,
            Err(error) if error.error_len().is_none() && self.len < 3 => Step::More(self),
            _ if self.len > 1 && byte.is_ascii() => Partial::default().step(byte),
            _ if self.len > 1 && byte >= 0xc0 => Partial::default().step(byte),
            _ => Step::Hidden,
        }
    }
}

/// The filter with what comes behind it, for one write.
pub(super) struct UrlFilter<'a, S> {
    pub(super) state: &'a mut UrlState,
    pub(super) next: S,
}

impl<S: Sink> Sink for UrlFilter<'_, S> {
    fn text(&mut self, text: &[u8]) {
        let mut shown = 0;
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match &mut self.state.place {
                Place::Text => {
                    match memchr::memchr2(b'?', b'&', text.get(at..).unwrap_or_default()) {
                        Some(skip) => {
                            self.state.place = Place::Name(Name::default());
                            at += skip + 1;
                        }
                        None => at = text.len(),
                    }
                }
                Place::Name(name) => {
                    at += 1;
                    if byte == b'=' && name.is_sensitive() {
                        self.next.text(text.get(shown..at).unwrap_or_default());
                        self.next.mask();
                        shown = at;
                        self.state.place = Place::Value(Partial::default());
                    } else if matches!(byte, b'?' | b'&') {
                        *name = Name::default();
                    } else {
                        self.state.place = name.with(byte).map_or(Place::Text, Place::Name);
                    }
                }
                Place::Value(partial) => {
                    let before = *partial;
                    match before.step(byte) {
                        Step::Hidden => *partial = Partial::default(),
                        Step::More(more) => *partial = more,
                        Step::End => {
                            // The character may have begun in an earlier write.
                            let len = if byte.is_ascii() { 1 } else { before.len + 1 };
                            shown = (at + 1).saturating_sub(len);
                            if len > at + 1 {
                                let earlier = before.bytes().get(..len - at - 1);
                                self.next.text(earlier.unwrap_or_default());
                            }
                            self.state.place = match byte {
                                b'?' | b'&' => Place::Name(Name::default()),
                                _ => Place::Text,
                            };
                        }
                    }
                    at += 1;
                    if matches!(self.state.place, Place::Value(_)) {
                        shown = at;
                    }
                }
            }
        }
        if shown < text.len() {
            self.next.text(text.get(shown..).unwrap_or_default());
        }
    }

    fn mask(&mut self) {
        match self.state.place {
            // A secret within a value vanishes into the value's one mask.
            Place::Value(_) => self.state.place = Place::Value(Partial::default()),
            _ => {
                self.state.place = Place::Text;
                self.next.mask();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(pieces: &[&[u8]]) -> Vec<u8> {
        let mut state = UrlState::default();
        let mut out = Vec::new();
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            UrlFilter {
                state: &mut state,
                next: Recorder(&mut out),
            }
            .text(piece);
        }
        out
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

    /// Filters `text`, in which `|` marks where it is cut into writes.
    fn filter_text(text: &str) -> String {
        let pieces: Vec<_> = text.split('|').map(str::as_bytes).collect();
        String::from_utf8(filter(&pieces)).unwrap()
    }

    /// gitlab-runner, wire §8.6; golden job 11.
    #[test]
    fn hides_the_values_that_gitlab_runner_hides() {
        for (text, expected) in [
            ("http://x/?test=foobar", "http://x/?test=foobar"),
            (
                "?this-is-a-really-really-long-key-name=foobar",
                "?this-is-a-really-really-long-key-name=foobar",
            ),
            (
                "&private_token=hello &?x-amz-security-token=hello ?x-amz-security?x-amz-security-token=hello",
                "&private_token=[MASKED] &?x-amz-security-token=[MASKED] ?x-amz-security?x-amz-security-token=[MASKED]",
            ),
            (
                "?private_token=deadbeef at start",
                "?private_token=[MASKED] at start",
            ),
            (
                "in ?authenticity_token=deadbeef middle",
                "in ?authenticity_token=[MASKED] middle",
            ),
            ("at end ?rss_token=deadbeef", "at end ?rss_token=[MASKED]"),
            ("?X-AMZ-sigNATure=deadbeef", "?X-AMZ-sigNATure=[MASKED]"),
            (
                "?rss_token=hide&x-amz-credential=deadbeef both",
                "?rss_token=[MASKED]&x-amz-credential=[MASKED] both",
            ),
            (
                "?x-amz-cred|ential=abcdefghij|klm",
                "?x-amz-credential=[MASKED]",
            ),
            (
                "?x-amz-credential=abc\n?rss_token=d\u{8}&rss_token=e",
                "?x-amz-credential=[MASKED]\n?rss_token=[MASKED]\u{8}&rss_token=[MASKED]",
            ),
            (
                "rss_token=notmasked ?rss_token=!@#$A&x-amz-credential=abc&test=test",
                "rss_token=notmasked ?rss_token=[MASKED]&x-amz-credential=[MASKED]&test=test",
            ),
            (
                "?x-amz-credential=&private_token=gitlab",
                "?x-amz-credential=[MASKED]&private_token=[MASKED]",
            ),
            (
                "?x-amz-credential=abc&&private_token=g ?x-amz-credential=abc??private_token=g",
                "?x-amz-credential=[MASKED]&&private_token=[MASKED] ?x-amz-credential=[MASKED]??private_token=[MASKED]",
            ),
            ("|&|x-amz-cre|dential=abc", "&x-amz-credential=[MASKED]"),
            ("|?||x-amz-cre|dential=abc", "?x-amz-credential=[MASKED]"),
            (
                "?|one ?x-amz-credential=abc two=three ?|one=two &token &x-amz-credential=abc =token ?=",
                "?one ?x-amz-credential=[MASKED] two=three ?one=two &token &x-amz-credential=[MASKED] =token ?=",
            ),
            ("ends with ?x", "ends with ?x"),
            ("ends with ?x|-", "ends with ?x-"),
            ("ends with ?x-|", "ends with ?x-"),
            (
                "ends with ?x-amz-credential=",
                "ends with ?x-amz-credential=[MASKED]",
            ),
            (
                "ends with ?x-amz-credential=|",
                "ends with ?x-amz-credential=[MASKED]",
            ),
            (
                "https://s3.test/x?X-Amz-Signa|ture=abc&y=1\n",
                "https://s3.test/x?X-Amz-Signature=[MASKED]&y=1\n",
            ),
            ("?password=p%20q#frag", "?password=p%20q#frag"),
            ("?rss_token=a\u{1b}[0m", "?rss_token=[MASKED]\u{1b}[0m"),
        ] {
            assert_eq!(filter_text(text), expected, "{text:?}");
        }
    }

    /// gitlab-runner, build §6.3.
    #[test]
    fn long_value_is_one_mask() {
        let text = format!("?rss_token={} that is still scrubbed", "0".repeat(8192));
        assert_eq!(
            filter_text(&text),
            "?rss_token=[MASKED] that is still scrubbed"
        );
    }

    #[test]
    fn unicode_space_ends_a_value_and_other_letters_do_not() {
        assert_eq!(
            filter_text("?rss_token=é€😀x\u{3000}y"),
            "?rss_token=[MASKED]\u{3000}y"
        );
        assert_eq!(
            filter_text("?rss_token=é\u{85}y"),
            "?rss_token=[MASKED]\u{85}y"
        );
    }

    #[test]
    fn space_of_several_bytes_cut_in_two_still_ends_a_value() {
        let pieces = [b"?rss_token=a".as_slice(), b"b\xe3", b"\x80", b"\x80y"];
        assert_eq!(filter(&pieces), "?rss_token=[MASKED]\u{3000}y".as_bytes());
    }

    #[test]
    fn broken_character_does_not_hide_the_end_of_a_value() {
        assert_eq!(filter(&[b"?rss_token=a\xe3 b"]), b"?rss_token=[MASKED] b");
        assert_eq!(
            filter(&[b"?rss_token=a\xe3\xc2\x85b"]),
            b"?rss_token=[MASKED]\xc2\x85b"
        );
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just(b"?rss_token=".to_vec()),
                    Just(b"&X-amz-credential=".to_vec()),
                    Just("\u{a0}".into()),
                    Just("\u{2028}€".into()),
                    Just(b"?".to_vec()),
                    proptest::collection::vec(any::<u8>(), 0..4),
                    proptest::collection::vec(b'a'..=b'z', 0..4),
                ],
                0..20,
            ),
            cuts in proptest::collection::vec(0usize..9, 0..30),
        ) {
            let text = parts.concat();
            let mut rest = text.as_slice();
            let mut pieces = Vec::new();
            for cut in cuts.into_iter().chain([text.len()]) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(filter(&pieces), filter(&[&text]));
        }
    }
}
