//! Caches of jobs, kept in an OCI registry or in a folder of this host (dispatch protocol, "Caches").
//!
//! `name` says where a project's caches are and what tag a key has, `keys` which keys a cache has, `manifest` what a cache
//! is as an OCI artifact, `place` which registry or folder a job's caches are in, `store` moves them.

mod folder;
pub mod keys;
mod manifest;
mod name;
mod place;
mod store;

pub use folder::FolderError;
pub use manifest::ManifestError;
pub use name::{NameError, repository, tag};
pub use place::{CacheRegistry, CacheSettings, caches_of_job};
pub use store::{CacheArchive, CacheError, CacheStore, ProgressReporting, ProjectCaches, Stored};
