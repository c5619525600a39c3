//! A client of OCI registries, for images and caches.
//!
//! `client` holds what all operations share, `blob` downloads, `push` uploads. An operation makes `Call`s, which
//! `exchange` sends with logins (`authorize`) over connections (`transport`); what fails and may pass is tried again
//! as `retry` decides. The wire format is the OCI distribution spec 1.1.

mod authorize;
mod blob;
mod client;
mod credential;
mod digest;
mod error;
mod exchange;
pub(crate) mod media_type;
mod push;
mod reference;
mod retry;
mod transport;

pub use blob::{Blob, BlobSize};
pub use client::{MAX_MANIFEST, Manifest, RegistryClient, RegistryOptions};
pub use credential::{Credential, Credentials};
pub use digest::{Digest, DigestError};
pub use error::{RegistryError, RegistryErrorKind};
pub use exchange::BlobSource;
pub use push::Pushed;
pub(crate) use reference::{DEFAULT_REGISTRY, same_registry};
pub use reference::{Reference, ReferenceError, Repository};
pub use retry::RetryPolicy;
