//! How long a server asks to be left alone.

use std::time::{Duration, SystemTime};

/// What `Retry-After` says (RFC 9110, section 10.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// After so long.
    Pause(Duration),
    /// From then on.
    At(SystemTime),
}

impl RetryAfter {
    /// Reads the header's value; `None` if it is neither a number of seconds nor a date.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let value = value.trim();
        // Not `parse` alone, which takes a sign.
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(Self::Pause(Duration::from_secs(value.parse().ok()?)));
        }
        httpdate::parse_http_date(value).ok().map(Self::At)
    }

    /// How long it is until then at `now`: nothing if the time is over.
    #[must_use]
    pub fn pause(self, now: SystemTime) -> Duration {
        match self {
            Self::Pause(pause) => pause,
            Self::At(time) => time.duration_since(now).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_nothing_else() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_470);
        let pause = |value| Some(RetryAfter::parse(value)?.pause(now));

        assert_eq!(pause("17"), Some(Duration::from_secs(17)));
        assert_eq!(pause(" 0 "), Some(Duration::ZERO));
        assert_eq!(
            pause("Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(Duration::from_secs(10))
        );
        // RFC 9110, section 5.6.7: the older forms are read, too.
        assert_eq!(
            pause("Wednesday, 21-Oct-15 07:28:00 GMT"),
            Some(Duration::from_secs(10))
        );
        assert_eq!(
            pause("Wed, 21 Oct 2015 07:27:00 GMT"),
            Some(Duration::ZERO),
            "a time that is over"
        );
        for bad in ["", "-1", "+1", "1.5", "soon", "99999999999999999999"] {
            assert_eq!(RetryAfter::parse(bad), None, "{bad}");
        }
    }
}
