//! Pull policies, as GitLab Runner treats them (gitlab-runner, wire §5.2).

use std::fmt;
use std::str::FromStr;

/// When an image is looked for in its registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// Each time.
    Always,
    /// Only if this host does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl PullPolicy {
    const ALL: [Self; 3] = [Self::Always, Self::IfNotPresent, Self::Never];

    /// Its name in jobs and configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::IfNotPresent => "if-not-present",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for PullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Policies as messages show them: Go's form of a list.
pub(crate) fn list(policies: &[PullPolicy]) -> String {
    let names: Vec<_> = policies.iter().map(|policy| policy.name()).collect();
    format!("[{}]", names.join(" "))
}

/// Why no policy applies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has that name.
    #[error("unsupported pull policy \"{0}\": there are always, if-not-present and never")]
    Unknown(String),
    /// None of the policies is allowed. The text is GitLab Runner's.
    #[error(
        "invalid pull policy for image \"{image}\": pull_policy ({}) defined in {origin} is not one of the \
         allowed_pull_policies ({})", list(.policies), list(.allowed)
    )]
    NotAllowed {
        /// The image as it was named.
        image: String,
        /// The policies.
        policies: Vec<PullPolicy>,
        /// Where they are defined.
        origin: &'static str,
        /// Those that are allowed.
        allowed: Vec<PullPolicy>,
    },
}

impl FromStr for PullPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or_else(|| PolicyError::Unknown(text.chars().take(100).collect()))
    }
}

/// What the operator says of policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySettings {
    /// For jobs that name none; empty for the command's own default.
    pub default: Vec<PullPolicy>,
    /// Which ones are allowed. Empty: those of `default`, as under GitLab Runner; if that is empty, too, all.
    pub allowed: Vec<PullPolicy>,
}

impl PolicySettings {
    /// The policies to try for `image`, in order: what the job names, else the configured ones, else `fallback`,
    /// without those that are not allowed.
    ///
    /// # Errors
    ///
    /// If a name is none of a policy, or none of the policies is allowed.
    pub(crate) fn effective(
        &self,
        image: &str,
        job: &[String],
        fallback: PullPolicy,
    ) -> Result<Vec<PullPolicy>, PolicyError> {
        let named: Vec<_> = job
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()?;
        let (policies, origin) = if !named.is_empty() {
            (named, "GitLab pipeline config")
        } else if !self.default.is_empty() {
            (self.default.clone(), "Runner config")
        } else {
            (vec![fallback], "Runner config (default)")
        };
        let allowed = match (self.allowed.as_slice(), self.default.as_slice()) {
            ([], []) => PullPolicy::ALL.to_vec(),
            ([], default) => default.to_vec(),
            (allowed, _) => allowed.to_vec(),
        };
        let effective: Vec<_> = policies
            .iter()
            .copied()
            .filter(|policy| allowed.contains(policy))
            .collect();
        if effective.is_empty() {
            return Err(PolicyError::NotAllowed {
                image: image.to_owned(),
                policies,
                origin,
                allowed,
            });
        }
        Ok(effective)
    }
}

#[cfg(test)]
mod tests {
    use super::PullPolicy::{Always, IfNotPresent, Never};
    use super::*;

    fn effective(settings: &PolicySettings, job: &[&str]) -> Result<Vec<PullPolicy>, String> {
        let job: Vec<_> = job.iter().map(|&name| name.to_owned()).collect();
        settings
            .effective("a:1", &job, Always)
            .map_err(|error| error.to_string())
    }

    fn settings(default: &[PullPolicy], allowed: &[PullPolicy]) -> PolicySettings {
        PolicySettings {
            default: default.to_vec(),
            allowed: allowed.to_vec(),
        }
    }

    #[test]
    fn the_job_decides_before_the_configuration_and_that_before_the_default() {
        let configured = settings(&[IfNotPresent], &[Always, IfNotPresent, Never]);

        assert_eq!(effective(&configured, &["never"]), Ok(vec![Never]));
        assert_eq!(effective(&configured, &[]), Ok(vec![IfNotPresent]));
        assert_eq!(effective(&PolicySettings::default(), &[]), Ok(vec![Always]));
        assert_eq!(
            effective(&PolicySettings::default(), &["never"]),
            Ok(vec![Never])
        );
    }

    #[test]
    fn policies_that_are_not_allowed_are_left_out_in_order() {
        let configured = settings(&[], &[Never, Always]);

        assert_eq!(
            effective(&configured, &["always", "if-not-present", "never"]),
            Ok(vec![Always, Never])
        );
    }

    /// gitlab-runner, wire §5.2.
    #[test]
    fn nothing_left_is_an_error_in_gitlab_runners_words() {
        let text = "invalid pull policy for image \"a:1\": pull_policy ([never]) defined in GitLab pipeline config is \
                    not one of the allowed_pull_policies ([always if-not-present])";
        assert_eq!(
            effective(&settings(&[], &[Always, IfNotPresent]), &["never"]),
            Err(text.to_owned())
        );
        let error = effective(&settings(&[Never], &[Always]), &[]).unwrap_err();
        assert!(error.contains("defined in Runner config is not"), "{error}");
        let error = effective(&settings(&[], &[Never]), &[]).unwrap_err();
        assert!(
            error.contains("defined in Runner config (default) is not"),
            "{error}"
        );
    }

    #[test]
    fn without_a_list_of_allowed_policies_the_configured_ones_are_allowed() {
        assert!(effective(&settings(&[IfNotPresent], &[]), &["always"]).is_err());
    }

    #[test]
    fn a_name_that_is_no_policy_is_refused() {
        let error = effective(&PolicySettings::default(), &["sometimes"]).unwrap_err();

        assert!(error.contains("\"sometimes\""), "{error}");
    }
}
