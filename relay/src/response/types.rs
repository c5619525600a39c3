//! The response's types, field by field (gitlab-runner, wire §1.8).

use std::fmt;

use serde::Deserialize;
use vk_hub_proto::job::{REDACTED, Secret};

use super::executor_opts::ExecutorOptions;
use super::lenient;

/// A job, as GitLab hands it to a runner.
///
/// It carries secrets; its [`Debug`](fmt::Debug) output does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct JobResponse {
    /// The job's ID.
    #[serde(deserialize_with = "lenient::integer")]
    pub id: u64,
    /// The job's own token.
    #[serde(deserialize_with = "lenient::or_default")]
    pub token: Secret,
    /// Whether a tree kept from an earlier job may be reused.
    #[serde(deserialize_with = "lenient::or_default")]
    pub allow_git_fetch: bool,
    /// What the job is.
    #[serde(deserialize_with = "lenient::object")]
    pub job_info: JobInfo,
    /// Where its sources are.
    #[serde(deserialize_with = "lenient::optional_object")]
    pub git_info: Option<GitInfo>,
    /// What concerns the runner.
    #[serde(deserialize_with = "lenient::object")]
    pub runner_info: RunnerInfo,
    /// Whether there are `inputs`, a feature that vk does not advertise (gitlab-runner, wire §1.8.5).
    #[serde(rename = "inputs", deserialize_with = "lenient::holds_anything")]
    pub has_inputs: bool,
    /// Variables, in order.
    #[serde(deserialize_with = "lenient::objects")]
    pub variables: Vec<Variable>,
    /// Steps, in order.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub steps: Option<Vec<Step>>,
    /// Image of the job.
    #[serde(deserialize_with = "lenient::optional_object")]
    pub image: Option<Image>,
    /// Images of its services.
    #[serde(deserialize_with = "lenient::objects")]
    pub services: Vec<Image>,
    /// What to upload.
    #[serde(deserialize_with = "lenient::objects")]
    pub artifacts: Vec<Artifact>,
    /// What to keep between jobs.
    #[serde(deserialize_with = "lenient::objects")]
    pub cache: Vec<Cache>,
    /// Logins.
    #[serde(deserialize_with = "lenient::objects")]
    pub credentials: Vec<Credentials>,
    /// Earlier jobs whose artifacts to download.
    #[serde(deserialize_with = "lenient::objects")]
    pub dependencies: Vec<Dependency>,
    /// What GitLab wants or can do (gitlab-runner, wire §1.8.3).
    #[serde(deserialize_with = "lenient::object")]
    pub features: Features,
    /// Whether there are `secrets`, a feature that vk does not advertise.
    #[serde(rename = "secrets", deserialize_with = "lenient::holds_anything")]
    pub has_secrets: bool,
    /// Scripts around the checkout.
    #[serde(deserialize_with = "lenient::objects")]
    pub hooks: Vec<Hook>,
    /// Whether there is a `run` keyword, a feature that vk does not advertise.
    #[serde(rename = "run", deserialize_with = "lenient::holds_anything")]
    pub has_run: bool,
    /// The security policy that brought the job.
    #[serde(deserialize_with = "lenient::object")]
    pub policy_options: PolicyOptions,
}

/// The security policy that a job comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PolicyOptions {
    /// Whether there is one.
    #[serde(deserialize_with = "lenient::or_default")]
    pub execution_policy_job: bool,
    /// Its name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub policy_name: String,
    /// Whether variables of the user's win over the policy's; `None` where GitLab does not say.
    pub policy_variables_override_allowed: Option<bool>,
    /// Names of variables for which the opposite holds.
    #[serde(deserialize_with = "lenient::or_default")]
    pub policy_variables_override_exceptions: Vec<String>,
}

/// Identity of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct JobInfo {
    /// Its name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Its stage's name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub stage: String,
    /// Its pipeline.
    #[serde(deserialize_with = "lenient::integer")]
    pub pipeline_id: u64,
    /// Its project.
    #[serde(deserialize_with = "lenient::integer")]
    pub project_id: u64,
    /// The project's short name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub project_name: String,
    /// The project's path, groups included.
    #[serde(deserialize_with = "lenient::or_default")]
    pub project_full_path: String,
    /// The project's namespace.
    #[serde(deserialize_with = "lenient::integer")]
    pub namespace_id: u64,
    /// The topmost group above.
    #[serde(deserialize_with = "lenient::integer")]
    pub root_namespace_id: u64,
    /// Who started it.
    #[serde(deserialize_with = "lenient::integer")]
    pub user_id: u64,
}

/// Where a job's sources are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GitInfo {
    /// URL with the job's credentials.
    #[serde(deserialize_with = "lenient::or_default")]
    pub repo_url: Secret,
    /// `sha1` or `sha256`; empty for `sha1`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub repo_object_format: String,
    /// Branch, tag or merge request's ref.
    #[serde(rename = "ref", deserialize_with = "lenient::or_default")]
    pub git_ref: String,
    /// Commit to check out.
    #[serde(deserialize_with = "lenient::or_default")]
    pub sha: String,
    /// Commit before the push.
    #[serde(deserialize_with = "lenient::or_default")]
    pub before_sha: String,
    /// `branch` or `tag`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub ref_type: String,
    /// What to fetch.
    #[serde(deserialize_with = "lenient::or_default")]
    pub refspecs: Vec<String>,
    /// Commits of history to fetch; 0 for all.
    #[serde(deserialize_with = "lenient::optional_integer")]
    pub depth: Option<u32>,
    /// Whether the ref is protected.
    #[serde(deserialize_with = "lenient::or_default")]
    pub protected: bool,
}

/// What concerns the runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RunnerInfo {
    /// Limit on the job's run in seconds; 0 or less for the default.
    #[serde(deserialize_with = "lenient::integer")]
    pub timeout: i64,
}

/// A variable.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Variable {
    /// Name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub key: String,
    /// Value or, of a file, content.
    #[serde(deserialize_with = "lenient::or_default")]
    pub value: String,
    /// Whether services get it.
    #[serde(deserialize_with = "lenient::or_default")]
    pub public: bool,
    /// Whether it is a file.
    #[serde(deserialize_with = "lenient::or_default")]
    pub file: bool,
    /// Whether its value is masked.
    #[serde(deserialize_with = "lenient::or_default")]
    pub masked: bool,
    /// Whether its value is not expanded.
    #[serde(deserialize_with = "lenient::or_default")]
    pub raw: bool,
}

/// Shows the value of a variable that is public and neither masked nor a file.
impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            public,
            file,
            masked,
            raw,
        } = self;
        let is_shown = *public && !masked && !file;
        formatter
            .debug_struct("Variable")
            .field("key", key)
            .field("value", if is_shown { value } else { &REDACTED })
            .field("public", public)
            .field("file", file)
            .field("masked", masked)
            .field("raw", raw)
            .finish()
    }
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Step {
    /// `script`, `after_script` or another.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: Option<String>,
    /// Commands.
    #[serde(deserialize_with = "lenient::or_default")]
    pub script: Vec<String>,
    /// Limit in seconds.
    #[serde(deserialize_with = "lenient::integer")]
    pub timeout: u64,
    /// When to run it.
    #[serde(deserialize_with = "lenient::or_default")]
    pub when: String,
    /// Whether it may fail.
    #[serde(deserialize_with = "lenient::or_default")]
    pub allow_failure: bool,
}

/// An image, of a job or a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Image {
    /// Reference.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Host names, separated by commas or white space.
    #[serde(deserialize_with = "lenient::or_default")]
    pub alias: String,
    /// Command instead of the image's.
    #[serde(deserialize_with = "lenient::or_default")]
    pub command: Vec<String>,
    /// Entry point instead of the image's.
    #[serde(deserialize_with = "lenient::or_default")]
    pub entrypoint: Vec<String>,
    /// Ports.
    #[serde(deserialize_with = "lenient::objects")]
    pub ports: Vec<Port>,
    /// Variables of this service alone.
    #[serde(deserialize_with = "lenient::objects")]
    pub variables: Vec<Variable>,
    /// Pull policies to try. GitLab sends a list; a file written by hand may name one, as `.gitlab-ci.yml` may.
    #[serde(deserialize_with = "lenient::one_or_more")]
    pub pull_policy: Vec<String>,
    /// Options by executor.
    #[serde(deserialize_with = "lenient::or_default")]
    pub executor_opts: ExecutorOptions,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its number.
    #[serde(deserialize_with = "lenient::integer")]
    pub number: i64,
}

/// An artifact archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Artifact {
    /// File name without extension.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Whether untracked files belong to it.
    #[serde(deserialize_with = "lenient::or_default")]
    pub untracked: bool,
    /// Patterns to take.
    #[serde(deserialize_with = "lenient::or_default")]
    pub paths: Vec<String>,
    /// Patterns to leave out.
    #[serde(deserialize_with = "lenient::or_default")]
    pub exclude: Vec<String>,
    /// When it is made.
    #[serde(deserialize_with = "lenient::or_default")]
    pub when: String,
    /// `archive` or a report's type.
    #[serde(deserialize_with = "lenient::or_default")]
    pub artifact_type: String,
    /// How it is packed; empty for `zip`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub artifact_format: String,
    /// How long GitLab keeps it.
    #[serde(deserialize_with = "lenient::or_default")]
    pub expire_in: String,
}

/// A cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Key, unexpanded.
    #[serde(deserialize_with = "lenient::or_default")]
    pub key: String,
    /// Whether untracked files belong to it.
    #[serde(deserialize_with = "lenient::or_default")]
    pub untracked: bool,
    /// `pull-push`, `pull` or `push`; empty for the first.
    #[serde(deserialize_with = "lenient::or_default")]
    pub policy: String,
    /// Patterns to keep.
    #[serde(deserialize_with = "lenient::or_default")]
    pub paths: Vec<String>,
    /// When it is saved.
    #[serde(deserialize_with = "lenient::or_default")]
    pub when: String,
    /// Keys to try next, unexpanded.
    #[serde(deserialize_with = "lenient::or_default")]
    pub fallback_keys: Vec<String>,
}

/// A login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Credentials {
    /// What for; `registry` is the one used.
    #[serde(rename = "type", deserialize_with = "lenient::or_default")]
    pub kind: String,
    /// Host.
    #[serde(deserialize_with = "lenient::or_default")]
    pub url: String,
    /// User.
    #[serde(deserialize_with = "lenient::or_default")]
    pub username: String,
    /// Password.
    #[serde(deserialize_with = "lenient::or_default")]
    pub password: Secret,
}

/// An earlier job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// Its ID.
    #[serde(deserialize_with = "lenient::integer")]
    pub id: u64,
    /// Token for its artifacts.
    #[serde(deserialize_with = "lenient::or_default")]
    pub token: Secret,
    /// Its name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Its archive.
    #[serde(deserialize_with = "lenient::object")]
    pub artifacts_file: ArtifactsFile,
}

/// An archive to download.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ArtifactsFile {
    /// Its name; empty for none.
    #[serde(deserialize_with = "lenient::or_default")]
    pub filename: String,
    /// Its size in bytes.
    #[serde(deserialize_with = "lenient::integer")]
    pub size: u64,
}

/// What GitLab wants or can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Features {
    /// Whether it shows sections.
    #[serde(deserialize_with = "lenient::or_default")]
    pub trace_sections: bool,
    /// Token prefixes to mask behind.
    #[serde(deserialize_with = "lenient::or_default")]
    pub token_mask_prefixes: Vec<String>,
    /// Failure reasons it knows.
    #[serde(deserialize_with = "lenient::or_default")]
    pub failure_reasons: Vec<String>,
}

/// A script around the checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// Where it runs.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Commands.
    #[serde(deserialize_with = "lenient::or_default")]
    pub script: Vec<String>,
}
