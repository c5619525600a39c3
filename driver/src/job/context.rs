//! What the stages of one job share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use vk_hub_proto::job::variables::Variables;
use vk_hub_proto::job::{Artifact, ArtifactOutcome, ArtifactResult, CiJob, Failure};

use super::JobOptions;
use super::feature_flags::{FeatureFlag, FeatureFlags};
use super::image_process::ImageProcess;
use super::order::StageFailure;
use super::plan::{Cases, Plan};
use super::runner::RefusedJob;
use super::script::{ScriptContext, Shell};
use super::settings::{SubmoduleStrategy, requested_size};
use super::stage::Stage;
use super::variables::{HostContext, JobEnvironment, JobStatus, secrets_of_refused};
use crate::guest::Guest;
use crate::guest::SizeRequest;
use crate::host::Host;
use vk_trace::TraceConfig;

/// One job: what it is, what follows from it, and the guest it runs in.
pub(super) struct JobContext {
    pub(super) host: Arc<Host>,
    pub(super) job: CiJob,
    pub(super) options: JobOptions,
    pub(super) environment: JobEnvironment,
    /// Goes along with the job's fetches, the same with each attempt: 32 hex digits, as GitLab Runner makes them
    /// (gitlab-runner, build §3.4.1-1).
    pub(super) correlation_id: String,
    guest: OnceLock<Arc<Guest>>,
    tools: OnceLock<ImageTools>,
    process: OnceLock<ImageProcess>,
    /// What became of each artifact.
    outcomes: Mutex<Vec<ArtifactOutcome>>,
}

/// What the job's image has that scripts depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageTools {
    /// The shell that reads scripts; none in an image without one.
    pub(super) shell: Option<ImageShell>,
    /// Whether there is git.
    pub(super) has_git: bool,
}

/// A shell of the job's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageShell {
    /// What it understands.
    pub(super) dialect: Shell,
    /// Where it is, or its name to look for in the image's PATH.
    pub(super) program: &'static str,
}

impl JobContext {
    /// Checks what can be checked before there is a VM.
    pub(super) fn new(
        host: Arc<Host>,
        job: CiJob,
        options: JobOptions,
    ) -> Result<Self, Box<RefusedJob>> {
        let environment = match JobEnvironment::new(&job, HostContext::default()) {
            Ok(environment) => environment,
            Err(error) => {
                let variables = Variables::new(job.variables.clone()).expanded();
                let (flags, _) = FeatureFlags::resolve(&variables);
                let secrets = secrets_of_refused(&job);
                return Err(Box::new(RefusedJob {
                    failure: StageFailure::new(error.failure(), error.to_string()),
                    trace: trace_config(&job, &options, &flags, secrets),
                }));
            }
        };
        let outcomes = Mutex::new(vec![ArtifactOutcome::Skipped; job.artifacts.len()]);
        Ok(Self {
            host,
            job,
            options,
            environment,
            correlation_id: vk_text::random_id(),
            guest: OnceLock::new(),
            tools: OnceLock::new(),
            process: OnceLock::new(),
            outcomes,
        })
    }

    /// What the stage machine has to know; which stages are skipped is told in gitlab-runner, build §1.2.2.
    pub(super) fn plan(&self) -> Plan {
        let settings = self.environment.settings();
        let job = &self.job;
        let after_script = job
            .steps
            .iter()
            .find(|step| step.name == Stage::AfterScript.name())
            .is_some_and(|step| !step.script.is_empty());
        Plan {
            steps: Stage::of_steps(&job.steps).collect(),
            after_script,
            unknown_submodules: settings.submodule_strategy == SubmoduleStrategy::Invalid,
            restore_cache: job
                .caches
                .iter()
                .any(|cache| has_content(&cache.paths, cache.untracked)),
            download_artifacts: job.dependencies.iter().any(|dep| !dep.filename.is_empty()),
            archive_cache: cases(|success| {
                job.caches.iter().any(|cache| {
                    cache.when.applies(success) && has_content(&cache.paths, cache.untracked)
                })
            }),
            upload_artifacts: cases(|success| {
                job.artifacts
                    .iter()
                    .any(|artifact| artifact.when.applies(success) && has_artifacts(artifact))
            }),
            timeout: Duration::from_secs(job.timeout_secs),
            variables: self.environment.variables().clone(),
            notices: self.options.notices.clone(),
            get_sources_attempts: settings.get_sources_attempts,
            restore_cache_attempts: settings.restore_cache_attempts,
            artifact_download_attempts: settings.artifact_download_attempts,
            exponential_backoff: self
                .environment
                .is_on(FeatureFlag::ExponentialBackoffStageRetry),
            ignore_after_script_errors: settings.after_script_ignore_errors,
        }
    }

    /// How the trace is made.
    pub(super) fn trace_config(&self) -> TraceConfig {
        let secrets = self.environment.masked_values(&self.job);
        let flags = self.environment.flags();
        trace_config(&self.job, &self.options, flags, secrets)
    }

    /// The environment as it is while `CI_JOB_STATUS` says `status`.
    pub(super) fn environment_at(&self, status: JobStatus) -> JobEnvironment {
        let mut environment = self.environment.clone();
        environment.set_status(&self.job, status);
        environment
    }

    /// What scripts are made from.
    pub(super) fn script<'a>(&'a self, environment: &'a JobEnvironment) -> ScriptContext<'a> {
        let tools = self.tools();
        let dialect = tools.shell.map(|shell| shell.dialect);
        ScriptContext {
            job: &self.job,
            environment,
            // An entry point of an image without a shell may still bring one up: by the image's `sh`, so to say.
            shell: dialect.unwrap_or(Shell::Sh),
            has_git: tools.has_git,
            host_name: self.host.name(),
        }
    }

    /// What the image has; bash and git until that is known.
    pub(super) fn tools(&self) -> ImageTools {
        self.tools.get().copied().unwrap_or(ImageTools {
            shell: Some(ImageShell {
                dialect: Shell::Bash,
                program: "bash",
            }),
            has_git: true,
        })
    }

    /// Takes note of what the image has.
    pub(super) fn image_has(&self, tools: ImageTools) {
        // Set once: there is one prepare_script.
        let _ = self.tools.set(tools);
    }

    /// How scripts start in the image; as in one that says nothing until it is known.
    pub(super) fn process(&self) -> ImageProcess {
        self.process.get().cloned().unwrap_or_default()
    }

    /// Takes note of how scripts start in the image.
    pub(super) fn process_is(&self, process: ImageProcess) {
        // Set once: there is one prepare_executor.
        let _ = self.process.set(process);
    }

    /// The size the job asks for.
    pub(super) fn size_request(&self) -> Result<SizeRequest, StageFailure> {
        requested_size(self.environment.variables())
            .map_err(|error| StageFailure::new(error.failure(), error.to_string()))
    }

    /// The guest, once it is up.
    pub(super) fn guest(&self) -> Option<Arc<Guest>> {
        self.guest.get().cloned()
    }

    /// Takes note of the guest that came up.
    pub(super) fn guest_is_up(&self, guest: Arc<Guest>) {
        // Set once: there is one prepare_executor.
        let _ = self.guest.set(guest);
    }

    /// Ends the guest, if there is one. Its files are gone when this returns.
    pub(super) async fn end_guest(&self) {
        if let Some(guest) = self.guest.get() {
            guest.end().await;
        }
    }

    /// Takes note of what became of the artifact at `position`.
    pub(super) fn artifact_ended(&self, position: usize, outcome: ArtifactOutcome) {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = outcomes.get_mut(position) {
            *place = outcome;
        }
    }

    /// What became of the artifacts, in the job's order.
    pub(super) fn artifact_results(&self) -> Vec<ArtifactResult> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        self.job
            .artifacts
            .iter()
            .zip(outcomes.iter())
            .map(|(artifact, outcome)| ArtifactResult {
                name: artifact.name.clone(),
                outcome: *outcome,
            })
            .collect()
    }

    /// A private folder on the host, gone with the guest.
    pub(super) fn work_dir(&self) -> Option<PathBuf> {
        self.guest.get().map(|guest| guest.work_dir().to_owned())
    }
}

fn trace_config(
    job: &CiJob,
    options: &JobOptions,
    flags: &FeatureFlags,
    secrets: Vec<String>,
) -> TraceConfig {
    TraceConfig {
        secrets,
        token_prefixes: job.trace.mask_prefixes.clone(),
        mask_all_default_tokens: flags.is_on(FeatureFlag::MaskAllDefaultTokens),
        timestamps: options
            .timestamps
            .unwrap_or_else(|| flags.is_on(FeatureFlag::Timestamps)),
        limit_bytes: job.trace.limit_bytes,
    }
}

/// A failure of class `configuration`.
pub(super) fn configuration(message: String) -> StageFailure {
    StageFailure::new(Failure::Configuration, message)
}

/// A failure of class `system`.
pub(super) fn system(message: String) -> StageFailure {
    StageFailure::new(Failure::System, message)
}

/// Whether a cache or an artifact chooses any files.
pub(super) fn has_content(paths: &[String], untracked: bool) -> bool {
    untracked || !paths.is_empty()
}

/// Whether an artifact is to be made at all (gitlab-runner, wire §3.1): one with nothing but excludes is tried.
pub(super) fn has_artifacts(artifact: &Artifact) -> bool {
    has_content(&artifact.paths, artifact.untracked) || !artifact.exclude.is_empty()
}

fn cases(applies: impl Fn(bool) -> bool) -> Cases {
    Cases {
        on_success: applies(true),
        on_failure: applies(false),
    }
}

#[cfg(test)]
mod tests {
    use vk_hub_proto::job::{Artifact, Cache, Dependency, When};

    use super::*;
    use crate::job::testing::{self, step};

    fn plan(job: CiJob) -> Plan {
        let host = Host::builder("/nowhere", "/nowhere").build();
        let context = JobContext::new(Arc::new(host), job, JobOptions::default());
        context.ok().unwrap().plan()
    }

    fn cache(paths: &[&str], untracked: bool, when: When) -> Cache {
        Cache {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            untracked,
            when,
            ..Cache::default()
        }
    }

    /// gitlab-runner, build §1.2.2.
    #[test]
    fn after_script_is_skipped_when_it_is_missing_or_empty_and_a_step_is_not() {
        let mut job = testing::job();
        job.steps = vec![step("script", &[])];
        let without = plan(job.clone());
        assert_eq!(without.steps, [Stage::Step("script".into())]);
        assert!(!without.after_script);

        job.steps.push(step("after_script", &[]));
        assert!(!plan(job.clone()).after_script);

        job.steps[1] = step("after_script", &["true"]);
        let with = plan(job);
        assert!(with.after_script);
        assert_eq!(with.steps, [Stage::Step("script".into())]);
    }

    /// gitlab-runner, build §1.2.2.
    #[test]
    fn caches_are_restored_and_saved_when_one_has_paths_or_untracked_files() {
        let cases = [
            (vec![], false, (false, false)),
            (vec![cache(&[], false, When::Always)], false, (false, false)),
            (
                vec![cache(&["a"], false, When::OnSuccess)],
                true,
                (true, false),
            ),
            (vec![cache(&[], true, When::OnFailure)], true, (false, true)),
            (vec![cache(&["a"], false, When::Always)], true, (true, true)),
            (
                vec![
                    cache(&[], false, When::Always),
                    cache(&["a"], false, When::OnFailure),
                ],
                true,
                (false, true),
            ),
        ];
        for (caches, restored, saved) in cases {
            let plan = plan(CiJob {
                caches: caches.clone(),
                ..testing::job()
            });
            let archived = (plan.archive_cache.on_success, plan.archive_cache.on_failure);
            assert_eq!(
                (plan.restore_cache, archived),
                (restored, saved),
                "{caches:?}"
            );
        }
    }

    /// gitlab-runner, build §1.2.2.
    #[test]
    fn artifacts_are_downloaded_by_file_name_and_uploaded_by_when_and_content() {
        let mut job = testing::job();
        job.dependencies = vec![Dependency::default()];
        assert!(!plan(job.clone()).download_artifacts);
        job.dependencies.push(Dependency {
            filename: "a.zip".into(),
            ..Dependency::default()
        });
        assert!(plan(job.clone()).download_artifacts);

        let upload = |artifact: Artifact| {
            let plan = plan(CiJob {
                artifacts: vec![artifact],
                ..testing::job()
            });
            (
                plan.upload_artifacts.on_success,
                plan.upload_artifacts.on_failure,
            )
        };
        let paths = vec!["a".to_owned()];
        assert_eq!(upload(Artifact::default()), (false, false));
        let excluding = Artifact {
            exclude: paths.clone(),
            ..Artifact::default()
        };
        assert_eq!(upload(excluding), (true, false));
        let on_failure = Artifact {
            paths,
            when: When::OnFailure,
            ..Artifact::default()
        };
        assert_eq!(upload(on_failure), (false, true));
    }
}
