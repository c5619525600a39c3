//! What a VM boots as its root, and what the image says of the processes that run in it.

use std::path::{Path, PathBuf};

use crate::images::{DEFAULT_IMAGE, ImageError, Images};

/// Finds a shell and becomes it, for `sh -c`: what an entry point is handed. GitLab Runner's order (facts, build §2.10).
pub(crate) const FIND_SHELL: &str = "for shell in /usr/local/bin/bash /usr/bin/bash /bin/bash \
    /usr/local/bin/sh /usr/bin/sh /bin/sh /busybox/sh; do \
    if [ -x \"$shell\" ]; then exec \"$shell\"; fi; done; echo shell not found; exit 1";

/// What an image wants for the processes that run in it: the fields of the OCI image configuration (image-spec,
/// config.md) that Docker applies to a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessDefaults {
    /// Variables, in the image's order.
    pub env: Vec<(String, String)>,
    /// User, with an optional group, each by name or number; none is root.
    pub user: Option<String>,
    /// Working folder, absolute; none is `/`.
    pub working_dir: Option<String>,
    /// What every command is handed to as arguments.
    pub entrypoint: Vec<String>,
    /// The command of a run that names none.
    pub cmd: Vec<String>,
}

/// A root file system that can be booted now.
#[derive(Clone, Debug)]
pub struct RootImage {
    name: String,
    rootfs: PathBuf,
    defaults: ProcessDefaults,
}

impl RootImage {
    /// The image called `name` in the folder of guest images; the default one for an empty name.
    ///
    /// # Errors
    ///
    /// If there is no such image on this host.
    pub fn local(images: &Images, name: &str) -> Result<Self, ImageError> {
        let name = if name.trim().is_empty() {
            DEFAULT_IMAGE
        } else {
            name
        };
        Ok(Self {
            rootfs: images.resolve(name)?,
            name: name.to_owned(),
            defaults: ProcessDefaults::default(),
        })
    }

    /// Its name, as it was asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The EROFS file.
    #[must_use]
    pub fn rootfs(&self) -> &Path {
        &self.rootfs
    }

    /// What it wants for its processes.
    #[must_use]
    pub fn defaults(&self) -> &ProcessDefaults {
        &self.defaults
    }
}
