//! Images from registries: pulled, converted to a root file system, kept for all VMs of this host.
//!
//! [`ImageStore::ensure`] is the way in. `name`, `policy`, `platform`, `manifest`, `index` and `settings` decide and know
//! neither network nor disk; `pull` and `resolve` are the shell around them; `feed` and `convert` carry layers from
//! [`crate::registry`] to `vk-erofs`; `store` is the folder.

mod convert;
mod docker_config;
mod error;
mod event;
mod feed;
mod index;
mod json;
mod login;
mod manage;
mod manifest;
mod name;
mod platform;
mod policy;
mod pull;
mod resolve;
mod room;
mod settings;
mod store;

use std::path::PathBuf;

pub use error::{PullCause, PullError};
pub use event::PullEvent;
pub use login::host_login;
pub use manage::RemoveError;
pub use manifest::ManifestError;
pub use name::{LOCAL_PREFIX, NameError};
pub use platform::{Platform, PlatformError, check as check_platform};
pub use policy::{PolicyError, PolicySettings, PullPolicy};
pub use pull::{ImageStore, PullRequest};
pub use settings::{ConfigBlobError, ImageConfig};
pub use store::{Collected, StoreError, StoredImage, StoredSummary};

use crate::registry::RegistryOptions;

/// Who is told of a pull's progress.
pub type Progress<'a> = &'a (dyn Fn(PullEvent<'_>) + Sync);

/// How large the store may become by default, in bytes.
const DEFAULT_MAX_BYTES: u64 = 50 << 30;

/// How images are pulled and kept.
#[derive(Clone, Debug)]
pub struct ImageSettings {
    /// The operator's pull policies.
    pub policies: PolicySettings,
    /// How registries are spoken to. Logins that stand here are shown unless a pull finds another one.
    pub registries: RegistryOptions,
    /// Docker's `config.json`, for its logins; `None` for none.
    pub docker_config: Option<PathBuf>,
    /// What all images together may take on the disk, in bytes. Images in use stay, whatever they take.
    pub max_bytes: u64,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self {
            policies: PolicySettings::default(),
            registries: RegistryOptions::default(),
            docker_config: None,
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }
}
