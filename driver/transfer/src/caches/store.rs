//! Where caches are kept: a registry, or a folder of this host.

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};
use tracing::debug;

use super::folder::{Folder, FolderError};
use super::manifest::{EMPTY, Layer, MANIFEST_TYPE, ManifestError, layer, manifest};
use super::name::tag;
use crate::artifacts::BoxFuture;
use crate::meter::Meter;
use crate::spool::{MAX_ARCHIVE, Spool, SpoolError, Spooled};
use vk_http::Count;
use vk_oci::{
    Blob, BlobSize, BlobSource, Digest, Pushed, ReferenceError, RegistryClient, RegistryError,
    RegistryErrorKind, Repository,
};
use vk_trace::OutputSender;

/// Where a job's caches are: a registry or a folder of this host ([`ProjectCaches`]), or whatever implements this. Dropping
/// a future ends its work.
pub trait CacheStore: fmt::Debug + Send + Sync {
    /// Name of the caches' place for the trace; `None` for one on this host.
    fn remote_name(&self) -> Option<String>;

    /// The archive (tar+zstd) stored under `key`, whole and checked; `None` if there is none. `spool` is a private folder
    /// for what has to be kept meanwhile.
    ///
    /// # Errors
    ///
    /// [`CacheError`]: the job goes on without it.
    fn fetch<'a>(
        &'a self,
        key: &'a str,
        spool: &'a Path,
        reporting: ProgressReporting<'a>,
    ) -> BoxFuture<'a, Result<Option<CacheArchive>, CacheError>>;

    /// Stores `archive` under `key`, in the place of what was there.
    ///
    /// # Errors
    ///
    /// [`CacheError`]: the job goes on.
    fn store<'a>(
        &'a self,
        key: &'a str,
        archive: Spooled,
        reporting: ProgressReporting<'a>,
    ) -> BoxFuture<'a, Result<Stored, CacheError>>;
}

/// A project's caches.
#[derive(Clone, Debug)]
pub struct ProjectCaches {
    pub(super) place: Place,
    /// Whether they belong to jobs of protected refs.
    pub(super) protected: bool,
}

/// How a transfer's progress is told.
#[derive(Clone, Copy, Debug)]
pub struct ProgressReporting<'a> {
    /// Where.
    pub output: &'a OutputSender,
    /// How often (`TRANSFER_METER_FREQUENCY`); `None` for never.
    pub every: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    Registry {
        client: RegistryClient,
        repository: Repository,
    },
    Folder {
        folder: Folder,
        repository: String,
    },
}

/// A cache's archive (tar+zstd), to be read from its first byte on.
#[derive(Debug)]
pub struct CacheArchive {
    file: File,
    /// Holds the file's place as long as it is read.
    _kept: Option<Spooled>,
}

impl AsyncRead for CacheArchive {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.file).poll_read(context, buffer)
    }
}

impl From<File> for CacheArchive {
    fn from(file: File) -> Self {
        Self { file, _kept: None }
    }
}

/// What storing a cache took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The registry had its bytes: only its manifest was written.
    Unchanged,
    /// All of it was written.
    Written,
}

/// A cache cannot be had or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The registry does not do as it should.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// What the registry has is something else.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// It is larger than caches may be.
    #[error("the cache has {0} bytes, more than {max} GiB", max = MAX_ARCHIVE >> 30)]
    TooLarge(u64),
    /// The folder does not do as it should.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// This host's disk does not.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// It cannot be named.
    #[error("there is no name for the cache")]
    Name(#[from] ReferenceError),
    /// vk is shutting down.
    #[error("the work on the cache folder was aborted")]
    Aborted(#[source] tokio::task::JoinError),
    /// Another store says why.
    #[error("{message}")]
    Other {
        /// Why.
        message: String,
        /// Whether the next request would fare no better.
        unavailable: bool,
    },
}

impl CacheError {
    /// Whether the next request would fare no better: the registry did not answer in time, or not at all (dispatch
    /// protocol, "Caches": the step's other cache requests are skipped).
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Registry(error) => matches!(
                error.kind(),
                RegistryErrorKind::TimedOut(_)
                    | RegistryErrorKind::Unreachable { .. }
                    | RegistryErrorKind::Unavailable { .. }
            ),
            Self::Other { unavailable, .. } => *unavailable,
            _ => false,
        }
    }
}

impl ProjectCaches {
    /// Bound of a folder's caches, in bytes: two of the largest.
    pub const MAX_FOLDER_BYTES: u64 = 20 << 30;

    /// Caches in `repository` of a registry. The client's request limit is `CACHE_REQUEST_TIMEOUT`.
    #[must_use]
    pub fn registry(client: RegistryClient, repository: Repository, protected: bool) -> Self {
        let place = Place::Registry { client, repository };
        Self { place, protected }
    }

    /// Caches in the folder `root`, which is made when it is needed; `repository` tells them from other projects'.
    #[must_use]
    pub fn folder(root: PathBuf, max_bytes: u64, repository: String, protected: bool) -> Self {
        let folder = Folder::new(root, max_bytes);
        let place = Place::Folder { folder, repository };
        Self { place, protected }
    }

    /// Name of the caches' repository in its registry; `None` for a folder of this host.
    #[must_use]
    pub fn registry_name(&self) -> Option<String> {
        match &self.place {
            Place::Registry { repository, .. } => Some(repository.to_string()),
            Place::Folder { .. } => None,
        }
    }

    /// The archive stored under `key`, whole and checked; `None` if there is none. What comes from a registry is kept in
    /// `spool` first.
    ///
    /// # Errors
    ///
    /// [`CacheError`].
    pub async fn fetch(
        &self,
        key: &str,
        spool: &Path,
        reporting: ProgressReporting<'_>,
    ) -> Result<Option<CacheArchive>, CacheError> {
        let tag = tag(key, self.protected);
        match &self.place {
            Place::Registry { client, repository } => {
                fetch(client, repository, &tag, spool, reporting).await
            }
            Place::Folder { folder, repository } => {
                let (folder, name) = (folder.clone(), format!("{repository}:{tag}"));
                let found = tokio::task::spawn_blocking(move || folder.find(&name)).await;
                let file = found.map_err(CacheError::Aborted)??;
                Ok(file.map(|file| File::from_std(file).into()))
            }
        }
    }

    /// Stores `archive` under `key`, in the place of what was there.
    ///
    /// # Errors
    ///
    /// [`CacheError`].
    pub async fn store(
        &self,
        key: &str,
        archive: Spooled,
        reporting: ProgressReporting<'_>,
    ) -> Result<Stored, CacheError> {
        let tag = tag(key, self.protected);
        let was_there = match &self.place {
            Place::Registry { client, repository } => {
                store(client, repository, &tag, &archive, reporting).await?
            }
            Place::Folder { folder, repository } => {
                let (folder, name) = (folder.clone(), format!("{repository}:{tag}"));
                let stored =
                    tokio::task::spawn_blocking(move || folder.store(&name, archive)).await;
                stored.map_err(CacheError::Aborted)??;
                false
            }
        };
        Ok(if was_there {
            Stored::Unchanged
        } else {
            Stored::Written
        })
    }
}

impl CacheStore for ProjectCaches {
    fn remote_name(&self) -> Option<String> {
        self.registry_name()
    }

    fn fetch<'a>(
        &'a self,
        key: &'a str,
        spool: &'a Path,
        reporting: ProgressReporting<'a>,
    ) -> BoxFuture<'a, Result<Option<CacheArchive>, CacheError>> {
        Box::pin(self.fetch(key, spool, reporting))
    }

    fn store<'a>(
        &'a self,
        key: &'a str,
        archive: Spooled,
        reporting: ProgressReporting<'a>,
    ) -> BoxFuture<'a, Result<Stored, CacheError>> {
        Box::pin(self.store(key, archive, reporting))
    }
}

async fn fetch(
    client: &RegistryClient,
    repository: &Repository,
    tag: &str,
    spool: &Path,
    reporting: ProgressReporting<'_>,
) -> Result<Option<CacheArchive>, CacheError> {
    let reference = repository.tagged(tag)?;
    let manifest = match client.manifest(&reference).await {
        Err(error) if is_missing(&error) => return Ok(None),
        manifest => manifest?,
    };
    let Layer { digest, size } = layer(&manifest.bytes)?;
    if size > MAX_ARCHIVE {
        return Err(CacheError::TooLarge(size));
    }
    let blob = match client
        .blob(repository, digest, BlobSize::Exactly(size))
        .await
    {
        // Somebody cleans the registry up.
        Err(error) if is_missing(&error) => return Ok(None),
        blob => blob?,
    };
    let began = Instant::now();
    let count = Count::default();
    let meter = Meter {
        label: "Downloading cache",
        every: reporting.every,
        total: Some(size),
        at_once: true,
    };
    let kept = keep(blob, spool, &count);
    let kept = meter.run(&count, reporting.output, kept).await?;
    debug!(
        took_us = began.elapsed().as_micros(),
        bytes = size,
        "downloaded a cache's layer"
    );
    Ok(Some(CacheArchive {
        file: kept.open().await.map_err(SpoolError::Io)?,
        _kept: Some(kept),
    }))
}

async fn keep(mut blob: Blob, spool: &Path, count: &Count) -> Result<Spooled, CacheError> {
    let mut kept = Spool::create(spool)?;
    while let Some(chunk) = blob.chunk().await? {
        count.add(chunk.len());
        kept.write(&chunk).await?;
    }
    Ok(kept.finish().await?)
}

/// Uploads what the registry lacks, its manifest last; answers whether the layer was there.
async fn store(
    client: &RegistryClient,
    repository: &Repository,
    tag: &str,
    archive: &Spooled,
    reporting: ProgressReporting<'_>,
) -> Result<bool, CacheError> {
    let reference = repository.tagged(tag)?;
    let layer = Layer {
        digest: Digest::from_sha256(archive.digest()),
        size: archive.size(),
    };
    let count = Count::default();
    let source = BlobSource::File(archive.path().to_owned(), count.clone());
    let meter = Meter {
        label: "Uploading cache",
        every: reporting.every,
        total: Some(layer.size),
        // The registry may have it.
        at_once: false,
    };
    let began = Instant::now();
    let push = client.push_blob(repository, layer.digest, layer.size, source);
    let pushed = meter.run(&count, reporting.output, push).await?;
    match pushed {
        Pushed::AlreadyThere => debug!(
            took_us = began.elapsed().as_micros(),
            "found a cache's layer"
        ),
        Pushed::Uploaded => {
            debug!(
                took_us = began.elapsed().as_micros(),
                bytes = layer.size,
                "uploaded a cache's layer"
            );
        }
    }
    let manifest = manifest(layer);
    let began = Instant::now();
    if pushed == Pushed::AlreadyThere {
        // Whoever uploaded the layer uploaded the configuration, too: the manifest alone is new.
        let put = client.push_manifest(&reference, MANIFEST_TYPE, manifest.clone());
        match put.await {
            Ok(_) => {
                debug!(
                    took_us = began.elapsed().as_micros(),
                    "put a cache's manifest"
                );
                return Ok(true);
            }
            // Unless the registry was cleaned up.
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let empty = BlobSource::Bytes(bytes::Bytes::from_static(EMPTY));
    client
        .push_blob(repository, Digest::of(EMPTY), EMPTY.len() as u64, empty)
        .await?;
    client
        .push_manifest(&reference, MANIFEST_TYPE, manifest)
        .await?;
    debug!(
        took_us = began.elapsed().as_micros(),
        "put a cache's configuration and manifest"
    );
    Ok(pushed == Pushed::AlreadyThere)
}

fn is_missing(error: &RegistryError) -> bool {
    matches!(error.kind(), RegistryErrorKind::NotFound { .. })
}

/// Whether the registry answered, and refused.
fn is_refusal(error: &RegistryError) -> bool {
    matches!(
        error.kind(),
        RegistryErrorKind::NotFound { .. } | RegistryErrorKind::Protocol(_)
    )
}
