//! This host, as jobs and commands find it.

use std::path::PathBuf;

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
}

/// A host that runs jobs and commands.
///
/// Folders are opened when a VM is made: what is wrong with them is one job's failure, with its trace and result.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    limits: HostLimits,
}

impl Host {
    /// The host that `config` describes.
    #[must_use]
    pub fn new(config: HostConfig) -> Self {
        Self {
            config,
            limits: HostLimits::of_this_host(),
        }
    }

    /// The largest VM this host gives.
    #[must_use]
    pub fn limits(&self) -> HostLimits {
        self.limits
    }

    /// What runs VMs.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.config.backend
    }

    /// The state folder, made if it is missing; what dead processes left in it is removed.
    ///
    /// # Errors
    ///
    /// If it cannot be made or written.
    pub fn state(&self) -> Result<StateDir, StateError> {
        let usual = StateDir::default_path();
        StateDir::open(self.config.state_dir.as_deref().unwrap_or(&usual))
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
