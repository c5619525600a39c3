//! One job as all of its stages see it: never changed once it is made.

use std::sync::Arc;
use std::time::Duration;

use vk_hub_proto::job::variables::Variables;
use vk_hub_proto::job::{Artifact, CiJob, Failure};
use vk_trace::TraceConfig;
use vk_transfer::{ArtifactStore, CacheStore, GitLabArtifacts, KeptArtifacts, caches_of_job};

use super::feature_flags::{FeatureFlag, FeatureFlags};
use super::order::StageFailure;
use super::plan::{Cases, Plan};
use super::request::{Job, JobOptions};
use super::script::{ScriptContext, Shell};
use super::session::ImageTools;
use super::settings::{SubmoduleStrategy, requested_size};
use super::stage::Stage;
use super::variables::{JobEnvironment, JobStatus, secrets_of_refused};
use crate::guest::VmSize;
use crate::host::Host;

/// One job: what it is, and what follows from it.
pub(super) struct JobContext {
    pub(super) host: Host,
    pub(super) job: CiJob,
    pub(super) options: JobOptions,
    pub(super) environment: JobEnvironment,
    /// Goes along with the job's fetches, the same with each attempt: 32 hex digits, as GitLab Runner makes them
    /// (gitlab-runner, build §3.4.1-1).
    pub(super) correlation_id: String,
    /// Where artifacts go to and come from.
    pub(super) artifacts: Arc<dyn ArtifactStore>,
}

/// A job that must not run.
pub(super) struct Refused {
    /// Why.
    pub(super) failure: StageFailure,
    /// How its trace is made.
    pub(super) trace: TraceConfig,
}

impl JobContext {
    /// Checks what can be checked before there is a VM.
    pub(super) fn new(host: &Host, job: Job) -> Result<Self, Box<Refused>> {
        let environment = match JobEnvironment::new(&job.spec, job.options.slot.clone()) {
            Ok(environment) => environment,
            Err(error) => {
                let failure = StageFailure::new(error.failure(), error.to_string());
                return Err(Box::new(refused(&job, failure)));
            }
        };
        let Job { spec, options } = job;
        Ok(Self {
            artifacts: artifact_store(host, &spec, &options),
            host: host.clone(),
            job: spec,
            options,
            environment,
            correlation_id: vk_text::random_id(),
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

    /// What scripts for an image with `tools` are made from.
    pub(super) fn script<'a>(
        &'a self,
        environment: &'a JobEnvironment,
        tools: ImageTools,
    ) -> ScriptContext<'a> {
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

    /// The size of the job's VM: what the embedder grants, else what the job asks for within what the host has.
    pub(super) fn size(&self) -> Result<VmSize, StageFailure> {
        let size = match self.options.size {
            Some(granted) => granted.checked(),
            None => requested_size(self.environment.variables())
                .map_err(|error| StageFailure::new(error.failure(), error.to_string()))?
                .within(self.host.limits()),
        };
        size.map_err(|error| configuration(error.to_string()))
    }

    /// Where the job's caches are.
    ///
    /// # Errors
    ///
    /// A text says why there are none.
    pub(super) async fn caches(&self) -> Result<Arc<dyn CacheStore>, String> {
        if let Some(caches) = &self.options.caches {
            return Ok(Arc::clone(caches));
        }
        let limit = self.environment.settings().cache_request_timeout;
        let (settings, images) = (self.host.cache_settings(), self.host.image_settings());
        let caches = caches_of_job(&settings, &images, &self.job, limit).await?;
        Ok(Arc::new(caches))
    }

    /// Whether artifacts can go anywhere.
    pub(super) fn has_artifact_store(&self) -> bool {
        self.options.artifacts.is_some()
            || self.options.artifacts_dir.is_some()
            || !self.job.server_url.is_empty()
    }
}

/// What is left of a job that must not run.
pub(super) fn refused(job: &Job, failure: StageFailure) -> Refused {
    let spec = &job.spec;
    let variables = Variables::new(spec.variables.clone()).expanded();
    let (flags, _) = FeatureFlags::resolve(&variables);
    Refused {
        failure,
        trace: trace_config(spec, &job.options, &flags, secrets_of_refused(spec)),
    }
}

fn artifact_store(host: &Host, job: &CiJob, options: &JobOptions) -> Arc<dyn ArtifactStore> {
    if let Some(store) = &options.artifacts {
        return Arc::clone(store);
    }
    let gitlab = GitLabArtifacts::new(
        job.server_url.clone(),
        job.server_ca_pem.clone(),
        host.proxies().clone(),
        host.texts().user_agent.clone(),
    );
    match &options.artifacts_dir {
        Some(folder) => Arc::new(KeptArtifacts::new(folder.clone(), gitlab)),
        None => Arc::new(gitlab),
    }
}

fn trace_config(
    job: &CiJob,
    options: &JobOptions,
    flags: &FeatureFlags,
    mut secrets: Vec<String>,
) -> TraceConfig {
    let of_embedder = options.secrets.iter();
    secrets.extend(of_embedder.map(|secret| secret.expose().to_owned()));
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
        let context = JobContext::new(&host, Job::new(job));
        context.ok().unwrap().plan()
    }

    #[test]
    fn what_the_embedder_decides_counts_before_what_the_job_says() {
        let host = Host::builder("/nowhere", "/nowhere").build();
        let spec = testing::with_variables(testing::variables(&[("MICROVM_MEM", "1G")]));
        let job = Job::new(spec)
            .size(VmSize::new(3, 700).with_scratch(1 << 30))
            .secrets(["of the embedder"])
            .timestamps(false);
        assert!(!format!("{job:?}").contains("of the embedder"));

        let context = JobContext::new(&host, job).ok().unwrap();

        let size = context.size().unwrap();
        assert_eq!((size.cpus, size.memory_mib), (3, 700));
        assert_eq!(size.scratch_bytes, 1 << 30);
        let trace = context.trace_config();
        assert!(
            trace
                .secrets
                .iter()
                .any(|secret| secret == "of the embedder")
        );
        assert!(!trace.timestamps);

        let too_small = Job::new(testing::job()).size(VmSize::new(1, 64));
        let context = JobContext::new(&host, too_small).ok().unwrap();
        let failure = context.size().unwrap_err();
        assert_eq!(failure.class, Failure::Configuration);
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
