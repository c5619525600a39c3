//! The full list of a job's variables and what follows from it (gitlab-runner, build §4.1 and build §4.2).

use std::fmt;

use vk_hub_proto::job::{CiJob, Secret, Variable, variables::Variables};

use super::dirs::{DirsError, JobDirs};
use crate::job::feature_flags::{FeatureFlag, FeatureFlags};
use crate::job::settings::Settings;

/// What a relay puts before the job's own variables (dispatch protocol: the runner's own).
const BEFORE_THE_JOBS: &str = "CI_RUNNER_SHORT_TOKEN";

/// What a relay puts behind them.
const BEHIND_THE_JOBS: [&str; 3] = [
    "CI_RUNNER_VERSION",
    "CI_RUNNER_REVISION",
    "CI_RUNNER_EXECUTABLE_ARCH",
];

/// What `CI_JOB_STATUS` says (gitlab-runner, build §1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobStatus {
    /// The steps are not over.
    Running,
    /// They succeeded.
    Success,
    /// They failed.
    Failed,
    /// They were canceled.
    Canceled,
    /// Their own time limit ended them.
    TimedOut,
}

impl JobStatus {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::TimedOut => "timedout",
        }
    }
}

/// A job's place among the jobs of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slot {
    /// Folder in the guest that holds all projects, an absolute path (`CI_BUILDS_DIR`).
    pub builds_dir: String,
    /// Lowest number free among the host's running jobs (`CI_CONCURRENT_ID`).
    pub concurrent_id: u32,
    /// Lowest number free among the host's running jobs of the project (`CI_CONCURRENT_PROJECT_ID`).
    pub concurrent_project_id: u32,
}

impl Slot {
    /// The place with these numbers; `builds_dir` is a folder in the guest, an absolute path.
    #[must_use]
    pub fn new(
        builds_dir: impl Into<String>,
        concurrent_id: u32,
        concurrent_project_id: u32,
    ) -> Self {
        Self {
            builds_dir: builds_dir.into(),
            concurrent_id,
            concurrent_project_id,
        }
    }
}

impl Default for Slot {
    /// `/builds`, and the only job of its host.
    fn default() -> Self {
        Self {
            builds_dir: "/builds".to_owned(),
            concurrent_id: 0,
            concurrent_project_id: 0,
        }
    }
}

/// A job's variables, flags, settings and folders, as one consistent whole.
#[derive(Clone)]
pub(crate) struct JobEnvironment {
    host: Slot,
    dirs: JobDirs,
    flags: FeatureFlags,
    settings: Settings,
    warnings: Vec<String>,
    variables: Variables,
}

/// Shows no secret: settings, folders and warnings, which may have taken over values of masked variables, are left out.
impl fmt::Debug for JobEnvironment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JobEnvironment")
            .field("host", &self.host)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

impl JobEnvironment {
    /// The environment of `job` before its first step.
    ///
    /// # Errors
    ///
    /// When the job asks for a project folder that it may not have.
    pub(crate) fn new(job: &CiJob, host: Slot) -> Result<Self, DirsError> {
        // Settings may refer to CI_BUILDS_DIR, but the project's folder follows from them.
        let early = variables(job, &host, None, JobStatus::Running);
        let with_job_flags = early.iter().chain(job.variables.iter()).cloned();
        let (flags, flag_warnings) =
            FeatureFlags::resolve(&with_job_flags.collect::<Variables>().expanded());
        let (settings, mut warnings) = Settings::resolve(
            &early.expanded(),
            job.sources.allow_fetch,
            job.sources.depth,
        );
        // GitLab Runner reads the flags twice (gitlab-runner, build §1.5.2).
        warnings.extend_from_slice(&flag_warnings);
        warnings.extend(flag_warnings);
        let dirs = JobDirs::new(job, &settings, &host.builds_dir)?;
        let mut environment = Self {
            host,
            dirs,
            flags,
            settings,
            warnings,
            variables: Variables::default(),
        };
        environment.set_status(job, JobStatus::Running);
        Ok(environment)
    }

    /// Makes `CI_JOB_STATUS` say `status` from now on.
    pub(crate) fn set_status(&mut self, job: &CiJob, status: JobStatus) {
        let resolved = Some((&self.flags, &self.dirs));
        self.variables = variables(job, &self.host, resolved, status).expanded();
    }

    /// All variables in order, expanded.
    #[must_use]
    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Where the job lives in the guest.
    #[must_use]
    pub(crate) fn dirs(&self) -> &JobDirs {
        &self.dirs
    }

    /// The job's settings.
    #[must_use]
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The job's feature flags.
    #[must_use]
    pub(crate) fn flags(&self) -> &FeatureFlags {
        &self.flags
    }

    /// Whether `flag` is on.
    #[must_use]
    pub(crate) fn is_on(&self, flag: FeatureFlag) -> bool {
        self.flags.is_on(flag)
    }

    /// What is wrong with the job's settings; GitLab Runner prints it as one warning, joined by newlines, before
    /// the first stage. Empty when all is well.
    #[must_use]
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The values to mask in the trace: [`CiJob::secrets_within`] this environment.
    #[must_use]
    pub(crate) fn masked_values(&self, job: &CiJob) -> Vec<String> {
        exposed(&job.secrets_within(&self.variables))
    }
}

/// The values to mask for a job that has no environment: [`CiJob::secrets`].
#[must_use]
pub(crate) fn secrets_of_refused(job: &CiJob) -> Vec<String> {
    exposed(&job.secrets())
}

fn exposed(secrets: &[Secret]) -> Vec<String> {
    let exposed = secrets.iter().map(|secret| secret.expose().to_owned());
    exposed.collect()
}

/// The list of gitlab-runner, build §4.1, unexpanded; without flags and folders while these are not known.
fn variables(
    job: &CiJob,
    host: &Slot,
    resolved: Option<(&FeatureFlags, &JobDirs)>,
    status: JobStatus,
) -> Variables {
    let relayed = Relayed::new(&job.variables);
    let defaults = FeatureFlags::default();
    let flags = resolved.map_or(&defaults, |(flags, _)| flags);
    let dirs = resolved.map(|(_, dirs)| dirs);

    let mut list: Vec<Variable> = Vec::with_capacity(job.variables.len() + 80);
    list.extend(
        flags
            .iter()
            .map(|(name, value)| Variable::public(name, bool_text(value))),
    );
    if let Some(image) = job.image.as_ref().filter(|image| !image.name.is_empty()) {
        list.push(Variable::public("CI_JOB_IMAGE", &image.name));
    }
    list.extend_from_slice(relayed.before);
    list.push(Variable::public("CI_BUILDS_DIR", &host.builds_dir));
    list.push(Variable::public(
        "CI_PROJECT_DIR",
        dirs.map_or("", |dirs| &dirs.project),
    ));
    list.push(Variable::public(
        "CI_CONCURRENT_ID",
        host.concurrent_id.to_string(),
    ));
    list.push(Variable::public(
        "CI_CONCURRENT_PROJECT_ID",
        host.concurrent_project_id.to_string(),
    ));
    list.push(Variable::public("CI_SERVER", "yes"));
    list.push(Variable::public("CI_JOB_STATUS", status.name()));
    list.push(Variable::public(
        "CI_JOB_TIMEOUT",
        job.timeout_secs.to_string(),
    ));
    if let Some(pem) = &job.server_ca_pem {
        list.push(Variable {
            file: true,
            ..Variable::public("CI_SERVER_TLS_CA_FILE", pem)
        });
    }
    let own = relayed.own.iter();
    list.extend(
        own.filter(|variable| !FeatureFlags::is_flag(&variable.key))
            .cloned(),
    );
    list.push(Variable::public("CI_DISPOSABLE_ENVIRONMENT", "true"));
    list.extend_from_slice(relayed.behind);
    list.push(Variable::public(
        "RUNNER_TEMP_PROJECT_DIR",
        dirs.map_or("", |dirs| &dirs.tmp),
    ));
    Variables::new(list)
}

/// A job's variables, taken apart into its own and the relay's around them.
struct Relayed<'j> {
    before: &'j [Variable],
    own: &'j [Variable],
    behind: &'j [Variable],
}

impl<'j> Relayed<'j> {
    fn new(variables: &'j [Variable]) -> Self {
        let is_before = variables
            .first()
            .is_some_and(|variable| variable.key == BEFORE_THE_JOBS);
        let (before, rest) = variables
            .split_at_checked(usize::from(is_before))
            .unwrap_or((&[], variables));
        let own = rest
            .iter()
            .rposition(|variable| !BEHIND_THE_JOBS.contains(&variable.key.as_str()))
            .map_or(0, |last| last + 1);
        let (own, behind) = rest.split_at_checked(own).unwrap_or((rest, &[]));
        Self {
            before,
            own,
            behind,
        }
    }
}

fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::settings::Strategy;
    use crate::job::testing::{self, variable};
    use vk_hub_proto::job::{Dependency, Image, RegistryCredential};

    fn environment(job: &CiJob) -> JobEnvironment {
        JobEnvironment::new(job, Slot::default()).unwrap()
    }

    fn with_variables(pairs: &[(&str, &str)]) -> CiJob {
        let mut job = testing::job();
        job.variables = testing::variables(pairs);
        job
    }

    /// gitlab-runner, build §4.1.
    #[test]
    fn sources_of_variables_come_in_the_runners_order() {
        let mut job = testing::job();
        job.image = Some(Image {
            name: "ruby:3".into(),
            ..Image::default()
        });
        job.server_ca_pem = Some("pem".into());

        let environment = environment(&job);

        let keys: Vec<&str> = environment
            .variables()
            .iter()
            .map(|variable| variable.key.as_str())
            .collect();
        assert_eq!(keys.first(), Some(&"FF_TEST_FEATURE"));
        assert_eq!(
            keys[52..],
            [
                "CI_JOB_IMAGE",
                "CI_RUNNER_SHORT_TOKEN",
                "CI_BUILDS_DIR",
                "CI_PROJECT_DIR",
                "CI_CONCURRENT_ID",
                "CI_CONCURRENT_PROJECT_ID",
                "CI_SERVER",
                "CI_JOB_STATUS",
                "CI_JOB_TIMEOUT",
                "CI_SERVER_TLS_CA_FILE",
                "CI_PROJECT_PATH",
                "CI_DISPOSABLE_ENVIRONMENT",
                "CI_RUNNER_VERSION",
                "CI_RUNNER_REVISION",
                "CI_RUNNER_EXECUTABLE_ARCH",
                "RUNNER_TEMP_PROJECT_DIR",
            ]
        );
    }

    /// gitlab-runner, build §4.2.
    #[test]
    fn what_the_runner_provides_has_its_values() {
        let environment = environment(&testing::job());
        let expected = [
            ("CI_BUILDS_DIR", "/builds"),
            ("CI_PROJECT_DIR", "/builds/grp/demo"),
            ("CI_CONCURRENT_ID", "0"),
            ("CI_CONCURRENT_PROJECT_ID", "0"),
            ("CI_SERVER", "yes"),
            ("CI_JOB_STATUS", "running"),
            ("CI_JOB_TIMEOUT", "3600"),
            ("CI_DISPOSABLE_ENVIRONMENT", "true"),
            ("RUNNER_TEMP_PROJECT_DIR", "/builds/grp/demo.tmp"),
        ];
        for (key, value) in expected {
            assert_eq!(environment.variables().value(key), value, "{key}");
        }
        assert!(
            environment
                .variables()
                .find("CI_SERVER_TLS_CA_FILE")
                .is_none()
        );
        assert!(environment.variables().find("CI_JOB_IMAGE").is_none());
    }

    /// gitlab-runner, build §4.1.
    #[test]
    fn a_job_overrides_what_comes_before_its_own_variables_alone() {
        let job = with_variables(&[
            ("CI_SERVER", "no"),
            ("CI_PROJECT_DIR", "/elsewhere"),
            ("CI_DISPOSABLE_ENVIRONMENT", "false"),
            ("RUNNER_TEMP_PROJECT_DIR", "/elsewhere.tmp"),
        ]);
        let environment = environment(&job);
        let variables = environment.variables();
        assert_eq!(variables.value("CI_SERVER"), "no");
        assert_eq!(variables.value("CI_PROJECT_DIR"), "/elsewhere");
        assert_eq!(variables.value("CI_DISPOSABLE_ENVIRONMENT"), "true");
        assert_eq!(
            variables.value("RUNNER_TEMP_PROJECT_DIR"),
            "/builds/grp/demo.tmp"
        );
        assert_eq!(environment.dirs().project, "/builds/grp/demo");
    }

    /// gitlab-runner, build §4.1.
    #[test]
    fn a_jobs_flag_is_exported_once_with_its_resolved_value() {
        let job = with_variables(&[("FF_TIMESTAMPS", "$NO"), ("NO", "F")]);
        let environment = environment(&job);
        let values: Vec<&str> = environment
            .variables()
            .iter()
            .filter(|variable| variable.key == "FF_TIMESTAMPS")
            .map(|variable| variable.value.as_str())
            .collect();
        assert_eq!(values, ["false"]);
        assert!(!environment.is_on(FeatureFlag::Timestamps));
    }

    /// gitlab-runner, build §1.5.2.
    #[test]
    fn a_bad_flag_is_told_twice_behind_the_settings() {
        let job = with_variables(&[("FF_TIMESTAMPS", "x"), ("GIT_CHECKOUT", "x")]);
        let environment = environment(&job);
        let flag = "FF_TIMESTAMPS: could not parse feature flag, expected bool, got x";
        assert_eq!(
            environment.warnings(),
            [
                "GIT_CHECKOUT: expected bool got \"x\", using default value: true",
                flag,
                flag
            ]
        );
    }

    /// gitlab-runner, build §4.3 and build §4.4.
    #[test]
    fn settings_are_expanded_and_know_the_builds_folder() {
        let job = with_variables(&[
            ("GIT_STRATEGY", "$HOW"),
            ("HOW", "clone"),
            ("GIT_CLONE_PATH", "$CI_BUILDS_DIR/x"),
        ]);
        let environment = environment(&job);
        assert_eq!(environment.settings().strategy, Strategy::Clone);
        assert_eq!(environment.dirs().project, "/builds/x");
        assert_eq!(environment.variables().value("CI_PROJECT_DIR"), "/builds/x");
    }

    /// gitlab-runner, build §1.8.
    #[test]
    fn the_status_replaces_the_runners_own_variable_alone() {
        let job = with_variables(&[("CI_JOB_STATUS", "mine"), ("STATUS", "[$CI_JOB_STATUS]")]);
        let mut environment = environment(&job);
        environment.set_status(&job, JobStatus::TimedOut);
        let statuses: Vec<&str> = environment
            .variables()
            .iter()
            .filter(|variable| variable.key == "CI_JOB_STATUS")
            .map(|variable| variable.value.as_str())
            .collect();
        assert_eq!(statuses, ["timedout", "mine"]);
        assert_eq!(environment.variables().value("STATUS"), "[mine]");
    }

    #[test]
    fn references_to_the_projects_folder_and_to_files_give_paths() {
        let mut job = with_variables(&[("CONF", "$CI_PROJECT_DIR/conf"), ("REF", "$CERT")]);
        job.variables.push(Variable {
            file: true,
            ..variable("CERT", "content")
        });
        let environment = environment(&job);
        let variables = environment.variables();
        assert_eq!(variables.value("CONF"), "/builds/grp/demo/conf");
        assert_eq!(variables.value("REF"), "/builds/grp/demo.tmp/CERT");
        assert_eq!(variables.value("CERT"), "content");
    }

    /// gitlab-runner, build §4.5.
    #[test]
    fn all_secrets_are_masked_expanded_and_trimmed() {
        let mut job = with_variables(&[("PART", "part")]);
        job.token = "tok".into();
        job.variables.push(Variable {
            masked: true,
            ..variable("M", " whole-$PART\n")
        });
        job.variables.push(Variable {
            masked: true,
            file: true,
            ..variable("F", "content")
        });
        job.variables.push(Variable {
            masked: true,
            ..variable("BLANK", " ")
        });
        job.registry_credentials.push(RegistryCredential {
            password: "pw".into(),
            ..RegistryCredential::default()
        });
        job.dependencies.push(Dependency {
            token: "tok".into(),
            ..Dependency::default()
        });
        job.dependencies.push(Dependency {
            token: "dep".into(),
            ..Dependency::default()
        });

        let values = environment(&job).masked_values(&job);

        assert_eq!(
            values,
            ["content", "dep", "pw", "tok", "whole-$PART", "whole-part"]
        );
    }

    /// A job with secrets of every kind, some of them taken over by settings, folders and other variables.
    fn marked() -> CiJob {
        let secret = |key: &str, value: &str| Variable {
            masked: true,
            ..variable(key, value)
        };
        let mut job = with_variables(&[
            ("URL", "https://me:$MASKED@h/$PRIVATE"),
            ("GIT_CHECKOUT", "$MASKED"),
            ("GIT_CLONE_PATH", "$CI_BUILDS_DIR/$MASKED"),
            ("SHOWN", "shown"),
        ]);
        for variable in &mut job.variables {
            variable.public = true;
        }
        job.token = "hush-token".into();
        job.variables.extend([
            secret("MASKED", "hush-masked"),
            secret("LATE", "hush-$CI_PROJECT_DIR"),
            Variable {
                public: false,
                ..variable("PRIVATE", "hush-private")
            },
            Variable {
                file: true,
                public: true,
                ..variable("FILE", "hush-file")
            },
        ]);
        let image = |value: &str| Image {
            variables: vec![secret("OF_IMAGE", value)],
            ..Image::default()
        };
        job.image = Some(image("hush-image-$CI_JOB_STATUS"));
        job.services = vec![image("hush-service")];
        job.registry_credentials.push(RegistryCredential {
            password: "hush-password".into(),
            ..RegistryCredential::default()
        });
        job.dependencies.push(Dependency {
            token: "hush-dependency".into(),
            ..Dependency::default()
        });
        job
    }

    /// Whoever runs a job, refuses it or records it hides the same.
    #[test]
    fn all_that_masks_goes_by_one_list() {
        let job = marked();
        let always = [
            "hush-dependency",
            "hush-masked",
            "hush-password",
            "hush-service",
            "hush-token",
        ];

        let refused = secrets_of_refused(&job);
        let running = environment(&job).masked_values(&job);

        for value in always {
            assert!(refused.iter().any(|secret| secret == value), "{value}");
            assert!(running.iter().any(|secret| secret == value), "{value}");
        }
        for value in ["hush-/builds/hush-masked", "hush-image-running"] {
            assert!(running.iter().any(|secret| secret == value), "{value}");
        }
        let record = format!("{:?}", job.redacted());
        for value in refused.iter().chain(&running) {
            assert!(!record.contains(value), "{value}");
        }
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let job = marked();
        let environment = environment(&job);
        assert_eq!(
            environment.dirs().project,
            "/builds/hush-masked",
            "a folder that says a secret"
        );

        let text = format!("{environment:?} {environment:#?} {job:?}");

        assert!(!text.contains("hush"), "{text}");
        assert!(text.contains("shown"), "{text}");
        assert!(
            text.contains("https://me:[REDACTED]@h/[REDACTED]"),
            "{text}"
        );
    }
}
