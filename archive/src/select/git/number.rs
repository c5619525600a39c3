//! Numbers and truths in a configuration, as git reads them.

/// The largest number of C's `int`.
const MOST: i64 = i32::MAX as i64;

/// A number of C's `int`, with `k`, `m` or `g` behind it; an error is git's word for what is wrong.
pub(super) fn int(text: &[u8]) -> Result<i64, &'static str> {
    let text = text.trim_ascii_start();
    let (minus, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match digits {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => {
            (16, digits.get(2..).unwrap_or_default())
        }
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let mut number: Option<i64> = Some(0);
    let mut rest = digits;
    while let [byte, behind @ ..] = rest
        && let Some(digit) = char::from(*byte).to_digit(base)
    {
        number = number.and_then(|it| it.checked_mul(base.into())?.checked_add(digit.into()));
        rest = behind;
    }
    let factor: i64 = match rest {
        _ if rest.len() == digits.len() => return Err("invalid unit"),
        [] => 1,
        [b'k' | b'K'] => 1 << 10,
        [b'm' | b'M'] => 1 << 20,
        [b'g' | b'G'] => 1 << 30,
        _ if number.is_none() => return Err("out of range"),
        _ => return Err("invalid unit"),
    };
    let number = number.and_then(|it| it.checked_mul(factor));
    match number.filter(|it| *it <= MOST) {
        Some(number) if minus => Ok(-number),
        Some(number) => Ok(number),
        None => Err("out of range"),
    }
}

/// A truth: a variable without a value is true. None if it is none.
pub(super) fn truth(value: Option<&[u8]>) -> Option<bool> {
    let Some(value) = value else {
        return Some(true);
    };
    match value.to_ascii_lowercase().as_slice() {
        b"true" | b"yes" | b"on" => Some(true),
        b"" | b"false" | b"no" | b"off" => Some(false),
        value => int(value).ok().map(|it| it != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_truths_are_read_as_git_does() {
        for (text, wanted) in [
            ("1", Ok(1)),
            (" +7", Ok(7)),
            ("-1", Ok(-1)),
            ("0", Ok(0)),
            ("0x1F", Ok(31)),
            ("010", Ok(8)),
            ("1k", Ok(1024)),
            ("", Err("invalid unit")),
            ("-", Err("invalid unit")),
            ("k", Err("invalid unit")),
            ("1kb", Err("invalid unit")),
            ("0x", Err("invalid unit")),
            ("2147483647", Ok(MOST)),
            ("2147483648", Err("out of range")),
            ("2g", Err("out of range")),
            ("99999999999999999999", Err("out of range")),
        ] {
            assert_eq!(int(text.as_bytes()), wanted, "{text}");
        }
        for (value, wanted) in [
            (None, Some(true)),
            (Some(""), Some(false)),
            (Some("Yes"), Some(true)),
            (Some("oFF"), Some(false)),
            (Some("2"), Some(true)),
            (Some("0k"), Some(false)),
            (Some("maybe"), None),
        ] {
            assert_eq!(truth(value.map(str::as_bytes)), wanted, "{value:?}");
        }
    }
}
