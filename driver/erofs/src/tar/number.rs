//! The numbers in tar headers.

use super::Time;

/// A header's field: octal digits amid blanks and NULs (none are 0), or, if its first bit is set, a big-endian two's
/// complement number in the other bits (GNU, star).
pub(crate) fn field(bytes: &[u8]) -> Option<i64> {
    match bytes.first() {
        Some(first) if first & 0x80 != 0 => binary(*first, bytes.get(1..)?),
        _ => octal(bytes),
    }
}

fn binary(first: u8, rest: &[u8]) -> Option<i64> {
    // The second bit is the sign; the first only tells the format.
    let start = match first & 0x40 {
        0 => i128::from(first & 0x3f),
        _ => i128::from(first & 0x3f) - 0x40,
    };
    let mut value = start;
    for byte in rest {
        value = (value << 8) | i128::from(*byte);
        i64::try_from(value).ok()?;
    }
    i64::try_from(value).ok()
}

fn octal(bytes: &[u8]) -> Option<i64> {
    let start = bytes.iter().position(|b| !matches!(b, b' ' | 0));
    let rest = bytes.get(start.unwrap_or(bytes.len())..)?;
    let end = rest.iter().position(|b| matches!(b, b' ' | 0));
    let (digits, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let blank = rest.iter().all(|b| matches!(b, b' ' | 0));
    if !blank && rest.first() != Some(&0) {
        return None;
    }
    digits.iter().try_fold(0_i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
        _ => None,
    })
}

/// A whole number of a pax record: decimal digits.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// A time of a pax record: decimal, perhaps negative, perhaps with a fraction, of which nine digits count.
pub(crate) fn time(text: &[u8]) -> Option<Time> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let dot = text.iter().position(|b| *b == b'.');
    let (whole, fraction) = text.split_at(dot.unwrap_or(text.len()));
    let whole = i64::try_from(decimal(whole)?).ok()?;
    let digits = fraction.get(1..).unwrap_or_default();
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanos = (0..9).fold(0, |nanos, at| {
        nanos * 10 + digits.get(at).map_or(0, |digit| u32::from(digit - b'0'))
    });
    Some(match (negative, nanos) {
        (false, nanos) => Time {
            seconds: whole,
            nanos,
        },
        (true, 0) => Time {
            seconds: -whole,
            nanos,
        },
        (true, nanos) => Time {
            seconds: -whole - 1,
            nanos: 1_000_000_000 - nanos,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_fields_may_have_blanks_and_nuls_around_them() {
        for (bytes, value) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"644     ", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"77777777777\0", Some(0o77_777_777_777)),
            (b"000064x\0", None),
            (b"00008\0\0\0", None),
            (b"-000644\0", None),
            (b"64 4\0\0\0\0", None),
        ] {
            assert_eq!(field(bytes), value, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn binary_fields_are_signed() {
        let mut bytes = [0xff; 12];
        assert_eq!(field(&bytes), Some(-1));
        bytes[11] = 0;
        assert_eq!(field(&bytes), Some(-256));

        let mut bytes = [0; 12];
        bytes[0] = 0x80;
        bytes[4..].copy_from_slice(&i64::MAX.to_be_bytes());
        assert_eq!(field(&bytes), Some(i64::MAX));
        bytes[4] = 0x80;
        assert_eq!(field(&bytes), None);
    }

    #[test]
    fn times_have_nanoseconds_and_may_lie_before_1970() {
        let time = |text: &str| time(text.as_bytes()).map(|time| (time.seconds, time.nanos));

        assert_eq!(time("1350244992"), Some((1_350_244_992, 0)));
        assert_eq!(time("1.000000001"), Some((1, 1)));
        assert_eq!(time("1.5"), Some((1, 500_000_000)));
        assert_eq!(time("1.12345678999"), Some((1, 123_456_789)));
        assert_eq!(time("-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time("-3"), Some((-3, 0)));
        for wrong in [
            "",
            "-",
            ".5",
            "1.x",
            "1e3",
            "99999999999999999999",
            "+1",
            "1.-5",
        ] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(time("1."), Some((1, 0)));
    }
}
