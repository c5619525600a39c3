//! This host, as jobs and commands find it.

use std::path::PathBuf;

use crate::config::Config;
use crate::image::{ImageStore, StoreError};
use crate::images::{Images, ImagesError};
use crate::size::HostLimits;
use crate::state::{StateDir, StateError};
use crate::vm::Backend;

/// Where things are on this host, and what runs VMs here.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The state folder; `None` for the usual one.
    pub state_dir: Option<PathBuf>,
    /// The folder of guest images; `None` for the first usual place that has them.
    pub images_dir: Option<PathBuf>,
    /// What runs VMs.
    pub backend: Backend,
    /// What the operator's configuration says.
    pub settings: Config,
}

/// A host that runs jobs and commands.
///
/// Folders are opened when a VM is made: what is wrong with them is one job's failure, with its trace and result.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    limits: HostLimits,
    name: Option<String>,
}

impl Host {
    /// The host that `config` describes.
    #[must_use]
    pub fn new(config: HostConfig) -> Self {
        Self {
            config,
            limits: HostLimits::of_this_host(),
            name: host_name(),
        }
    }

    /// The largest VM this host gives.
    #[must_use]
    pub fn limits(&self) -> HostLimits {
        self.limits
    }

    /// The host's name, for the line that tells where a job runs; `None` if it has none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What the operator's configuration says.
    #[must_use]
    pub fn settings(&self) -> &Config {
        &self.config.settings
    }

    /// The images of registries that this host keeps. Blocks while it looks after them.
    ///
    /// # Errors
    ///
    /// If the store cannot be made or written.
    pub fn image_store(&self) -> Result<ImageStore, StoreError> {
        ImageStore::open(&self.state_path(), self.settings().images.clone())
    }

    /// What runs VMs.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.config.backend
    }

    /// The state folder, made if it is missing; what dead processes left in it is removed. Blocks while it does so.
    ///
    /// # Errors
    ///
    /// If it cannot be made or written.
    pub fn state(&self) -> Result<StateDir, StateError> {
        StateDir::open(&self.state_path())
    }

    /// Where the state folder is.
    pub(crate) fn state_path(&self) -> PathBuf {
        let named = self.config.state_dir.clone();
        named.unwrap_or_else(StateDir::default_path)
    }

    /// The guest images.
    ///
    /// # Errors
    ///
    /// If they are not built.
    pub fn images(&self) -> Result<Images, ImagesError> {
        Images::open(self.config.images_dir.as_deref())
    }
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
