//! The settings a job makes through its variables (gitlab-runner, build §4.6).

use vk_hub_proto::job::Secret;
use vk_hub_proto::job::variables::Variables;

use super::parse::Reader;
use vk_sources::Strategy;
use vk_text::quoted;

/// What is done about submodules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubmoduleStrategy {
    /// Nothing.
    None,
    /// Those of the repository itself.
    Normal,
    /// Those of submodules too.
    Recursive,
    /// The setting is none of these: the sources fail with `unknown GIT_SUBMODULE_STRATEGY`.
    Invalid,
}

/// All settings of one job, each with GitLab Runner's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `CI_DEBUG_SERVICES`: whether services' output goes into the trace.
    pub debug_services: bool,
    /// `CI_DEBUG_TRACE`: whether shells print each command they run.
    pub debug_trace: bool,
    /// `GIT_CLONE_PATH`: project folder instead of the usual one; empty for that.
    pub clone_path: String,
    /// `GIT_STRATEGY`.
    pub strategy: Strategy,
    /// `GIT_CHECKOUT`: whether the commit is checked out.
    pub checkout: bool,
    /// `GIT_SUBMODULE_STRATEGY`; none for a strategy without sources.
    pub submodule_strategy: SubmoduleStrategy,
    /// `GIT_SUBMODULE_PATHS`: paths or pathspecs of the submodules wanted; empty for all.
    pub submodule_paths: Vec<String>,
    /// `GIT_SUBMODULE_DEPTH`: commits of history in submodules; 0 or less for all.
    pub submodule_depth: i64,
    /// `GIT_CLEAN_FLAGS`: arguments of `git clean`; empty for no cleaning.
    pub clean_flags: Vec<String>,
    /// `GIT_CLONE_EXTRA_FLAGS`: arguments of a real `git clone`.
    pub clone_extra_flags: Vec<String>,
    /// `GIT_FETCH_EXTRA_FLAGS`: arguments of `git fetch`.
    pub fetch_extra_flags: Vec<String>,
    /// `GIT_SUBMODULE_UPDATE_FLAGS`: arguments of `git submodule update`.
    pub submodule_update_flags: Vec<String>,
    /// `GIT_LFS_SKIP_SMUDGE`: whether LFS files stay pointers.
    pub lfs_skip_smudge: bool,
    /// `GIT_SUBMODULE_FORCE_HTTPS`: whether SSH addresses of the server's submodules become HTTPS.
    pub submodule_force_https: bool,
    /// `GET_SOURCES_ATTEMPTS`, 1 to 10.
    pub get_sources_attempts: u32,
    /// `ARTIFACT_DOWNLOAD_ATTEMPTS`, 1 to 10.
    pub artifact_download_attempts: u32,
    /// `RESTORE_CACHE_ATTEMPTS`, 1 to 10.
    pub restore_cache_attempts: u32,
    /// `AFTER_SCRIPT_IGNORE_ERRORS`: whether a failing after_script leaves the job's result alone.
    pub after_script_ignore_errors: bool,
    /// `CACHE_REQUEST_TIMEOUT`, in minutes.
    pub cache_request_timeout: i64,
    /// `DOCKER_AUTH_CONFIG`: registry logins in Docker's JSON.
    pub docker_auth_config: Secret,
}

impl Settings {
    /// Reads the settings from expanded variables: `allow_fetch` and `depth` are those of the job's sources. The
    /// texts are warnings, in GitLab Runner's order.
    #[must_use]
    pub(crate) fn resolve(
        variables: &Variables,
        allow_fetch: bool,
        depth: u32,
    ) -> (Self, Vec<String>) {
        let mut read = Reader::new(variables);
        let debug_services = read.boolean("CI_DEBUG_SERVICES", false);
        let debug_trace = read.boolean("CI_DEBUG_TRACE", false);
        let strategy = strategy(&mut read, allow_fetch);
        let checkout = read.boolean("GIT_CHECKOUT", true);
        let submodule_strategy = submodule_strategy(&mut read);
        let submodule_depth = read.integer("GIT_SUBMODULE_DEPTH", i64::from(depth));
        let lfs_skip_smudge = read.boolean("GIT_LFS_SKIP_SMUDGE", false);
        let submodule_force_https = read.boolean("GIT_SUBMODULE_FORCE_HTTPS", false);
        let attempts = Attempts::read(&mut read);
        let after_script_ignore_errors = read.boolean("AFTER_SCRIPT_IGNORE_ERRORS", true);
        let cache_request_timeout = read.integer("CACHE_REQUEST_TIMEOUT", 10);
        let attempts = attempts.clamp(&mut read);
        let settings = Self {
            debug_services,
            debug_trace,
            clone_path: read.text("GIT_CLONE_PATH").to_owned(),
            strategy,
            checkout,
            submodule_strategy: if strategy.has_sources() {
                submodule_strategy
            } else {
                SubmoduleStrategy::None
            },
            submodule_paths: read.words("GIT_SUBMODULE_PATHS"),
            submodule_depth,
            clean_flags: read.flags("GIT_CLEAN_FLAGS", &["-ffdx"]),
            clone_extra_flags: read.flags("GIT_CLONE_EXTRA_FLAGS", &[]),
            fetch_extra_flags: read.flags("GIT_FETCH_EXTRA_FLAGS", &["--prune", "--quiet"]),
            submodule_update_flags: read.flags("GIT_SUBMODULE_UPDATE_FLAGS", &[]),
            lfs_skip_smudge,
            submodule_force_https,
            get_sources_attempts: attempts.get_sources,
            artifact_download_attempts: attempts.artifact_download,
            restore_cache_attempts: attempts.restore_cache,
            after_script_ignore_errors,
            cache_request_timeout,
            docker_auth_config: read.text("DOCKER_AUTH_CONFIG").into(),
        };
        (settings, read.warnings)
    }
}

fn strategy(read: &mut Reader<'_>, allow_fetch: bool) -> Strategy {
    let default = if allow_fetch {
        Strategy::Fetch
    } else {
        Strategy::Clone
    };
    match read.text("GIT_STRATEGY") {
        "" => default,
        "clone" => Strategy::Clone,
        "fetch" => Strategy::Fetch,
        "none" => Strategy::None,
        "empty" => Strategy::Empty,
        text => {
            read.warnings.push(format!(
                "GIT_STRATEGY: expected either 'clone', 'fetch', 'none' or 'empty' got {}, \
                 using default value '{}'",
                quoted(text),
                default.name()
            ));
            default
        }
    }
}

fn submodule_strategy(read: &mut Reader<'_>) -> SubmoduleStrategy {
    match read.text("GIT_SUBMODULE_STRATEGY") {
        "" | "none" => SubmoduleStrategy::None,
        "normal" => SubmoduleStrategy::Normal,
        "recursive" => SubmoduleStrategy::Recursive,
        text => {
            read.warnings.push(format!(
                "GIT_SUBMODULE_STRATEGY: expected either 'normal', 'recursive' or 'none' got {}",
                quoted(text)
            ));
            SubmoduleStrategy::Invalid
        }
    }
}

/// The numbers of attempts, read in one order and clamped in another (gitlab-runner, build §1.5.2).
///
/// `EXECUTOR_JOB_SECTION_ATTEMPTS` and `SECRETS_RETRIEVAL_ATTEMPTS` have no use here: they are read for their
/// warnings.
struct Attempts<T> {
    get_sources: T,
    artifact_download: T,
    restore_cache: T,
    executor_job_section: T,
    secrets_retrieval: T,
}

impl Attempts<i64> {
    fn read(read: &mut Reader<'_>) -> Self {
        Self {
            get_sources: read.integer("GET_SOURCES_ATTEMPTS", 1),
            artifact_download: read.integer("ARTIFACT_DOWNLOAD_ATTEMPTS", 1),
            restore_cache: read.integer("RESTORE_CACHE_ATTEMPTS", 1),
            executor_job_section: read.integer("EXECUTOR_JOB_SECTION_ATTEMPTS", 1),
            secrets_retrieval: read.integer("SECRETS_RETRIEVAL_ATTEMPTS", 1),
        }
    }

    fn clamp(self, read: &mut Reader<'_>) -> Attempts<u32> {
        Attempts {
            executor_job_section: read
                .clamped_attempts("EXECUTOR_JOB_SECTION_ATTEMPTS", self.executor_job_section),
            get_sources: read.clamped_attempts("GET_SOURCES_ATTEMPTS", self.get_sources),
            artifact_download: read
                .clamped_attempts("ARTIFACT_DOWNLOAD_ATTEMPTS", self.artifact_download),
            restore_cache: read.clamped_attempts("RESTORE_CACHE_ATTEMPTS", self.restore_cache),
            secrets_retrieval: read
                .clamped_attempts("SECRETS_RETRIEVAL_ATTEMPTS", self.secrets_retrieval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_hub_proto::job::Variable;

    fn resolve(pairs: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let variables = pairs
            .iter()
            .map(|(key, value)| Variable {
                key: (*key).into(),
                value: (*value).into(),
                ..Variable::default()
            })
            .collect();
        Settings::resolve(&variables, true, 20)
    }

    /// gitlab-runner, build §4.6.
    #[test]
    fn an_unset_or_empty_setting_has_its_default() {
        let names = [
            "CI_DEBUG_TRACE",
            "GIT_STRATEGY",
            "GIT_CHECKOUT",
            "GIT_SUBMODULE_STRATEGY",
            "GIT_SUBMODULE_DEPTH",
            "GIT_CLEAN_FLAGS",
            "GIT_FETCH_EXTRA_FLAGS",
            "GET_SOURCES_ATTEMPTS",
            "AFTER_SCRIPT_IGNORE_ERRORS",
            "CACHE_REQUEST_TIMEOUT",
        ];
        let unset = resolve(&[]);
        let empty = resolve(&names.map(|name| (name, "")));

        assert_eq!(unset, empty);
        let (settings, warnings) = unset;
        assert!(warnings.is_empty());
        assert_eq!(
            settings,
            Settings {
                debug_services: false,
                debug_trace: false,
                clone_path: String::new(),
                strategy: Strategy::Fetch,
                checkout: true,
                submodule_strategy: SubmoduleStrategy::None,
                submodule_paths: Vec::new(),
                submodule_depth: 20,
                clean_flags: vec!["-ffdx".into()],
                clone_extra_flags: Vec::new(),
                fetch_extra_flags: vec!["--prune".into(), "--quiet".into()],
                submodule_update_flags: Vec::new(),
                lfs_skip_smudge: false,
                submodule_force_https: false,
                get_sources_attempts: 1,
                artifact_download_attempts: 1,
                restore_cache_attempts: 1,
                after_script_ignore_errors: true,
                cache_request_timeout: 10,
                docker_auth_config: Secret::default(),
            }
        );
    }

    /// gitlab-runner, build §3.2.
    #[test]
    fn without_leave_to_fetch_the_default_strategy_is_clone() {
        let (settings, _) = Settings::resolve(&Variables::default(), false, 0);
        assert_eq!(settings.strategy, Strategy::Clone);
    }

    /// gitlab-runner, build §4.6.
    #[test]
    fn settings_take_what_the_job_says() {
        let (settings, warnings) = resolve(&[
            ("GIT_STRATEGY", "clone"),
            ("GIT_CHECKOUT", "F"),
            ("GIT_SUBMODULE_STRATEGY", "recursive"),
            ("GIT_SUBMODULE_PATHS", " a \t:(exclude)b\n"),
            ("GIT_SUBMODULE_DEPTH", "3"),
            ("GIT_CLEAN_FLAGS", "none"),
            ("GIT_FETCH_EXTRA_FLAGS", "none --all"),
            ("GET_SOURCES_ATTEMPTS", "10"),
            ("AFTER_SCRIPT_IGNORE_ERRORS", "0"),
            ("CI_DEBUG_TRACE", "True"),
        ]);

        assert!(warnings.is_empty());
        assert_eq!(settings.strategy, Strategy::Clone);
        assert!(!settings.checkout);
        assert_eq!(settings.submodule_strategy, SubmoduleStrategy::Recursive);
        assert_eq!(settings.submodule_paths, ["a", ":(exclude)b"]);
        assert_eq!(settings.submodule_depth, 3);
        assert!(settings.clean_flags.is_empty());
        assert_eq!(settings.fetch_extra_flags, ["none", "--all"]);
        assert_eq!(settings.get_sources_attempts, 10);
        assert!(!settings.after_script_ignore_errors);
        assert!(settings.debug_trace);
    }

    /// gitlab-runner, build §1.5.2 and build §3.2.
    #[test]
    fn a_strategy_without_sources_has_no_submodules() {
        for strategy in ["none", "empty"] {
            let (settings, _) = resolve(&[
                ("GIT_STRATEGY", strategy),
                ("GIT_SUBMODULE_STRATEGY", "wrong"),
            ]);
            assert_eq!(settings.submodule_strategy, SubmoduleStrategy::None);
        }
    }

    /// gitlab-runner, build §1.5.2.
    #[test]
    fn bad_settings_are_told_in_the_runners_order() {
        let (settings, warnings) = resolve(&[
            ("SECRETS_RETRIEVAL_ATTEMPTS", "99"),
            ("GET_SOURCES_ATTEMPTS", "0"),
            ("EXECUTOR_JOB_SECTION_ATTEMPTS", "-1"),
            ("RESTORE_CACHE_ATTEMPTS", "x"),
            ("CACHE_REQUEST_TIMEOUT", "1m"),
            ("GIT_SUBMODULE_STRATEGY", "all"),
            ("GIT_CHECKOUT", "yes"),
            ("GIT_STRATEGY", "pull \"x\""),
        ]);

        assert_eq!(
            warnings,
            [
                "GIT_STRATEGY: expected either 'clone', 'fetch', 'none' or 'empty' got \
                 \"pull \\\"x\\\"\", using default value 'fetch'",
                "GIT_CHECKOUT: expected bool got \"yes\", using default value: true",
                "GIT_SUBMODULE_STRATEGY: expected either 'normal', 'recursive' or 'none' got \"all\"",
                "RESTORE_CACHE_ATTEMPTS: expected int got \"x\", using default value: 1",
                "CACHE_REQUEST_TIMEOUT: expected int got \"1m\", using default value: 10",
                "EXECUTOR_JOB_SECTION_ATTEMPTS: number of attempts out of the range [1, 10], \
                 clamping to: 1",
                "GET_SOURCES_ATTEMPTS: number of attempts out of the range [1, 10], clamping to: 1",
                "SECRETS_RETRIEVAL_ATTEMPTS: number of attempts out of the range [1, 10], \
                 clamping to: 10",
            ]
        );
        assert_eq!(settings.submodule_strategy, SubmoduleStrategy::Invalid);
        assert_eq!(settings.get_sources_attempts, 1);
        assert_eq!(settings.restore_cache_attempts, 1);
    }
}
