//! Quoting for the shell (gitlab-runner, build §2.3).

use std::fmt::Write;

/// How text becomes one word of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// bash's `$'…'`, GitLab Runner's default.
    AnsiC,
    /// GitLab Runner's `FF_POSIXLY_CORRECT_ESCAPES` (gitlab-runner, build §2.3.2): leaves `;`, `'` and line breaks
    /// unquoted, a known defect.
    PosixEscapes,
    /// `'…'`, right in every shell; for images without bash.
    Single,
}

impl Quoting {
    /// `text` as one word.
    pub(super) fn quote(self, text: &str) -> String {
        if text.is_empty() {
            return "''".to_owned();
        }
        match self {
            Self::AnsiC => ansi_c(text),
            Self::PosixEscapes => posix_escapes(text),
            Self::Single => single(text),
        }
    }
}

/// Bytes that need no quotes (gitlab-runner, build §2.3.1).
fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b',' | b'-' | b'.' | b'/' | b'@' | b'_')
}

fn ansi_c(text: &str) -> String {
    if text.bytes().all(is_literal) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + text.len() / 8 + 3);
    quoted.push_str("$'");
    for byte in text.bytes() {
        match byte {
            0x07 => quoted.push_str("\\a"),
            0x08 => quoted.push_str("\\b"),
            b'\t' => quoted.push_str("\\t"),
            b'\n' => quoted.push_str("\\n"),
            0x0b => quoted.push_str("\\v"),
            0x0c => quoted.push_str("\\f"),
            b'\r' => quoted.push_str("\\r"),
            b'\'' => quoted.push_str("\\'"),
            b'\\' => quoted.push_str("\\\\"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => push_hex(&mut quoted, byte),
        }
    }
    quoted.push('\'');
    quoted
}

fn push_hex(text: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

fn posix_escapes(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    let mut needs_quotes = false;
    for character in text.chars() {
        match character {
            '`' | '"' | '\\' | '$' => {
                needs_quotes = true;
                escaped.push('\\');
            }
            ' ' | '!' | '#' | '%' | '&' | '(' | ')' | '*' | '<' | '=' | '>' | '?' | '[' | '|' => {
                needs_quotes = true;
            }
            _ => {}
        }
        escaped.push(character);
    }
    if needs_quotes {
        format!("\"{escaped}\"")
    } else {
        escaped
    }
}

fn single(text: &str) -> String {
    if text.bytes().all(is_literal) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, build §2.3.1.
    #[test]
    fn ansi_c_quotes_bytes_as_the_facts_say() {
        let cases = [
            ("", "''"),
            ("aZ09,-./@_", "aZ09,-./@_"),
            (" ", "$' '"),
            ("!\"#$%&()*+:;<=>?[]^`{|}~", "$'!\"#$%&()*+:;<=>?[]^`{|}~'"),
            ("\x07\x08\t\n\x0b\x0c\r", "$'\\a\\b\\t\\n\\v\\f\\r'"),
            ("it's \\", "$'it\\'s \\\\'"),
            ("\x1b[0m\x7f\x01", "$'\\x1b[0m\\x7f\\x01'"),
            ("é", "$'\\xc3\\xa9'"),
        ];
        for (text, expected) in cases {
            assert_eq!(Quoting::AnsiC.quote(text), expected, "{text:?}");
        }
    }

    /// gitlab-runner, build §2.3.2.
    #[test]
    fn posix_escapes_keep_their_defects() {
        let cases = [
            ("", "''"),
            ("a b", "\"a b\""),
            ("a;b", "a;b"),
            ("it's", "it's"),
            ("l1\nl2", "l1\nl2"),
            ("{}~^]+:", "{}~^]+:"),
            ("é", "é"),
            ("`\"\\$", "\"\\`\\\"\\\\\\$\""),
            ("!#%&()*<=>?[|", "\"!#%&()*<=>?[|\""),
        ];
        for (text, expected) in cases {
            assert_eq!(Quoting::PosixEscapes.quote(text), expected, "{text:?}");
        }
    }

    #[test]
    fn single_quotes_hold_everything() {
        let cases = [
            ("", "''"),
            ("plain-1.2/x_@,", "plain-1.2/x_@,"),
            ("$HOME `x` \\n\n", "'$HOME `x` \\n\n'"),
            ("it's", "'it'\\''s'"),
            ("~", "'~'"),
        ];
        for (text, expected) in cases {
            assert_eq!(Quoting::Single.quote(text), expected, "{text:?}");
        }
    }
}
