//! Failure classes and what GitLab is told of them (gitlab-runner, build §1.10, and wire §1.13).

use serde::{Deserialize, Serialize};

/// Why a job failed, in the dispatch protocol's classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// A step ended with a non-zero exit.
    Script,
    /// The job's time was over.
    Timeout,
    /// An image could not be had.
    ImagePull,
    /// The job asks for what is not supported, or a policy refuses it.
    Configuration,
    /// Sources or artifacts could not be transferred.
    ExternalDependency,
    /// VM, agent or host failed.
    System,
    /// The node was stopped while the job ran.
    Interrupted,
    /// The job was canceled.
    Canceled,
    /// No node could be found in time.
    NoCapacity,
    /// The node was lost.
    Lost,
    /// A class that this build does not know. It counts as [`Failure::System`] where a command ends with it, and GitLab is
    /// told `unknown_failure`.
    #[serde(other)]
    Other,
}

impl Failure {
    /// The reason as a GitLab that knows every reason is told.
    fn reason(self) -> &'static str {
        match self {
            Self::Script => "script_failure",
            Self::Timeout => "job_execution_timeout",
            Self::ImagePull => "image_pull_failure",
            Self::Configuration => "runner_configuration_error",
            Self::ExternalDependency => "runner_external_dependency_failure",
            Self::System | Self::NoCapacity | Self::Lost => "runner_system_failure",
            Self::Interrupted => "runner_interrupted",
            Self::Canceled | Self::Other => UNKNOWN,
        }
    }
}

/// What GitLab Runner sends for a reason the server does not know.
const UNKNOWN: &str = "unknown_failure";

/// Reasons that every supported GitLab knows, whatever it lists (gitlab-runner, build §1.10).
const ALWAYS_KNOWN: [&str; 3] = [
    "script_failure",
    "runner_system_failure",
    "job_execution_timeout",
];

/// The `failure_reason` for GitLab, given the reasons its job response listed in `features.failure_reasons`.
///
/// An older GitLab that lacks the reason gets the one GitLab Runner falls back to.
#[must_use]
pub fn gitlab_failure_reason(failure: Failure, known: &[String]) -> &'static str {
    let is_known = |reason: &str| {
        ALWAYS_KNOWN.contains(&reason) || known.iter().any(|candidate| candidate == reason)
    };
    let reason = failure.reason();
    if is_known(reason) {
        return reason;
    }
    match reason {
        "image_pull_failure" | "runner_external_dependency_failure" => "runner_system_failure",
        "runner_configuration_error" => "script_failure",
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [(Failure, &str, &str); 11] = [
        (Failure::Script, "script_failure", "script_failure"),
        (
            Failure::Timeout,
            "job_execution_timeout",
            "job_execution_timeout",
        ),
        (
            Failure::ImagePull,
            "image_pull_failure",
            "runner_system_failure",
        ),
        (
            Failure::Configuration,
            "runner_configuration_error",
            "script_failure",
        ),
        (
            Failure::ExternalDependency,
            "runner_external_dependency_failure",
            "runner_system_failure",
        ),
        (
            Failure::System,
            "runner_system_failure",
            "runner_system_failure",
        ),
        (
            Failure::Interrupted,
            "runner_interrupted",
            "unknown_failure",
        ),
        (Failure::Canceled, "unknown_failure", "unknown_failure"),
        (
            Failure::NoCapacity,
            "runner_system_failure",
            "runner_system_failure",
        ),
        (
            Failure::Lost,
            "runner_system_failure",
            "runner_system_failure",
        ),
        (Failure::Other, "unknown_failure", "unknown_failure"),
    ];

    /// gitlab-runner, wire §1.13.
    #[test]
    fn a_gitlab_that_knows_all_reasons_gets_the_exact_one() {
        let known: Vec<String> = CLASSES
            .iter()
            .map(|(_, reason, _)| (*reason).to_owned())
            .collect();
        for (failure, reason, _) in CLASSES {
            assert_eq!(
                gitlab_failure_reason(failure, &known),
                reason,
                "{failure:?}"
            );
        }
    }

    /// gitlab-runner, build §1.10, and wire §8.5.
    #[test]
    fn an_older_gitlab_gets_the_fallback() {
        for (failure, _, fallback) in CLASSES {
            assert_eq!(gitlab_failure_reason(failure, &[]), fallback, "{failure:?}");
        }
    }
}
