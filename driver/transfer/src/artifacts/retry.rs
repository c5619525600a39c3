//! When a call to GitLab is made again (gitlab-runner, wire §1.3: `network/retry_requester.go`).

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use vk_http::RetryAfter;

/// Requests of one call at most.
pub(super) const ATTEMPTS: u32 = 5;

/// The header that names the moment from which GitLab takes requests again.
const RESET_TIME: &str = "ratelimit-resettime";

/// First pause, and the unit of the later ones.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause that the server did not ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whether an answer with `status` may be better the next time.
pub(super) fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504 | 512..)
}

/// How long to wait after the `failed`-th request (from 1) with an answer that has `headers`. `jitter` is a random
/// number from 0 to 1.
pub(super) fn pause(headers: &HeaderMap, failed: u32, now: SystemTime, jitter: f64) -> Duration {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let reset = text(RESET_TIME)
        .and_then(|text| httpdate::parse_http_date(text).ok())
        .and_then(|at| at.duration_since(now).ok())
        .filter(|pause| !pause.is_zero());
    let asked = || {
        match RetryAfter::parse(text(RETRY_AFTER.as_str())?)? {
            RetryAfter::Pause(pause) => Some(pause).filter(|pause| !pause.is_zero()),
            // GitLab Runner reads seconds only.
            RetryAfter::At(_) => None,
        }
    };
    reset
        .or_else(asked)
        .unwrap_or_else(|| backoff(failed, jitter))
}

/// From the unit up to the unit times two to the power of the failures before.
fn backoff(failed: u32, jitter: f64) -> Duration {
    let factor = 2_u32
        .checked_pow(failed.saturating_sub(1))
        .unwrap_or(u32::MAX);
    let longest = FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
    FIRST_PAUSE + (longest - FIRST_PAUSE).mul_f64(jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    reqwest::header::HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// gitlab-runner, wire §1.3.
    #[test]
    fn the_statuses_tried_again_are_gitlab_runners() {
        let passing: Vec<u16> = (200..520)
            .filter(|status| is_passing(StatusCode::from_u16(*status).unwrap()))
            .collect();
        let mut expected = vec![408, 429, 500, 502, 503, 504];
        expected.extend(512..520);
        assert_eq!(passing, expected);
    }

    /// gitlab-runner, wire §1.3.
    #[test]
    fn a_server_that_names_a_time_is_waited_for() {
        let now = at(1_445_412_470);
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        let pause = |pairs: &[(&'static str, &str)]| pause(&headers(pairs), 1, now, 0.5);
        assert_eq!(
            pause(&[("ratelimit-resettime", date), ("retry-after", "3")]),
            Duration::from_secs(10)
        );
        assert_eq!(pause(&[("retry-after", "3")]), Duration::from_secs(3));
        // Past, not a number, or nothing: the usual pause.
        for bad in [
            ("ratelimit-resettime", "Wed, 21 Oct 2015 07:27:00 GMT"),
            ("ratelimit-resettime", "Wed, 21 Oct 2015 07:28:00 CET"),
            ("retry-after", date),
            ("retry-after", "0"),
        ] {
            assert_eq!(pause(&[bad]), Duration::from_millis(100), "{bad:?}");
        }
    }

    proptest! {
        /// gitlab-runner, wire §1.3.
        #[test]
        fn pauses_grow_within_their_bounds(failed in 1_u32..100, jitter in 0.0..=1.0) {
            let pause = backoff(failed, jitter);
            prop_assert!(pause >= FIRST_PAUSE);
            prop_assert!(pause <= LONGEST_PAUSE);
            if failed < 9 {
                prop_assert!(pause <= FIRST_PAUSE * 2_u32.pow(failed - 1));
            }
        }

        #[test]
        fn no_header_breaks_the_pause(text in "[ -~]{0,40}", failed in 1_u32..10) {
            pause(&headers(&[("retry-after", &text), ("ratelimit-resettime", &text)]), failed, at(0), 0.0);
        }
    }
}
