//! The job as a whole.

use vk_hub_proto::job::{
    Artifact, ArtifactFormat, CiJob, Dependency, Hook, HookName, JobInfo, RegistryCredential, Step,
    TraceOptions, When, variables::Variables,
};

use super::cache::{KeyContext, cache};
use super::error::{Refusal, TranslateError};
use super::image::{check_executor_options, image};
use super::options::Options;
use super::policy;
use super::sources::{origin, sources, without_credentials};
use super::variables::{check, short_masked_values, variables};
use crate::response::{self, JobResponse};

/// A job's limit in seconds when GitLab sets none (gitlab-runner, wire §1.8.1).
const DEFAULT_TIMEOUT_SECS: u64 = 7200;

/// The step that a job's `script` is.
const DEFAULT_STEP: &str = "script";

/// The type of an artifact that names none, as GitLab's server takes it.
const DEFAULT_ARTIFACT_TYPE: &str = "archive";

/// A translated job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The spec.
    pub job: CiJob,
    /// What the user should know, a line each: things ignored, and masks that hide too much.
    pub warnings: Vec<String>,
    /// Lines for the trace, before the first step, that are no part of the spec: where the job comes from.
    pub notices: Vec<String>,
}

/// Translates a response.
///
/// # Errors
///
/// When a field is missing that vk needs, or the job asks for what vk does not do.
pub fn translate(response: JobResponse, options: &Options) -> Result<Translated, TranslateError> {
    check_supported(&response)?;
    let notices = policy::lines(&response.policy_options);
    let mut warnings = Vec::new();
    if response.has_inputs {
        warnings.push(
            "the job has `inputs`, which vk ignores: `${{ job.inputs.… }}` stays as it is"
                .to_owned(),
        );
    }
    let steps = steps(response.steps)?;
    let list = variables(response.variables, options)?;
    let expanded = Variables::new(list.clone()).expanded();
    warnings.extend(short_masked_values(&expanded));
    let sources = sources(
        response.git_info,
        response.allow_git_fetch,
        &expanded,
        options,
    )?;
    let key_context = KeyContext {
        variables: &expanded,
        job_name: &response.job_info.name,
        git_ref: &sources.git_ref,
    };
    let caches = response
        .cache
        .into_iter()
        .enumerate()
        .map(|(position, entry)| cache(entry, position, &key_context))
        .collect::<Result<_, _>>()?;
    let job = CiJob {
        token: response.token,
        server_url: server_url(options, &expanded, &sources.repo_url),
        server_ca_pem: options.server_ca_pem.clone(),
        timeout_secs: timeout_secs(response.runner_info.timeout),
        variables: list,
        steps,
        image: match response.image.filter(|image| !image.name.is_empty()) {
            Some(named) => Some(image(named, "image")?),
            None => None,
        },
        services: services(response.services)?,
        artifacts: artifacts(response.artifacts)?,
        caches,
        registry_credentials: registry_credentials(response.credentials),
        dependencies: response.dependencies.into_iter().map(dependency).collect(),
        trace: TraceOptions {
            sections: response.features.trace_sections,
            mask_prefixes: response.features.token_mask_prefixes,
            limit_bytes: options.output_limit,
        },
        hooks: hooks(response.hooks, &mut warnings)?,
        job: job_info(response.id, response.job_info, options),
        sources,
    };
    Ok(Translated {
        job,
        warnings,
        notices,
    })
}

/// `secrets` and `run` are not built (gitlab-runner, wire §1.8.6 and wire §1.8.4), nor are options of other executors.
fn check_supported(response: &JobResponse) -> Result<(), Refusal> {
    if response.has_secrets {
        return Err(Refusal::Secrets);
    }
    if response.has_run {
        return Err(Refusal::Run);
    }
    check_executor_options(response.image.iter().chain(&response.services))
}

fn job_info(id: u64, info: response::JobInfo, options: &Options) -> JobInfo {
    JobInfo {
        id,
        name: info.name,
        stage: info.stage,
        pipeline_id: info.pipeline_id,
        project_id: info.project_id,
        project_name: info.project_name,
        project_path: info.project_full_path,
        namespace_id: info.namespace_id,
        root_namespace_id: info.root_namespace_id,
        user_id: info.user_id,
        runner_id: options.runner.id,
    }
}

fn server_url(options: &Options, variables: &Variables, repo_url: &str) -> String {
    match (&options.server_url, variables.value("CI_SERVER_URL")) {
        (Some(url), _) => without_credentials(url),
        (None, "") => origin(repo_url).unwrap_or_default(),
        (None, url) => without_credentials(url),
    }
}

fn timeout_secs(timeout: i64) -> u64 {
    match u64::try_from(timeout) {
        Ok(seconds) if seconds > 0 => seconds,
        _ => DEFAULT_TIMEOUT_SECS,
    }
}

fn steps(steps: Option<Vec<response::Step>>) -> Result<Vec<Step>, TranslateError> {
    let steps = steps.ok_or(TranslateError::Missing {
        path: "steps",
        need: "the commands to run",
    })?;
    let steps = steps
        .into_iter()
        .map(|step| {
            let place = || format!("the script of step {:?}", step.name);
            check_script(&step.script, place)?;
            Ok(Step {
                // GitLab Runner reads it nowhere (gitlab-runner, build §1.2).
                when: when(&step.when, String::new).unwrap_or_default(),
                name: or_else_named(step.name, DEFAULT_STEP),
                script: step.script,
                timeout_secs: step.timeout,
                allow_failure: step.allow_failure,
            })
        })
        .collect::<Result<_, Refusal>>()?;
    Ok(steps)
}

fn or_else_named(name: String, default: &str) -> String {
    if name.is_empty() {
        default.to_owned()
    } else {
        name
    }
}

fn check_script(script: &[String], place: impl FnOnce() -> String) -> Result<(), Refusal> {
    if script.iter().any(|command| command.contains('\0')) {
        return Err(Refusal::Nul { place: place() });
    }
    Ok(())
}

/// When something applies; an empty word means on success (gitlab-runner, build §1.2.2).
pub(super) fn when(when: &str, path: impl FnOnce() -> String) -> Result<When, Refusal> {
    match when {
        "" | "on_success" => Ok(When::OnSuccess),
        "on_failure" => Ok(When::OnFailure),
        "always" => Ok(When::Always),
        _ => Err(Refusal::Value {
            path: path(),
            value: when.to_owned(),
            known: "on_success, on_failure, always",
        }),
    }
}

fn services(services: Vec<response::Image>) -> Result<Vec<vk_hub_proto::job::Image>, Refusal> {
    services
        .into_iter()
        .enumerate()
        .map(|(position, service)| {
            let service = image(service, &format!("services[{position}]"))?;
            service.variables.iter().try_for_each(check)?;
            Ok(service)
        })
        .collect()
}

fn artifacts(artifacts: Vec<response::Artifact>) -> Result<Vec<Artifact>, Refusal> {
    artifacts
        .into_iter()
        .enumerate()
        .map(|(position, artifact)| {
            Ok(Artifact {
                when: when(&artifact.when, || format!("artifacts[{position}].when"))?,
                artifact_format: artifact_format(&artifact.artifact_format, position)?,
                name: artifact.name,
                untracked: artifact.untracked,
                paths: artifact.paths,
                exclude: artifact.exclude,
                artifact_type: or_else_named(artifact.artifact_type, DEFAULT_ARTIFACT_TYPE),
                expire_in: artifact.expire_in,
            })
        })
        .collect()
}

fn artifact_format(format: &str, position: usize) -> Result<ArtifactFormat, Refusal> {
    match format {
        "" | "zip" => Ok(ArtifactFormat::Zip),
        "gzip" => Ok(ArtifactFormat::Gzip),
        "raw" => Ok(ArtifactFormat::Raw),
        "zipzstd" => Ok(ArtifactFormat::ZipZstd),
        "tarzstd" => Ok(ArtifactFormat::TarZstd),
        _ => Err(Refusal::Value {
            path: format!("artifacts[{position}].artifact_format"),
            value: format.to_owned(),
            known: "zip, gzip, raw, zipzstd, tarzstd",
        }),
    }
}

fn registry_credentials(credentials: Vec<response::Credentials>) -> Vec<RegistryCredential> {
    credentials
        .into_iter()
        .filter(|credential| credential.kind == "registry")
        .map(|credential| RegistryCredential {
            url: credential.url,
            username: credential.username,
            password: credential.password,
        })
        .collect()
}

fn dependency(dependency: response::Dependency) -> Dependency {
    Dependency {
        id: dependency.id,
        name: dependency.name,
        token: dependency.token,
        filename: dependency.artifacts_file.filename,
        size: dependency.artifacts_file.size,
    }
}

fn hooks(hooks: Vec<response::Hook>, warnings: &mut Vec<String>) -> Result<Vec<Hook>, Refusal> {
    let mut known = Vec::with_capacity(hooks.len());
    for hook in hooks {
        let name = match hook.name.as_str() {
            "pre_get_sources_script" => HookName::PreGetSourcesScript,
            "post_get_sources_script" => HookName::PostGetSourcesScript,
            name => {
                warnings.push(format!("the job's hook {name:?} is not known and ignored"));
                continue;
            }
        };
        check_script(&hook.script, || {
            format!("the script of hook {:?}", hook.name)
        })?;
        known.push(Hook {
            name,
            script: hook.script,
        });
    }
    Ok(known)
}
