//! Durations in Go's notation, such as `1h30m` (Go's `time.ParseDuration` and `Duration.String`).

use std::time::Duration;

/// Go counts a duration in a signed 64-bit number of nanoseconds.
const MAX_NANOS: u128 = i64::MAX as u128;

/// A signed duration in Go's notation, in nanoseconds; `None` for a text that is none or too long a time.
#[must_use]
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.split_at_checked(1) {
        Some(("-", rest)) => (true, rest),
        Some(("+", rest)) => (false, rest),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (nanos, behind) = parse_part(rest)?;
        total = total.checked_add(nanos).filter(|sum| *sum <= MAX_NANOS)?;
        rest = behind;
    }
    let total = i64::try_from(total).ok()?;
    Some(if negative { -total } else { total })
}

/// The nanoseconds of one number with its unit, and what stands behind it.
fn parse_part(text: &str) -> Option<(u128, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest
        .find(|character: char| character == '.' || character.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(unit_end)?;
    let unit: u128 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole = if whole.is_empty() {
        0
    } else {
        // The bound keeps the product below u128's.
        whole.parse::<u64>().ok().map(u128::from)?
    };
    Some((whole * unit + fraction_of(fraction, unit), rest))
}

/// `0.fraction` of `unit`; digits beyond the 18th are below a nanosecond of any unit.
fn fraction_of(fraction: &str, unit: u128) -> u128 {
    let digits = fraction.get(..fraction.len().min(18)).unwrap_or_default();
    let scale = 10_u128.pow(u32::try_from(digits.len()).unwrap_or(0));
    digits.parse::<u128>().unwrap_or(0) * unit / scale
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// The duration as Go prints it: `1h0m0s`, `2s`, `1.5s`, `250ms`, `0s`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let below_second = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => Some((1, "ns")),
        1_000..1_000_000 => Some((1_000, "\u{b5}s")),
        1_000_000..1_000_000_000 => Some((1_000_000, "ms")),
        _ => None,
    };
    if let Some((unit, name)) = below_second {
        return format!("{}{name}", decimal(nanos, unit));
    }
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = decimal(nanos % 60_000_000_000, 1_000_000_000);
    if hours > 0 {
        format!("{hours}h{minutes}m{rest}s")
    } else if minutes > 0 {
        format!("{minutes}m{rest}s")
    } else {
        format!("{rest}s")
    }
}

/// `nanos` in units of `unit` (a power of ten) without trailing zeros.
fn decimal(nanos: u128, unit: u128) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", nanos / unit, nanos % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn durations_read_as_in_go() {
        let cases = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("10s", Some(10 * SECOND)),
            ("1h30m", Some(5400 * SECOND)),
            ("250ms", Some(SECOND / 4)),
            ("1.5h", Some(5400 * SECOND)),
            (".5s", Some(SECOND / 2)),
            ("1.s", Some(SECOND)),
            ("-1m", Some(-60 * SECOND)),
            ("+3us", Some(3_000)),
            ("3\u{b5}s", Some(3_000)),
            ("3\u{3bc}s", Some(3_000)),
            ("1ns", Some(1)),
            ("0s", Some(0)),
            ("9223372036s", Some(9_223_372_036 * SECOND)),
            ("9223372037s", None),
            ("99999999999999999999h", None),
            ("", None),
            ("-", None),
            (".", None),
            (".s", None),
            ("10", None),
            ("1x", None),
            ("1 h", None),
            ("1h-2m", None),
            ("1h30", None),
            ("s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_print_as_in_go() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (250_000_000, "250ms"),
            (1_500_000_000, "1.5s"),
            (2_000_000_000, "2s"),
            (60_000_000_000, "1m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (3_661_001_000_000, "1h1m1.001s"),
            (90_000_000_000_000, "25h0m0s"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(nanos in 0..=i64::MAX) {
            let text = format_duration(Duration::from_nanos(nanos.unsigned_abs()));
            prop_assert_eq!(parse_duration(&text), Some(nanos));
        }

        #[test]
        fn any_text_is_read_without_panic(text in "[-+0-9.hmsnuµ]{0,40}") {
            let _ = parse_duration(&text);
        }
    }
}
