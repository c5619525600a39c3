//! Sizes and durations as people write them.

use std::time::Duration;

use crate::parse_duration;

/// A size in bytes: a number, and perhaps `K`, `M`, `G` or `T` (powers of 1024), as in `50G`.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.strip_prefix(digits)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift)
}

/// A duration that is not negative, in Go's notation, as in `90s` or `3m`.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let nanos = u64::try_from(parse_duration(text)?).ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Reads `<n>G` or `<n>M` as MiB; `None` for anything else, and for nothing.
#[must_use]
pub fn memory_mib(text: &str) -> Option<u32> {
    if let Some(gibibytes) = text.strip_suffix('G') {
        return positive(gibibytes)?.checked_mul(1024);
    }
    positive(text.strip_suffix('M')?)
}

/// A whole number of at least 1, in digits only: no sign, no blank.
#[must_use]
pub fn positive(text: &str) -> Option<u32> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse_size("0"), Some(0));
        assert_eq!(parse_size("512K"), Some(512 << 10));
        assert_eq!(parse_size("50G"), Some(50 << 30));
        for text in ["", "G", "5g", "5GB", "-1", "1.5G", "99999999T", "G5"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_not_negative() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("0"), Some(Duration::ZERO));
        assert_eq!(duration("-1s"), None);
        assert_eq!(duration("90"), None);
    }
}
