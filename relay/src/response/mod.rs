//! GitLab's job response: what `POST /api/v4/jobs/request` answers (gitlab-runner, wire §1.8).
//!
//! Every field is optional, `null` means absent, and what is not known is ignored. Fields that vk makes no use of are
//! not read at all.

mod executor_opts;
mod lenient;
mod parse;
mod types;

pub use executor_opts::{DockerOptions, ExecutorOptions, KubernetesOptions};
pub use parse::{ParseError, parse};
pub use types::{
    Artifact, ArtifactsFile, Cache, Credentials, Dependency, Features, GitInfo, Hook, Image,
    JobInfo, JobResponse, PolicyOptions, Port, RunnerInfo, Step, Variable,
};
