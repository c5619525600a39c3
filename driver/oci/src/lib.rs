//! OCI registries, and the images of this host.
//!
//! Two rooms. `registry` speaks with registries, for images and caches: [`RegistryClient`] gets and puts manifests and
//! blobs, with logins, mirrors and patience ([`RegistryOptions`]). `images` turns a reference into an image that VMs of
//! this host can boot, an EROFS file: [`ImageStore::ensure`] is the way in.
//!
//! # Limits
//!
//! - Only what is verified is used: bytes of a [`Blob`] count when its end has come, a manifest when its digest is right.
//!   A manifest has [`MAX_MANIFEST`] bytes at most.
//! - A blob broken off is taken up again where it broke; what fails and may pass is tried again as [`RetryPolicy`] says,
//!   and no redirect leads from https to http. Only the registry itself sees a login.
//! - Layers are tar, tar+gzip or tar+zstd.
//! - The store keeps within [`ImageSettings::max_bytes`], images in use aside, and serves many processes at once.
//!
//! # What embedders need
//!
//! A tokio runtime with I/O and time. A [`RegistryClient`] stays in the runtime that first used it. Logins, proxies and
//! certificates come from the caller: nothing here reads the environment.

mod images;
mod registry;

pub use images::{
    Collected, ConfigBlobError, ImageConfig, ImageSettings, ImageStore, LOCAL_PREFIX,
    ManifestError, NameError, Platform, PlatformError, PolicyError, PolicySettings, Progress,
    PullCause, PullError, PullEvent, PullPolicy, PullRequest, RemoveError, StoreError, StoredImage,
    StoredSummary, check_platform, host_login,
};
pub use registry::{
    Blob, BlobSize, BlobSource, Credential, Credentials, Digest, DigestError, MAX_MANIFEST,
    Manifest, Pushed, Reference, ReferenceError, RegistryClient, RegistryError, RegistryErrorKind,
    RegistryOptions, Repository, RetryPolicy,
};
pub use vk_http::Count;
