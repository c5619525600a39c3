//! What a job consists of, as far as the order of its stages depends on it.

use std::time::Duration;

use vk_hub_proto::job::variables::Variables;

use super::stage::Stage;

/// What the stage machine has to know of a job.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The steps in order, `after_script` left out.
    pub(super) steps: Vec<Stage>,
    /// Whether `after_script` has commands.
    pub(super) after_script: bool,
    /// Whether `GIT_SUBMODULE_STRATEGY` is none that exists, so that there can be no sources.
    pub(super) unknown_submodules: bool,
    /// Whether any cache could be restored.
    pub(super) restore_cache: bool,
    /// Whether any earlier job left artifacts for this one.
    pub(super) download_artifacts: bool,
    /// In which case caches are saved.
    pub(super) archive_cache: Cases,
    /// In which case artifacts are uploaded.
    pub(super) upload_artifacts: Cases,
    /// Limit on the whole job.
    pub(super) timeout: Duration,
    /// Where `RUNNER_SCRIPT_TIMEOUT` (one limit for all steps together) and `RUNNER_AFTER_SCRIPT_TIMEOUT` are
    /// read from, once the time that is left is known.
    pub(super) variables: Variables,
    /// Lines to print before the first step.
    pub(super) notices: Vec<String>,
    /// `GET_SOURCES_ATTEMPTS`, at least 1.
    pub(super) get_sources_attempts: u32,
    /// `RESTORE_CACHE_ATTEMPTS`, at least 1.
    pub(super) restore_cache_attempts: u32,
    /// `ARTIFACT_DOWNLOAD_ATTEMPTS`, at least 1.
    pub(super) artifact_download_attempts: u32,
    /// `FF_USE_EXPONENTIAL_BACKOFF_STAGE_RETRY`.
    pub(super) exponential_backoff: bool,
    /// `AFTER_SCRIPT_IGNORE_ERRORS`.
    pub(super) ignore_after_script_errors: bool,
}

/// Whether something is to be done after success and after failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cases {
    /// When the steps succeeded.
    pub(super) on_success: bool,
    /// When the job failed.
    pub(super) on_failure: bool,
}

/// First pause between stage attempts with exponential back-off (gitlab-runner, build §1.5.1).
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause with exponential back-off (gitlab-runner, build §1.5.1).
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// Pauses without exponential back-off double from one second up to this (gitlab-runner, build §1.5.1).
const LONGEST_SHORT_PAUSE: Duration = Duration::from_secs(5);

impl Plan {
    /// The pause after the `failed`-th attempt (from 1) at a stage.
    #[must_use]
    pub(super) fn retry_pause(&self, failed: u32) -> Duration {
        let (first, longest) = if self.exponential_backoff {
            (FIRST_PAUSE, LONGEST_PAUSE)
        } else {
            (Duration::from_secs(1), LONGEST_SHORT_PAUSE)
        };
        let factor = 2_u32
            .checked_pow(failed.saturating_sub(1))
            .unwrap_or(u32::MAX);
        first.saturating_mul(factor).min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(exponential_backoff: bool) -> Vec<u64> {
        let plan = Plan {
            exponential_backoff,
            ..crate::job::order::tests::plan()
        };
        (1..=8)
            .map(|failed| plan.retry_pause(failed).as_secs())
            .collect()
    }

    /// gitlab-runner, build §1.5.1.
    #[test]
    fn exponential_pauses_double_up_to_five_minutes() {
        assert_eq!(pauses(true), [5, 10, 20, 40, 80, 160, 300, 300]);
    }

    /// gitlab-runner, build §1.5.1.
    #[test]
    fn other_pauses_double_up_to_five_seconds() {
        assert_eq!(pauses(false), [1, 2, 4, 5, 5, 5, 5, 5]);
    }
}
