//! The job as a whole.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::take;

use vk_hub_proto::job::{
    ArchiveFormat, Artifact, CiJob, Dependency, Hook, HookName, JobInfo, RegistryCredential, Step,
    TraceOptions, When, variables::Variables,
};

use super::cache::{KeyContext, cache};
use super::error::{Refusal, Stop, TranslateError};
use super::image::{self, check_executor_options};
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
/// When a field is missing that vk needs, or the job asks for what vk does not do: then with what is known of the job.
pub fn translate(
    mut response: JobResponse,
    options: &Options,
) -> Result<Translated, TranslateError> {
    let supported = check_supported(&response);
    let ports = check_all_ports(&response);
    let mut translated = Translated {
        job: known(&mut response, options),
        warnings: Vec::new(),
        notices: policy::lines(&response.policy_options),
    };
    let complete = supported
        .map_err(Stop::from)
        .and_then(|()| complete(&mut translated, response, ports, options));
    match complete {
        Ok(()) => Ok(translated),
        Err(Stop::Missing { path, need }) => Err(TranslateError::Missing { path, need }),
        Err(Stop::Refused(refusal)) => Err(TranslateError::Refused {
            refusal,
            job: Box::new(translated.job),
        }),
    }
}

/// What is known of any job, a refused one included: what its trace is made by, and all that is secret.
fn known(response: &mut JobResponse, options: &Options) -> CiJob {
    let image = take(&mut response.image);
    CiJob {
        job: job_info(response.id, take(&mut response.job_info), options),
        token: take(&mut response.token),
        server_ca_pem: options.server_ca_pem.clone(),
        timeout_secs: timeout_secs(response.runner_info.timeout),
        variables: variables(take(&mut response.variables), options),
        image: image
            .filter(|image| !image.name.is_empty())
            .map(image::image),
        services: each(take(&mut response.services), image::image),
        registry_credentials: registry_credentials(take(&mut response.credentials)),
        dependencies: each(take(&mut response.dependencies), dependency),
        trace: TraceOptions {
            sections: response.features.trace_sections,
            mask_prefixes: take(&mut response.features.token_mask_prefixes),
            limit_bytes: options.output_limit,
        },
        ..CiJob::default()
    }
}

fn each<T, U>(list: Vec<T>, change: impl Fn(T) -> U) -> Vec<U> {
    list.into_iter().map(change).collect()
}

/// Adds what may be refused.
fn complete(
    translated: &mut Translated,
    response: JobResponse,
    ports: Result<(), Refusal>,
    options: &Options,
) -> Result<(), Stop> {
    let Translated { job, warnings, .. } = translated;
    if response.has_inputs {
        warnings.push(
            "the job has `inputs`, which vk ignores: `${{ job.inputs.… }}` stays as it is"
                .to_owned(),
        );
    }
    job.steps = steps(response.steps)?;
    warnings.extend(repeated_steps(&job.steps));
    job.variables.iter().try_for_each(check)?;
    let expanded = Variables::new(job.variables.clone()).expanded();
    warnings.extend(short_masked_values(&expanded));
    job.sources = sources(
        response.git_info,
        response.allow_git_fetch,
        &expanded,
        options,
    )?;
    job.server_url = server_url(options, &expanded, &job.sources.repo_url);
    let secrets = job.secrets();
    let key_context = KeyContext {
        variables: &expanded,
        secrets: &secrets,
        job_name: &job.job.name,
        git_ref: &job.sources.git_ref,
    };
    job.caches = response
        .cache
        .into_iter()
        .enumerate()
        .map(|(position, entry)| cache(entry, position, &key_context))
        .collect::<Result<_, _>>()?;
    ports?;
    let of_services = job.services.iter().flat_map(|service| &service.variables);
    for variable in of_services {
        check(variable)?;
    }
    job.artifacts = artifacts(response.artifacts)?;
    job.hooks = hooks(response.hooks, warnings)?;
    Ok(())
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

fn check_all_ports(response: &JobResponse) -> Result<(), Refusal> {
    if let Some(image) = response
        .image
        .as_ref()
        .filter(|image| !image.name.is_empty())
    {
        image::check_ports(image, "image")?;
    }
    response
        .services
        .iter()
        .enumerate()
        .try_for_each(|(position, service)| {
            image::check_ports(service, &format!("services[{position}]"))
        })
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

fn steps(steps: Option<Vec<response::Step>>) -> Result<Vec<Step>, Stop> {
    let steps = steps.ok_or(Stop::Missing {
        path: "steps",
        need: "the commands to run",
    })?;
    let steps = steps
        .into_iter()
        .map(|step| {
            // GitLab always names it, be it by nothing.
            let name = step.name.unwrap_or_else(|| DEFAULT_STEP.to_owned());
            let place = || format!("the script of step {name:?}");
            check_script(&step.script, place)?;
            Ok(Step {
                // GitLab Runner reads it nowhere (gitlab-runner, build §1.2).
                when: when(&step.when, String::new).unwrap_or_default(),
                name,
                script: step.script,
                timeout_secs: step.timeout,
                allow_failure: step.allow_failure,
            })
        })
        .collect::<Result<_, Refusal>>()?;
    Ok(steps)
}

/// Steps that do not run their own commands (gitlab-runner, build §1.2: a stage is found by its lowercased name).
fn repeated_steps(steps: &[Step]) -> Vec<String> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    let mut told = Vec::new();
    // That of `after_script` is run once, whatever comes after it.
    for step in steps.iter().filter(|step| step.name != "after_script") {
        match seen.entry(step.name.to_lowercase()) {
            Entry::Vacant(free) => {
                free.insert(&step.name);
            }
            Entry::Occupied(earlier) => told.push(format!(
                "step {:?} runs the commands of the earlier step {:?} again, as with GitLab Runner: give it another name",
                step.name,
                earlier.get()
            )),
        }
    }
    told
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

fn artifacts(artifacts: Vec<response::Artifact>) -> Result<Vec<Artifact>, Refusal> {
    artifacts
        .into_iter()
        .enumerate()
        .map(|(position, artifact)| {
            Ok(Artifact {
                when: when(&artifact.when, || format!("artifacts[{position}].when"))?,
                artifact_format: artifact_format(&artifact.artifact_format, position)?.into(),
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

fn artifact_format(format: &str, position: usize) -> Result<ArchiveFormat, Refusal> {
    match format {
        "" | "zip" => Ok(ArchiveFormat::Zip),
        "gzip" => Ok(ArchiveFormat::Gzip),
        "raw" => Ok(ArchiveFormat::Raw),
        "zipzstd" => Ok(ArchiveFormat::ZipZstd),
        "tarzstd" => Ok(ArchiveFormat::TarZstd),
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
