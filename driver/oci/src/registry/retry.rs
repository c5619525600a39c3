//! When a request that failed is tried again.

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
}

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
    /// First failures since the last success, by kind.
    lost: Option<Instant>,
    unknown_host: Option<Instant>,
    busy: Option<Instant>,
    uncertain_tries: u32,
    pause: Duration,
}

impl Retries {
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self {
            policy: policy.clone(),
            lost: None,
            unknown_host: None,
            busy: None,
            uncertain_tries: 0,
            pause: policy.first_pause,
        }
    }

    /// A request succeeded: the next failure begins a new series.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::new(&self.policy);
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
        let (since, wait_limit, asked) = match trouble {
            Trouble::Lost => (&mut self.lost, self.policy.lost, None),
            Trouble::UnknownHost => (&mut self.unknown_host, self.policy.unknown_host, None),
            Trouble::Busy { retry_after } => (&mut self.busy, self.policy.busy, retry_after),
            Trouble::Uncertain => return self.after_uncertain(jitter),
        };
        let since = *since.get_or_insert(now);
        let left = wait_limit.checked_sub(now.saturating_duration_since(since))?;
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
    fn success_starts_the_clock_anew() {
        let mut retries = Retries::new(&RetryPolicy::default());
        let now = Instant::now();
        retries.after(Trouble::Lost, now, 0.0);
        let later = now + Duration::from_secs(89);

        retries.succeeded();

        assert!(retries.after(Trouble::Lost, later, 0.0).is_some());
        let end = later + Duration::from_secs(89);
        assert!(retries.after(Trouble::Lost, end, 0.0).is_some());
    }

    proptest! {
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
