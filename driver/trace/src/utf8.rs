//! Makes text valid UTF-8.

/// How many bytes at the end of `text` begin a character that the next bytes may complete, 0 to 3.
pub(super) fn incomplete_tail(text: &[u8]) -> usize {
    for len in 1..=text.len().min(3) {
        let Some(tail @ [first, ..]) = text.get(text.len() - len..) else {
            return 0;
        };
        match first {
            0..0x80 => return 0,
            0x80..0xc0 => {}
            _ => {
                let error = std::str::from_utf8(tail).err();
                return if error.is_some_and(|e| e.error_len().is_none()) {
                    len
                } else {
                    0
                };
            }
        }
    }
    0
}

/// Replaces each invalid byte from `start` on by U+FFFD (gitlab-runner, build §6.6: each byte, not each
/// sequence).
pub(super) fn repair(text: &mut Vec<u8>, start: usize) {
    let Err(error) = std::str::from_utf8(text.get(start..).unwrap_or_default()) else {
        return;
    };
    let broken = text.split_off(start + error.valid_up_to());
    for chunk in broken.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            text.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &[u8]) -> String {
        let mut text = text.to_vec();
        repair(&mut text, 0);
        String::from_utf8(text).unwrap()
    }

    /// Golden job 23; gitlab-runner, wire §8.4.
    #[test]
    fn each_bad_byte_becomes_one_replacement_character() {
        assert_eq!(
            repaired(b"hello a\xfeb a\xffb\n"),
            "hello a\u{fffd}b a\u{fffd}b\n"
        );
        assert_eq!(
            repaired(b"a\xff\xfeb \xc5\xbc \xc5 end"),
            "a\u{fffd}\u{fffd}b ż \u{fffd} end"
        );
        assert_eq!(
            repaired(b"\xe2\x82x\xf0\x9f\x98"),
            "\u{fffd}\u{fffd}x\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(repaired(b"\xed\xa0\x80"), "\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(repaired(b"nul[\0]nul"), "nul[\0]nul");
    }

    #[test]
    fn bytes_before_the_start_are_left_alone() {
        let mut text = b"\xff\xff".to_vec();
        repair(&mut text, 1);
        assert_eq!(text, b"\xff\xef\xbf\xbd");
    }

    #[test]
    fn tail_counts_only_what_can_still_become_a_character() {
        for (text, expected) in [
            (b"abc".as_slice(), 0),
            ("é".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 2),
            (b"a\xf0\x9f\x98", 3),
            (b"a\xff", 0),
            (b"\xe0\x80", 0),
            (b"\x82\x82\x82\x82", 0),
            (b"\xc3a", 0),
            (b"", 0),
        ] {
            assert_eq!(incomplete_tail(text), expected, "{text:x?}");
        }
    }
}
