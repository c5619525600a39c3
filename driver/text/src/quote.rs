//! Go's `%q` (gitlab-runner, build §0.2).

use std::fmt::Write;

/// Go's `%q`: in double quotes, `"` and `\` escaped, what cannot be printed as an escape; `$` and backtick stay.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if character.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(character));
            }
            _ if is_printable(character) => quoted.push(character),
            _ if u32::from(character) < 0x10000 => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(character));
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Go's `unicode.IsPrint`, but for what Unicode has not assigned: of white space only the ASCII blank is printed, and nothing that
/// formats text or is for private use.
fn is_printable(character: char) -> bool {
    let is_invisible = || INVISIBLE.iter().any(|range| range.contains(&character));
    character == ' ' || !(character.is_control() || character.is_whitespace() || is_invisible())
}

/// Categories Cf and Co of Unicode 15.1 (DerivedGeneralCategory.txt).
const INVISIBLE: [std::ops::RangeInclusive<char>; 24] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{2064}',
    '\u{2066}'..='\u{206f}',
    '\u{e000}'..='\u{f8ff}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0001}'..='\u{e0001}',
    '\u{e0020}'..='\u{e007f}',
    '\u{f0000}'..='\u{ffffd}',
    '\u{100000}'..='\u{10fffd}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_escaped() {
        assert_eq!(
            quoted("a\u{ad}\u{200b}\u{feff}"),
            r#""a\u00ad\u200b\ufeff""#
        );
        assert_eq!(quoted("\u{e000}\u{e0041}"), r#""\ue000\U000e0041""#);
        assert_eq!(quoted("\u{e9}\u{1f388}"), "\"\u{e9}\u{1f388}\"");
    }

    /// gitlab-runner, build §0.2.
    #[test]
    fn go_quotes_leave_the_shells_characters() {
        let cases = [
            ("a $b `c`", "\"a $b `c`\""),
            ("\"\\", "\"\\\"\\\\\""),
            ("\x07\x1b\n\x7f", "\"\\a\\x1b\\n\\x7f\""),
            ("é😀", "\"é😀\""),
            ("\u{85}\u{2028}", "\"\\u0085\\u2028\""),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected, "{text:?}");
        }
    }
}
