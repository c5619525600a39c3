//! Limits of the steps and of after_script (gitlab-runner, build §1.5.3).

use std::time::Duration;

use vk_hub_proto::job::variables::Variables;
use vk_text::parse_duration;

/// Limits that a job sets to its scripts; its own timeout cuts both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageTimeouts {
    /// `RUNNER_SCRIPT_TIMEOUT`: one budget for all steps together.
    pub script: Option<Duration>,
    /// `RUNNER_AFTER_SCRIPT_TIMEOUT`: from the start of after_script.
    pub after_script: Duration,
}

/// Limit of after_script when the job sets none.
const DEFAULT_AFTER_SCRIPT: Duration = Duration::from_secs(5 * 60);

impl StageTimeouts {
    /// Reads the limits from expanded variables as the first step begins, `remaining` of the job's own time left.
    /// The texts are warnings to print then.
    #[must_use]
    pub(crate) fn resolve(variables: &Variables, remaining: Duration) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let mut read = |name: &str| {
            let text = variables.value(name);
            match limit(text, remaining) {
                Ok(limit) => limit,
                Err(Problem::Malformed) => {
                    warnings.push(format!("Ignoring malformed {name} timeout: {text}"));
                    None
                }
                Err(Problem::Relative) => {
                    warnings.push(format!("Ignoring relative {name} timeout: {text}"));
                    None
                }
                Err(Problem::TooLong) => {
                    warnings.push(format!(
                        "{name} timeout: {text} is longer than job timeout. Setting to job timeout"
                    ));
                    None
                }
            }
        };
        let script = read("RUNNER_SCRIPT_TIMEOUT");
        let after_script = read("RUNNER_AFTER_SCRIPT_TIMEOUT").unwrap_or(DEFAULT_AFTER_SCRIPT);
        let timeouts = Self {
            script,
            after_script,
        };
        (timeouts, warnings)
    }
}

enum Problem {
    Malformed,
    Relative,
    TooLong,
}

/// The limit that `text` sets; `None` for an empty text or zero, which leave the default.
fn limit(text: &str, remaining: Duration) -> Result<Option<Duration>, Problem> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let nanos = parse_duration(text).ok_or(Problem::Malformed)?;
    let limit = u64::try_from(nanos).map_err(|_| Problem::Relative)?;
    match Duration::from_nanos(limit) {
        Duration::ZERO => Ok(None),
        limit if limit > remaining => Err(Problem::TooLong),
        limit => Ok(Some(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_hub_proto::job::Variable;

    const MINUTE: Duration = Duration::from_secs(60);

    fn resolve(script: &str, after_script: &str) -> (StageTimeouts, Vec<String>) {
        let variable = |key: &str, value: &str| Variable {
            key: key.into(),
            value: value.into(),
            ..Variable::default()
        };
        let variables = Variables::new(vec![
            variable("RUNNER_SCRIPT_TIMEOUT", script),
            variable("RUNNER_AFTER_SCRIPT_TIMEOUT", after_script),
        ]);
        StageTimeouts::resolve(&variables, 10 * MINUTE)
    }

    /// gitlab-runner, build §1.5.3.
    #[test]
    fn limits_are_go_durations() {
        let (timeouts, warnings) = resolve("1m", "1m30s");
        assert_eq!(timeouts.script, Some(MINUTE));
        assert_eq!(timeouts.after_script, MINUTE * 3 / 2);
        assert!(warnings.is_empty());
    }

    /// gitlab-runner, build §1.5.3.
    #[test]
    fn empty_and_zero_leave_the_defaults() {
        for text in ["", " ", "0", "0s"] {
            let (timeouts, warnings) = resolve(text, text);
            assert_eq!(timeouts.script, None);
            assert_eq!(timeouts.after_script, DEFAULT_AFTER_SCRIPT);
            assert!(warnings.is_empty());
        }
    }

    /// gitlab-runner, build §1.5.3.
    #[test]
    fn limits_that_cannot_be_are_told_and_ignored() {
        let (timeouts, warnings) = resolve("soon", "-1s");
        assert_eq!(timeouts.script, None);
        assert_eq!(timeouts.after_script, DEFAULT_AFTER_SCRIPT);
        assert_eq!(
            warnings,
            [
                "Ignoring malformed RUNNER_SCRIPT_TIMEOUT timeout: soon",
                "Ignoring relative RUNNER_AFTER_SCRIPT_TIMEOUT timeout: -1s",
            ]
        );
    }

    /// gitlab-runner, build §1.5.3.
    #[test]
    fn a_limit_beyond_the_jobs_own_leaves_the_default() {
        let (timeouts, warnings) = resolve("11m", "11m");
        assert_eq!(timeouts.script, None);
        assert_eq!(timeouts.after_script, DEFAULT_AFTER_SCRIPT);
        assert_eq!(
            warnings,
            [
                "RUNNER_SCRIPT_TIMEOUT timeout: 11m is longer than job timeout. Setting to job timeout",
                "RUNNER_AFTER_SCRIPT_TIMEOUT timeout: 11m is longer than job timeout. \
                 Setting to job timeout",
            ]
        );
    }
}
