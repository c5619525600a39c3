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

/// Go's `unicode.IsPrint` as far as the standard library knows: of white space only the ASCII blank is printed.
fn is_printable(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

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
