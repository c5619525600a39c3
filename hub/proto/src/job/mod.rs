//! The job spec: what a node is told to run, and what it answers.
//!
//! A spec is normalised: the relay fills defaults in, strips credentials from URLs, splits aliases and
//! expands cache keys, so that a node interprets nothing of GitLab's own format.

pub mod cache_key;
mod failure;
mod redact;
mod result;
mod secret;
mod secrets;
mod spec;
pub mod variables;

pub use failure::{Failure, gitlab_failure_reason};
pub use redact::{REDACTED, hidden};
pub use result::{ArtifactOutcome, ArtifactResult, JobResult, Usage};
pub use secret::Secret;
pub use spec::{
    Artifact, ArtifactFormat, Cache, CachePolicy, CiJob, Dependency, Hook, HookName, Image,
    JobInfo, JobSpec, RefType, RegistryCredential, Sources, Step, TraceOptions, UnknownFormat,
    Variable, When,
};
pub use vk_archive_format::Format as ArchiveFormat;
