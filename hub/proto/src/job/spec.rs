//! [`CiJob`] and its parts, as the dispatch protocol's field table defines them.

use serde::{Deserialize, Deserializer, Serialize};
use vk_archive_format::Format;

use super::Secret;

/// A job's limit in seconds where its spec has none: GitLab's own for a project.
const DEFAULT_TIMEOUT_SECS: u64 = 3600;

/// Bytes of trace that are kept where a spec does not say: GitLab Runner's default `output_limit`.
const DEFAULT_LIMIT_BYTES: u64 = 4 * 1024 * 1024;

/// A job of any kind a node can run, told apart by `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobSpec {
    /// A GitLab CI job; the only kind so far.
    GitlabCi(Box<CiJob>),
    /// A kind that this build does not know. Nothing of it is kept: the job is refused as
    /// [`Failure::Configuration`](super::Failure::Configuration).
    #[serde(other)]
    Other,
}

/// A GitLab CI job, translated from GitLab's job response.
///
/// It carries secrets (`token`, masked variables, credentials): [`CiJob::secrets`] lists them. Its [`Debug`] output shows
/// none, as [`CiJob::redacted`] does not; its JSON has them all.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CiJob {
    /// Who and what the job is in GitLab.
    pub job: JobInfo,
    /// The job's own token (`CI_JOB_TOKEN`): clone, artifact upload, trace.
    pub token: Secret,
    /// URL of the GitLab server, as the runner is configured with.
    pub server_url: String,
    /// PEM certificates that the server's TLS chain is checked with, beside the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ca_pem: Option<String>,
    /// Where the sources come from.
    pub sources: Sources,
    /// Limit on the job's whole run, in seconds; at least 1. 3600 where there is none.
    #[serde(default = "default_timeout_secs")]
    pub timeout_secs: u64,
    /// The job's variables in GitLab's order, the runner's own behind them, save for `CI_RUNNER_SHORT_TOKEN`, which
    /// stands before them so that a job may override it. A later one wins.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// The job's steps in order; the one named `after_script` runs after the others.
    pub steps: Vec<Step>,
    /// The image the job's VM boots; `None` for the node's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Services that run beside the job.
    #[serde(default)]
    pub services: Vec<Image>,
    /// What to upload when the steps are over.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// What to keep between jobs.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// Credentials of image registries.
    #[serde(default)]
    pub registry_credentials: Vec<RegistryCredential>,
    /// Earlier jobs whose artifacts this one starts with.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
    /// How the trace is made.
    #[serde(default)]
    pub trace: TraceOptions,
    /// Scripts that run around the checkout.
    #[serde(default)]
    pub hooks: Vec<Hook>,
}

fn default_timeout_secs() -> u64 {
    DEFAULT_TIMEOUT_SECS
}

impl Default for CiJob {
    /// A job without anything to do, which may run for an hour.
    fn default() -> Self {
        Self {
            job: JobInfo::default(),
            token: Secret::default(),
            server_url: String::new(),
            server_ca_pem: None,
            sources: Sources::default(),
            timeout_secs: DEFAULT_TIMEOUT_SECS,
            variables: Vec::new(),
            steps: Vec::new(),
            image: None,
            services: Vec::new(),
            artifacts: Vec::new(),
            caches: Vec::new(),
            registry_credentials: Vec::new(),
            dependencies: Vec::new(),
            trace: TraceOptions::default(),
            hooks: Vec::new(),
        }
    }
}

/// Identity of a job within GitLab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobInfo {
    /// GitLab's job ID.
    pub id: u64,
    /// The job's name in `.gitlab-ci.yml`.
    pub name: String,
    /// The job's stage in `.gitlab-ci.yml`.
    pub stage: String,
    /// ID of the pipeline.
    pub pipeline_id: u64,
    /// ID of the project.
    pub project_id: u64,
    /// The project's short name.
    pub project_name: String,
    /// The project's full path, groups included.
    pub project_path: String,
    /// ID of the project's namespace.
    pub namespace_id: u64,
    /// ID of the topmost group above the project.
    pub root_namespace_id: u64,
    /// ID of the user who started the job.
    pub user_id: u64,
    /// ID of the runner that took the job, as GitLab's verify call answered; 0 when unknown.
    pub runner_id: u64,
}

/// What `git_info` says, credentials stripped from the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sources {
    /// Whether a tree kept from an earlier job may be reused (the default strategy is then `fetch`).
    pub allow_fetch: bool,
    /// Repository URL without user or password.
    pub repo_url: String,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// Branch or tag name, or a merge request's ref.
    #[serde(rename = "ref")]
    pub git_ref: String,
    /// The commit to check out, in hex.
    pub sha: String,
    /// The commit before the push, in hex.
    pub before_sha: String,
    /// Whether `ref` is a branch or a tag.
    pub ref_type: RefType,
    /// What to fetch, in git's refspec syntax.
    pub refspecs: Vec<String>,
    /// Commits of history to fetch; 0 for all.
    pub depth: u32,
    /// Whether the ref is protected.
    pub protected: bool,
}

/// Kind of a git ref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefType {
    /// A branch, or a merge request's ref.
    #[default]
    Branch,
    /// A tag.
    Tag,
    /// A kind that this build does not know. It counts as a branch: `refspecs` and `sha` say what to fetch.
    #[serde(other)]
    Other,
}

/// One CI/CD variable.
///
/// Its [`Debug`] output shows the value of a public one only that is neither masked nor a file.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variable {
    /// Name.
    pub key: String,
    /// Value, before expansion; the content for a file variable.
    pub value: String,
    /// Whether service containers get it.
    pub public: bool,
    /// Whether the job sees a path to a file with the value instead of the value.
    pub file: bool,
    /// Whether the expanded value is masked in the trace.
    pub masked: bool,
    /// Whether the value is taken as it is, references unexpanded.
    pub raw: bool,
}

impl Variable {
    /// A variable that services get, too, and that is neither masked nor a file nor raw.
    #[must_use]
    pub fn public(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            public: true,
            ..Self::default()
        }
    }
}

/// One step of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// `script`, `after_script`, or another name (`release`).
    pub name: String,
    /// Commands, in order, of one shell.
    pub script: Vec<String>,
    /// GitLab's own limit in seconds; like GitLab Runner, a node does not act on it.
    pub timeout_secs: u64,
    /// When GitLab wants the step run; like GitLab Runner, a node does not act on it.
    pub when: When,
    /// Whether GitLab tolerates a failure; like GitLab Runner, a node does not act on it.
    pub allow_failure: bool,
}

/// When a step, an artifact or a cache applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum When {
    /// Only when the job's steps succeeded.
    #[default]
    OnSuccess,
    /// Only when they failed.
    OnFailure,
    /// In both cases.
    Always,
    /// A case that this build does not know: what it is said of never applies.
    #[serde(other)]
    Other,
}

impl When {
    /// Whether this applies to a job whose steps ended in `success`.
    #[must_use]
    pub fn applies(self, success: bool) -> bool {
        match self {
            Self::OnSuccess => success,
            Self::OnFailure => !success,
            Self::Always => true,
            Self::Other => false,
        }
    }
}

/// The image of a job or a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Image {
    /// Reference as the job wrote it, variables unexpanded.
    pub name: String,
    /// Host names a service answers to, already split.
    pub aliases: Vec<String>,
    /// Command instead of the image's.
    pub command: Vec<String>,
    /// Entry point instead of the image's.
    pub entrypoint: Vec<String>,
    /// Ports a service listens on.
    pub ports: Vec<u16>,
    /// Variables of this service alone.
    pub variables: Vec<Variable>,
    /// Pull policies to try, in order; empty for the node's default.
    pub pull_policy: Vec<String>,
    /// Platform instead of the node's own, such as `linux/arm64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// User (name or number, with an optional group) instead of the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// One artifact archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Artifact {
    /// File name without extension; empty for GitLab's default.
    pub name: String,
    /// Whether files that git does not track belong to it.
    pub untracked: bool,
    /// Patterns of paths to take.
    pub paths: Vec<String>,
    /// Patterns of paths to leave out.
    pub exclude: Vec<String>,
    /// When it is made.
    pub when: When,
    /// `archive`, or a report's type such as `junit`.
    pub artifact_type: String,
    /// How it is packed.
    pub artifact_format: ArtifactFormat,
    /// How long GitLab keeps it, as the job wrote it.
    pub expire_in: String,
}

/// How an artifact is packed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ArtifactFormat {
    /// In a way that this build knows.
    Known(Format),
    /// In another way, by its name. A job with such an artifact is refused as
    /// [`Failure::Configuration`](super::Failure::Configuration), with [`UnknownFormat`]: packed in another way, those
    /// who read it could not.
    Other(String),
}

impl Default for ArtifactFormat {
    /// A zip, as GitLab takes it where a job does not say.
    fn default() -> Self {
        Self::Known(Format::default())
    }
}

impl From<Format> for ArtifactFormat {
    fn from(format: Format) -> Self {
        Self::Known(format)
    }
}

/// An artifact's format is none that this build can make.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the artifact format {0:?} is not known: it must be one of zip, gzip, raw, zipzstd, tarzstd"
)]
pub struct UnknownFormat(pub String);

impl ArtifactFormat {
    /// The format to pack in.
    ///
    /// # Errors
    ///
    /// [`UnknownFormat`], where this build does not know it: the job is not to be run.
    pub fn known(&self) -> Result<Format, UnknownFormat> {
        match self {
            Self::Known(format) => Ok(*format),
            Self::Other(name) => Err(UnknownFormat(name.clone())),
        }
    }
}

/// One cache.
///
/// Its keys are expanded and may hold values of masked variables, which its own [`Debug`] output shows; that of the job
/// does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Key, expanded and sanitised: a relative path without `.` and `..`. Empty when nothing is left of it.
    pub key: String,
    /// Key as expanded but not sanitised, for the warning that names a change, and for `FF_HASH_CACHE_KEYS`, under
    /// which it counts.
    pub raw_key: String,
    /// Keys to try when `key` is not found, in order, expanded and sanitised. One of which nothing is left is empty.
    pub fallback_keys: Vec<String>,
    /// The same keys as expanded but not sanitised, for the warnings that name changes, and for `FF_HASH_CACHE_KEYS`,
    /// under which they count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub raw_fallback_keys: Vec<String>,
    /// Whether files that git does not track belong to it.
    pub untracked: bool,
    /// Which ways it goes.
    pub policy: CachePolicy,
    /// Patterns of paths to keep.
    pub paths: Vec<String>,
    /// When it is saved.
    pub when: When,
}

/// Which ways a cache goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CachePolicy {
    /// Restored before the steps, saved after.
    #[default]
    PullPush,
    /// Restored only.
    Pull,
    /// Saved only.
    Push,
    /// A policy that this build does not know: the cache is neither restored nor saved, and the trace says so. A job
    /// must succeed without its caches.
    #[serde(other)]
    Other,
}

impl CachePolicy {
    /// Whether the cache is restored before the steps.
    #[must_use]
    pub fn restores(self) -> bool {
        matches!(self, Self::PullPush | Self::Pull)
    }

    /// Whether it is saved after them.
    #[must_use]
    pub fn saves(self) -> bool {
        matches!(self, Self::PullPush | Self::Push)
    }
}

/// Login of an image registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistryCredential {
    /// Registry host, with a port where it has one.
    pub url: String,
    /// User.
    pub username: String,
    /// Password or token.
    pub password: Secret,
}

/// An earlier job whose artifacts this one downloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// Its job ID.
    pub id: u64,
    /// Its job name.
    pub name: String,
    /// The token that opens its artifacts.
    pub token: Secret,
    /// File name of its archive; empty when it has none.
    pub filename: String,
    /// Size of its archive in bytes, as GitLab says.
    pub size: u64,
}

/// How a job's trace is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceOptions {
    /// Whether stages are marked as sections.
    pub sections: bool,
    /// Token prefixes to mask behind, beside the default ones.
    pub mask_prefixes: Vec<String>,
    /// Bytes after which the trace is cut, stamps counted. 4194304 where a spec has none, or 0: as GitLab Runner takes
    /// its `output_limit`.
    #[serde(deserialize_with = "limit_bytes")]
    pub limit_bytes: u64,
}

impl Default for TraceOptions {
    /// No sections, GitLab's own token prefixes, 4 MiB.
    fn default() -> Self {
        Self {
            sections: false,
            mask_prefixes: Vec::new(),
            limit_bytes: DEFAULT_LIMIT_BYTES,
        }
    }
}

fn limit_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(match u64::deserialize(deserializer)? {
        0 => DEFAULT_LIMIT_BYTES,
        limit => limit,
    })
}

/// A script around the checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Where it runs.
    pub name: HookName,
    /// Commands, in order.
    pub script: Vec<String>,
}

/// Where a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookName {
    /// Before the checkout.
    PreGetSourcesScript,
    /// After it.
    PostGetSourcesScript,
    /// A place that this build does not know: the script is never run, as GitLab Runner runs none it does not know.
    #[serde(other)]
    Other,
}

impl CiJob {
    /// The script of the first hook called `name`; empty when the job has none (the first entry wins, as in
    /// GitLab Runner), and for [`HookName::Other`].
    #[must_use]
    pub fn hook(&self, name: HookName) -> &[String] {
        self.hooks
            .iter()
            .find(|hook| hook.name == name && name != HookName::Other)
            .map_or(&[], |hook| hook.script.as_slice())
    }
}
