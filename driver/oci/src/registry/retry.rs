//! When a request that failed is tried again.
//!
//! Failures make a series, which lasts until enough has come over later connections: [`PROGRESS`] bytes, and as many as
//! [`RetryPolicy::least_rate`] gives for the time since the first failure, pauses included. Until then the patience of
//! the policy runs, and what comes lengthens it by the time that it would have taken at that rate. So a server
//! that breaks off again and again ends after the patience and the time that the bytes take at that rate, however it
//! portions them, and a link that is faster than that on average gets through, however often it breaks.

use std::time::{Duration, Instant};

/// How long each kind of failure is tried again, and with which pauses.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// For a connection that is refused or lost (dispatch protocol, "Caches": 90 seconds).
    pub lost: Duration,
    /// For a registry that answers 503 or 429 (dispatch protocol, "Caches": three minutes).
    pub busy: Duration,
    /// For a host name that is not found: a resolver may be restarting, a name may be mistyped.
    pub unknown_host: Duration,
    /// The first pause; each later one is twice as long.
    pub first_pause: Duration,
    /// The longest pause that the registry did not ask for.
    pub longest_pause: Duration,
    /// What a download that broke off has to bring on average from then on, in bytes a second, for the failures to be
    /// forgotten.
    pub least_rate: u64,
}

/// The least that has to come for failures to be forgotten, in bytes: less is in the buffers of a connection that breaks
/// right away.
pub(crate) const PROGRESS: u64 = 64 << 10;

/// [`RetryPolicy::least_rate`] by default: a twelfth of a link of 50 KiB/s, which three layers of an image, and other
/// jobs, may share. An image of 100 MiB may take seven hours by it, which is beyond a job's time.
const LEAST_RATE: u64 = 4 << 10;

/// How often a doubtful request is made again.
const UNCERTAIN_TRIES: u32 = 3;

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            lost: Duration::from_secs(90),
            busy: Duration::from_secs(180),
            unknown_host: Duration::from_secs(10),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(10),
            least_rate: LEAST_RATE,
        }
    }
}

impl RetryPolicy {
    /// Not at all: for what has somewhere else to turn to.
    pub(crate) fn none() -> Self {
        Self {
            lost: Duration::ZERO,
            busy: Duration::ZERO,
            unknown_host: Duration::ZERO,
            ..Self::default()
        }
    }
}

/// A failure that may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No connection, or no more.
    Lost,
    /// No address for the registry's name.
    UnknownHost,
    /// The registry asks to come back, perhaps after a while.
    Busy { retry_after: Option<Duration> },
    /// What need not pass at all.
    Uncertain,
}

/// The failures of one request so far.
#[derive(Debug)]
pub(crate) struct Retries {
    policy: RetryPolicy,
    /// The first failure of the present series, of any kind.
    series: Option<Instant>,
    /// What came since then, in bytes.
    brought: u64,
    /// First failures of the series by kind.
    lost: Option<First>,
    unknown_host: Option<First>,
    busy: Option<First>,
    uncertain_tries: u32,
    pause: Duration,
}

/// The first failure of a kind.
#[derive(Clone, Copy, Debug)]
struct First {
    at: Instant,
    /// What had come in the series by then, in bytes.
    brought: u64,
}

impl Retries {
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self {
            policy: policy.clone(),
            series: None,
            brought: 0,
            lost: None,
            unknown_host: None,
            busy: None,
            uncertain_tries: 0,
            pause: policy.first_pause,
        }
    }

    /// Some `bytes` came that had not come before. Answers whether all is well: there is no series of failures, or it is
    /// over by now.
    pub(crate) fn brought(&mut self, bytes: u64, now: Instant) -> bool {
        let Some(began) = self.series else {
            return true;
        };
        self.brought = self.brought.saturating_add(bytes);
        let elapsed = now.saturating_duration_since(began);
        let is_over = self.brought >= PROGRESS && self.earned(self.brought) >= elapsed;
        if is_over {
            *self = Self::new(&self.policy);
        }
        is_over
    }

    /// What came since the first failure of the series, in bytes.
    pub(crate) fn brought_since_failure(&self) -> u64 {
        self.brought
    }

    /// The time that `bytes` take at the least rate.
    fn earned(&self, bytes: u64) -> Duration {
        let rate = self.policy.least_rate.max(1);
        let rest = Duration::from_micros((bytes % rate).saturating_mul(1_000_000) / rate);
        Duration::from_secs(bytes / rate).saturating_add(rest)
    }

    fn after_uncertain(&mut self, jitter: f64) -> Option<Duration> {
        // Where nothing is waited for, there is somewhere else to turn to.
        if self.uncertain_tries == UNCERTAIN_TRIES || self.policy.lost.is_zero() {
            return None;
        }
        self.uncertain_tries += 1;
        Some(self.next_pause(jitter))
    }

    /// The next pause that the registry did not ask for.
    fn next_pause(&mut self, jitter: f64) -> Duration {
        let due = self.pause;
        self.pause = (due * 2).min(self.policy.longest_pause);
        due.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }

    /// How long to wait after `trouble` at `now`; `None` when it has lasted long enough. `jitter` is a random number
    /// from 0 to 1, for pauses between half and all of what is due, so that clients do not come back as one.
    pub(crate) fn after(
        &mut self,
        trouble: Trouble,
        now: Instant,
        jitter: f64,
    ) -> Option<Duration> {
        self.series.get_or_insert(now);
        let (first, patience, asked) = match trouble {
            Trouble::Lost => (&mut self.lost, self.policy.lost, None),
            Trouble::UnknownHost => (&mut self.unknown_host, self.policy.unknown_host, None),
            Trouble::Busy { retry_after } => (&mut self.busy, self.policy.busy, retry_after),
            Trouble::Uncertain => return self.after_uncertain(jitter),
        };
        if patience.is_zero() {
            return None;
        }
        let brought = self.brought;
        let first = *first.get_or_insert(First { at: now, brought });
        let earned = self.earned(brought.saturating_sub(first.brought));
        let elapsed = now.saturating_duration_since(first.at);
        let left = patience.saturating_add(earned).checked_sub(elapsed)?;
        if left.is_zero() {
            return None;
        }
        let due = self.pause;
        let pause = self.next_pause(jitter);
        match asked {
            // Coming back early is no use, and coming back that late is not wanted.
            Some(asked) if asked > left => None,
            Some(asked) => Some(asked + due.mul_f64(jitter.clamp(0.0, 1.0) / 2.0)),
            // The last attempt is made when the time is up.
            None => Some(pause.min(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How long `trouble` is tried again in all.
    fn wait_limit(trouble: Trouble, jitter: f64) -> Duration {
        let mut retries = Retries::new(&RetryPolicy::default());
        let start = Instant::now();
        let mut now = start;
        while let Some(pause) = retries.after(trouble, now, jitter) {
            now += pause;
        }
        now - start
    }

    #[test]
    fn a_lost_connection_is_tried_again_for_90_seconds_and_an_unavailable_registry_for_180() {
        for jitter in [0.0, 0.3, 1.0] {
            assert_eq!(wait_limit(Trouble::Lost, jitter), Duration::from_secs(90));
            let busy = Trouble::Busy { retry_after: None };
            assert_eq!(wait_limit(busy, jitter), Duration::from_secs(180));
        }
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut retries = Retries::new(&RetryPolicy::default());
        let now = Instant::now();

        let pauses: Vec<_> = (0..7)
            .map(|_| retries.after(Trouble::Lost, now, 1.0).unwrap().as_millis())
            .collect();

        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
    }

    #[test]
    fn what_is_doubtful_is_tried_a_few_times_and_not_where_there_is_another_place() {
        let tries = |policy: &RetryPolicy| {
            let mut retries = Retries::new(policy);
            let now = Instant::now();
            std::iter::from_fn(|| retries.after(Trouble::Uncertain, now, 0.5)).count()
        };

        assert_eq!(tries(&RetryPolicy::default()), 3);
        assert_eq!(tries(&RetryPolicy::none()), 0);
    }

    #[test]
    fn a_registry_is_not_asked_before_it_wishes() {
        let mut retries = Retries::new(&RetryPolicy::default());
        let retry_after = Some(Duration::from_secs(20));

        let pause = retries
            .after(Trouble::Busy { retry_after }, Instant::now(), 0.5)
            .unwrap();

        assert!(pause >= Duration::from_secs(20), "{pause:?}");
        assert!(pause < Duration::from_secs(21), "{pause:?}");
    }

    #[test]
    fn a_registry_that_wants_more_time_than_there_is_gets_none() {
        let mut retries = Retries::new(&RetryPolicy::default());
        let retry_after = Some(Duration::from_secs(181));

        assert_eq!(
            retries.after(Trouble::Busy { retry_after }, Instant::now(), 0.5),
            None
        );
    }

    #[test]
    fn enough_progress_starts_the_clock_anew() {
        let seconds = Duration::from_secs;
        let start = Instant::now();
        let at_the_end = |bytes: u64, after: Duration| {
            let mut retries = Retries::new(&RetryPolicy::default());
            retries.after(Trouble::Lost, start, 0.0);
            let is_well = retries.brought(bytes, start + after);
            let again = retries.after(Trouble::Lost, start + seconds(89), 0.0);
            assert!(again.is_some(), "patience is not over");
            let much_later = start + seconds(89 + 89);
            (
                is_well,
                retries.after(Trouble::Lost, much_later, 0.0).is_some(),
            )
        };

        assert_eq!(at_the_end(64 << 10, seconds(16)), (true, true));
        assert_eq!(at_the_end((64 << 10) - 1, seconds(1)), (false, false));
        assert_eq!(
            at_the_end(64 << 10, seconds(17)),
            (false, false),
            "too slow"
        );
        assert_eq!(at_the_end(80 * (4 << 10), seconds(80)), (true, true));
    }

    #[test]
    fn what_comes_lengthens_the_patience_by_its_time_at_the_least_rate() {
        let start = Instant::now();
        let mut retries = Retries::new(&RetryPolicy::default());
        retries.after(Trouble::Lost, start, 0.0);
        retries.brought(20 * LEAST_RATE, start + Duration::from_secs(60));

        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(retries.after(Trouble::Lost, at(109), 0.0).is_some());
        assert_eq!(retries.after(Trouble::Lost, at(110), 0.0), None);
    }

    /// The least rate is that of the time from the first failure on, whatever was good before.
    #[test]
    fn what_came_before_the_first_failure_earns_nothing() {
        let start = Instant::now();
        let mut retries = Retries::new(&RetryPolicy::default());
        assert!(retries.brought(10 << 30, start));

        retries.after(Trouble::Lost, start, 0.0);

        assert_eq!(retries.brought_since_failure(), 0);
        let later = start + Duration::from_secs(90);
        assert_eq!(retries.after(Trouble::Lost, later, 0.0), None);
    }

    /// One connection of a download: what it brings, how long that takes, and how it ends.
    type Connection = (u64, Duration, Trouble);

    /// Downloads `size` bytes over `connections`, which come around again: whether it got all, and how long that took.
    fn download(size: u64, connections: &[Connection], jitter: f64) -> (bool, Duration) {
        let mut retries = Retries::new(&RetryPolicy::default());
        let start = Instant::now();
        let (mut now, mut left) = (start, size);
        for &(bytes, time, trouble) in connections.iter().cycle() {
            // In pieces, as connections do it.
            for _ in 0..4 {
                now += time / 4;
                let piece = left.min(bytes / 4);
                left -= piece;
                retries.brought(piece, now);
            }
            if left == 0 {
                return (true, now - start);
            }
            match retries.after(trouble, now, jitter) {
                Some(pause) => now += pause,
                None => return (false, now - start),
            }
        }
        unreachable!("there are connections")
    }

    fn trouble() -> impl Strategy<Value = Trouble> {
        prop_oneof![
            Just(Trouble::Lost),
            Just(Trouble::UnknownHost),
            Just(Trouble::Uncertain),
            (0..200_u64).prop_map(|seconds| Trouble::Busy {
                retry_after: (seconds > 100).then(|| Duration::from_secs(seconds - 100)),
            }),
        ]
    }

    proptest! {
        /// Before a series ends, each kind of failure has its patience and the time of the bytes at the least rate; what
        /// is beside them are connections that bring something after a series ended, and the last of all.
        #[test]
        fn no_server_makes_a_download_last_longer_than_its_size_allows(
            connections in proptest::collection::vec((0..300_000_u64, 0..2000_u64, trouble()), 1..50), jitter in 0.0..1.0,
            size in 1..4_000_000_u64,
        ) {
            let connections: Vec<_> = connections
                .into_iter()
                .map(|(bytes, millis, trouble)| (bytes, Duration::from_millis(millis), trouble))
                .collect();

            let (_, took) = download(size, &connections, jitter);

            let at_the_rate = 3 * size / LEAST_RATE;
            let connected = 2 * (size / PROGRESS + 2);
            let bound = 90 + 10 + 180 + at_the_rate + connected + 10;
            prop_assert!(took <= Duration::from_secs(bound), "{took:?} for {size} bytes, {bound} s allowed");
        }

        /// 64 KiB and not a byte more each time that patience is about to end.
        #[test]
        fn a_server_that_only_just_goes_on_is_given_up(refusals in 8..14_usize, jitter in 0.0..1.0) {
            let mut connections = vec![(0, Duration::from_millis(10), Trouble::Lost); refusals];
            connections.push((PROGRESS, Duration::from_millis(10), Trouble::Lost));

            let (is_whole, took) = download(10 << 30, &connections, jitter);

            prop_assert!(!is_whole);
            prop_assert!(took < Duration::from_secs(24 * 3600), "{took:?}");
        }

        /// Links that bring twice the least rate or more while they stand, for at least ten seconds, and then are gone for a
        /// while, though not for longer than patience lasts, or than they stood before.
        #[test]
        fn honest_links_get_through(
            rate in 2 * LEAST_RATE..50 * LEAST_RATE, stands in proptest::collection::vec((10..300_u64, 0..60_u64), 1..20),
            jitter in 0.0..1.0,
        ) {
            let mut connections = Vec::new();
            for (up, down) in stands {
                connections.push((rate * up, Duration::from_secs(up), Trouble::Lost));
                let down = down.min(up / 2);
                connections.extend(vec![(0, Duration::from_secs(1), Trouble::Lost); usize::try_from(down / 10).unwrap()]);
            }

            let (is_whole, _) = download(100 << 20, &connections, jitter);

            prop_assert!(is_whole);
        }

        #[test]
        fn no_mixture_of_troubles_lasts_longer_than_the_longest_patience(
            kinds in proptest::collection::vec((0..3_u8, 0..200_u64), 1..2000), jitter in 0.0..1.0,
        ) {
            let mut retries = Retries::new(&RetryPolicy::default());
            let start = Instant::now();
            let mut now = start;
            for (kind, seconds) in kinds {
                let trouble = match kind {
                    0 => Trouble::Lost,
                    1 => Trouble::UnknownHost,
                    _ => Trouble::Busy { retry_after: (seconds > 100).then(|| Duration::from_secs(seconds - 100)) },
                };
                let Some(pause) = retries.after(trouble, now, jitter) else { break };
                now += pause;
            }
            // Each kind's clock starts at its first failure, so that they can follow one another.
            prop_assert!(now - start <= Duration::from_secs(90 + 180 + 10 + 30));
        }
    }
}
