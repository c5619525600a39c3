//! GitLab Runner's feature flags: the table, and what a job sets them to (gitlab-runner, build §5).

use vk_hub_proto::job::variables::{Variables, parse_bool};

/// Every flag with its default, in the order in which a script exports them.
const TABLE: [(&str, bool); 52] = [
    ("FF_TEST_FEATURE", false),
    ("FF_NETWORK_PER_BUILD", false),
    ("FF_USE_LEGACY_KUBERNETES_EXECUTION_STRATEGY", false),
    ("FF_USE_DIRECT_DOWNLOAD", true),
    ("FF_USE_FASTZIP", true),
    ("FF_DISABLE_UMASK_FOR_DOCKER_EXECUTOR", false),
    ("FF_ENABLE_BASH_EXIT_CODE_CHECK", false),
    ("FF_USE_WINDOWS_LEGACY_PROCESS_STRATEGY", false),
    ("FF_USE_LEGACY_BASH_EVAL", false),
    ("FF_USE_POWERSHELL_PATH_RESOLVER", false),
    ("FF_USE_DYNAMIC_TRACE_FORCE_SEND_INTERVAL", false),
    ("FF_SCRIPT_SECTIONS", false),
    ("FF_ENABLE_JOB_CLEANUP", false),
    ("FF_KUBERNETES_HONOR_ENTRYPOINT", false),
    ("FF_POSIXLY_CORRECT_ESCAPES", false),
    ("FF_RESOLVE_FULL_TLS_CHAIN", false),
    ("FF_DISABLE_POWERSHELL_STDIN", false),
    ("FF_USE_POD_ACTIVE_DEADLINE_SECONDS", true),
    ("FF_USE_ADVANCED_POD_SPEC_CONFIGURATION", false),
    ("FF_SECRET_RESOLVING_FAILS_IF_MISSING", true),
    ("FF_PRINT_POD_EVENTS", false),
    ("FF_USE_GIT_BUNDLE_URIS", true),
    ("FF_USE_GIT_NATIVE_CLONE", false),
    ("FF_USE_DUMB_INIT_WITH_KUBERNETES_EXECUTOR", false),
    ("FF_USE_INIT_WITH_DOCKER_EXECUTOR", false),
    ("FF_LOG_IMAGES_CONFIGURED_FOR_JOB", false),
    ("FF_USE_DOCKER_AUTOSCALER_DIAL_STDIO", true),
    ("FF_CLEAN_UP_FAILED_CACHE_EXTRACT", false),
    ("FF_USE_WINDOWS_JOB_OBJECT", false),
    ("FF_TIMESTAMPS", true),
    ("FF_DISABLE_AUTOMATIC_TOKEN_ROTATION", false),
    ("FF_USE_LEGACY_GCS_CACHE_ADAPTER", false),
    ("FF_DISABLE_UMASK_FOR_KUBERNETES_EXECUTOR", false),
    ("FF_USE_LEGACY_S3_CACHE_ADAPTER", false),
    ("FF_GIT_URLS_WITHOUT_TOKENS", false),
    ("FF_WAIT_FOR_POD_TO_BE_REACHABLE", false),
    ("FF_MASK_ALL_DEFAULT_TOKENS", true),
    ("FF_EXPORT_HIGH_CARDINALITY_METRICS", false),
    ("FF_USE_FLEETING_ACQUIRE_HEARTBEATS", false),
    ("FF_USE_EXPONENTIAL_BACKOFF_STAGE_RETRY", true),
    ("FF_USE_ADAPTIVE_REQUEST_CONCURRENCY", true),
    ("FF_USE_GITALY_CORRELATION_ID", true),
    ("FF_USE_GIT_PROACTIVE_AUTH", false),
    ("FF_HASH_CACHE_KEYS", false),
    ("FF_ENABLE_JOB_INPUTS_INTERPOLATION", true),
    ("FF_USE_JOB_ROUTER", false),
    ("FF_SCRIPT_TO_STEP_MIGRATION", false),
    ("FF_USE_PARALLEL_CACHE_TRANSFER", false),
    ("FF_USE_PARALLEL_ARTIFACT_TRANSFER", false),
    ("FF_CONCRETE", false),
    ("FF_SUSPENDABLE_ENVIRONMENTS", false),
    ("FF_USE_NATIVE_CONTAINER_STOP", false),
];

/// The flags that change what this driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureFlag {
    /// `FF_ENABLE_BASH_EXIT_CODE_CHECK`: each command is followed by a check of its exit code.
    BashExitCodeCheck,
    /// `FF_USE_LEGACY_BASH_EVAL`: the script is evaluated behind a pipe instead of in a subshell.
    LegacyBashEval,
    /// `FF_SCRIPT_SECTIONS`: multi-line commands get a collapsed section.
    ScriptSections,
    /// `FF_ENABLE_JOB_CLEANUP`: the last stage cleans the project folder.
    JobCleanup,
    /// `FF_POSIXLY_CORRECT_ESCAPES`: GitLab Runner's defective POSIX quoting.
    PosixEscapes,
    /// `FF_TIMESTAMPS`: the trace's lines are stamped.
    Timestamps,
    /// `FF_MASK_ALL_DEFAULT_TOKENS`: every default token prefix is masked, not only `glpat-`.
    MaskAllDefaultTokens,
    /// `FF_USE_EXPONENTIAL_BACKOFF_STAGE_RETRY`: pauses between attempts double.
    ExponentialBackoffStageRetry,
    /// `FF_USE_GITALY_CORRELATION_ID`: fetches carry a correlation ID, told in a line.
    GitalyCorrelationId,
    /// `FF_USE_DIRECT_DOWNLOAD`: GitLab may send a download on to its object storage.
    DirectDownload,
    /// `FF_HASH_CACHE_KEYS`: caches are found by a digest of their keys as they were written.
    HashCacheKeys,
    /// `FF_CLEAN_UP_FAILED_CACHE_EXTRACT`: what a failed extraction of a cache may have left is removed.
    CleanUpFailedCacheExtract,
}

impl FeatureFlag {
    /// The flag's variable.
    #[must_use]
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BashExitCodeCheck => "FF_ENABLE_BASH_EXIT_CODE_CHECK",
            Self::LegacyBashEval => "FF_USE_LEGACY_BASH_EVAL",
            Self::ScriptSections => "FF_SCRIPT_SECTIONS",
            Self::JobCleanup => "FF_ENABLE_JOB_CLEANUP",
            Self::PosixEscapes => "FF_POSIXLY_CORRECT_ESCAPES",
            Self::Timestamps => "FF_TIMESTAMPS",
            Self::MaskAllDefaultTokens => "FF_MASK_ALL_DEFAULT_TOKENS",
            Self::ExponentialBackoffStageRetry => "FF_USE_EXPONENTIAL_BACKOFF_STAGE_RETRY",
            Self::GitalyCorrelationId => "FF_USE_GITALY_CORRELATION_ID",
            Self::DirectDownload => "FF_USE_DIRECT_DOWNLOAD",
            Self::HashCacheKeys => "FF_HASH_CACHE_KEYS",
            Self::CleanUpFailedCacheExtract => "FF_CLEAN_UP_FAILED_CACHE_EXTRACT",
        }
    }
}

/// What each flag is set to in one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FeatureFlags {
    values: [bool; TABLE.len()],
}

impl Default for FeatureFlags {
    fn default() -> Self {
        Self {
            values: TABLE.map(|(_, default)| default),
        }
    }
}

impl FeatureFlags {
    /// The flags as the job's (expanded) variables set them, and a warning for each that is no boolean. A
    /// runner's own configuration has no say here (dispatch protocol, "Running a job").
    #[must_use]
    pub(super) fn resolve(variables: &Variables) -> (Self, Vec<String>) {
        let mut flags = Self::default();
        let mut warnings = Vec::new();
        for (value, (name, _)) in flags.values.iter_mut().zip(TABLE) {
            let text = variables.value(name);
            match parse_bool(text) {
                Some(set) => *value = set,
                None if text.is_empty() => {}
                None => warnings.push(format!(
                    "{name}: could not parse feature flag, expected bool, got {text}"
                )),
            }
        }
        (flags, warnings)
    }

    /// Whether `flag` is on.
    #[must_use]
    pub(super) fn is_on(&self, flag: FeatureFlag) -> bool {
        self.iter()
            .any(|(name, value)| name == flag.name() && value)
    }

    /// Name and value of every flag, in the table's order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, bool)> {
        TABLE
            .iter()
            .zip(self.values)
            .map(|((name, _), value)| (*name, value))
    }

    /// Name and value of the flags that differ from their defaults, in the table's order.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.iter()
            .zip(TABLE)
            .filter(|((_, value), (_, default))| value != default)
            .map(|(flag, _)| flag)
    }

    /// Whether `key` names a flag; a job's variable of that name is not exported beside the flag.
    #[must_use]
    pub(super) fn is_flag(key: &str) -> bool {
        TABLE.iter().any(|(name, _)| *name == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_hub_proto::job::Variable;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs
            .iter()
            .map(|(key, value)| Variable {
                key: (*key).into(),
                value: (*value).into(),
                ..Variable::default()
            })
            .collect()
    }

    const ALL: [FeatureFlag; 12] = [
        FeatureFlag::BashExitCodeCheck,
        FeatureFlag::LegacyBashEval,
        FeatureFlag::ScriptSections,
        FeatureFlag::JobCleanup,
        FeatureFlag::PosixEscapes,
        FeatureFlag::Timestamps,
        FeatureFlag::MaskAllDefaultTokens,
        FeatureFlag::ExponentialBackoffStageRetry,
        FeatureFlag::GitalyCorrelationId,
        FeatureFlag::DirectDownload,
        FeatureFlag::HashCacheKeys,
        FeatureFlag::CleanUpFailedCacheExtract,
    ];

    #[test]
    fn every_flag_used_is_in_the_table() {
        for flag in ALL {
            assert!(FeatureFlags::is_flag(flag.name()), "{flag:?}");
        }
    }

    /// gitlab-runner, build §5.
    #[test]
    fn a_job_sets_flags_by_gos_booleans_and_the_last_of_two_counts() {
        let (flags, warnings) = FeatureFlags::resolve(&variables(&[
            ("FF_SCRIPT_SECTIONS", "false"),
            ("FF_SCRIPT_SECTIONS", "T"),
            ("FF_TIMESTAMPS", "0"),
            ("FF_HASH_CACHE_KEYS", ""),
        ]));

        assert!(flags.is_on(FeatureFlag::ScriptSections));
        assert!(!flags.is_on(FeatureFlag::Timestamps));
        assert!(warnings.is_empty());
        assert_eq!(
            flags.changed().collect::<Vec<_>>(),
            [("FF_SCRIPT_SECTIONS", true), ("FF_TIMESTAMPS", false)]
        );
    }

    /// gitlab-runner, build §1.5.2.
    #[test]
    fn a_flag_that_is_no_boolean_keeps_its_default_with_a_warning() {
        let (flags, warnings) = FeatureFlags::resolve(&variables(&[("FF_TIMESTAMPS", "yes")]));

        assert!(flags.is_on(FeatureFlag::Timestamps));
        assert_eq!(
            warnings,
            ["FF_TIMESTAMPS: could not parse feature flag, expected bool, got yes"]
        );
    }
}
