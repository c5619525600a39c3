//! Artifacts and caches: archives between a host, GitLab, and a registry or a folder of the host.
//!
//! `artifacts` speaks GitLab's API ([`GitLab`]), `caches` keeps caches ([`CacheStore`]); both move archives that lie in a
//! [`Spool`], tell what they do by [`Notes`], and show their progress by a meter. What is told, how often something is
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
//! A tokio runtime with I/O and time, a folder for spools, and somebody who takes what [`Notes`] tell. Nothing here reads
//! the environment.

#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::indexing_slicing
    )
)]

mod artifacts;
mod caches;
mod meter;
mod notes;
mod spool;

pub use artifacts::{
    ApiError, CallError, ClientError, Download, DownloadError, GitLab, Upload, UploadError,
    file_name, format_name,
};
pub use caches::{
    CacheArchive, CacheError, CacheRegistry, CacheSettings, CacheStore, FolderError, ManifestError,
    NameError, Stored, Telling, keys, repository, store_of_job, tag,
};
pub use notes::{Note, Notes};
pub use spool::{MAX_ARCHIVE, Spool, SpoolError, Spooled};
pub use vk_http::RedirectError;
