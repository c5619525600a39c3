//! Artifacts and caches: archives between a host, GitLab, and a registry or a folder of the host.
//!
//! `artifacts` speaks GitLab's API ([`GitLab`]), `caches` keeps caches ([`ProjectCaches`]); both move archives that lie in a
//! [`Spool`], tell what they do by an
//! [`OutputSender`](vk_trace::OutputSender), and show their progress by a meter. What is told, how often something is
//! tried and what an answer means is as in GitLab Runner.
//!
//! # Limits
//!
//! - An archive has [`MAX_ARCHIVE`] bytes at most; it lies on the disk, not in memory.
//! - The job's token goes to GitLab's own origin, and nothing goes from https to http.
//! - Archives are not looked into: their bytes come from and go to guests, which are hostile.
//!
//! # What embedders need
//!
//! A tokio runtime with I/O and time, a folder for spools, and somebody who takes the output. Nothing here reads
//! the environment.

mod artifacts;
mod caches;
mod meter;
mod spool;

pub use artifacts::{
    ApiError, ArtifactStore, BoxFuture, CallError, ClientError, Download, DownloadError, GitLab,
    GitLabArtifacts, KeptArtifacts, Unmade, Upload, UploadError, file_name, format_name,
};
pub use caches::{
    CacheArchive, CacheError, CacheRegistry, CacheSettings, CacheStore, FolderError, ManifestError,
    NameError, ProgressReporting, ProjectCaches, Stored, caches_of_job, keys, repository, tag,
};
pub use spool::{MAX_ARCHIVE, Spool, SpoolError, Spooled};
pub use vk_http::RedirectError;
