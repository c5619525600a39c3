//! What a VM boots as its root, and what the image says of the processes that run in it.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use vk_hub_proto::job::Failure;

use crate::host::Host;
use crate::host::{BootFiles, BootFilesError, DEFAULT_IMAGE, ImageError};
use vk_oci::{Digest, LOCAL_PREFIX};
use vk_oci::{
    ImageConfig, Platform, PlatformError, Progress, PullError, PullRequest, StoreError, StoredImage,
};

/// Finds a shell and becomes it, for `sh -c`: what an entry point is handed. GitLab Runner's order (gitlab-runner,
/// build §2.10).
pub(crate) const FIND_SHELL: &str = "for shell in /usr/local/bin/bash /usr/bin/bash /bin/bash \
    /usr/local/bin/sh /usr/bin/sh /bin/sh /busybox/sh; do \
    if [ -x \"$shell\" ]; then exec \"$shell\"; fi; done; echo shell not found; exit 1";

/// What an image wants for the processes that run in it: the fields of the OCI image configuration (image-spec,
/// config.md) that Docker applies to a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessDefaults {
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
    /// Folders that are made where they are missing, absolute.
    pub volumes: Vec<String>,
}

/// A root file system that can be booted now. As long as it or a clone lives, it stays on this host.
#[derive(Clone, Debug)]
pub(crate) struct RootImage {
    name: String,
    rootfs: PathBuf,
    defaults: ProcessDefaults,
    stored: Option<Arc<StoredImage>>,
}

/// Why there is no root image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RootImageError {
    /// The guest images cannot be used.
    #[error(transparent)]
    BootFiles(#[from] BootFilesError),
    /// There is no such guest image.
    #[error(transparent)]
    Local(#[from] ImageError),
    /// The image is wanted for another platform than the guest's.
    #[error("image \"{name}\" is wanted for {platform}, but VMs of this host run {guest} only")]
    Foreign {
        /// The image.
        name: String,
        /// What is wanted.
        platform: String,
        /// What can be had.
        guest: String,
    },
    /// The platform is none.
    #[error("image \"{name}\" cannot be had")]
    Platform {
        /// The image.
        name: String,
        /// Why.
        source: PlatformError,
    },
    /// The store of images cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A registry's image cannot be had.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The work on the store was aborted: the runtime is shutting down.
    #[error("the work on the store of images was aborted")]
    Aborted(#[source] tokio::task::JoinError),
}

impl RootImageError {
    /// The class of failure that a job without its image ends with.
    #[must_use]
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Pull(error) if error.is_configuration() => Failure::Configuration,
            Self::Pull(_) | Self::Local(_) | Self::Foreign { .. } | Self::Platform { .. } => {
                Failure::ImagePull
            }
            Self::Store(error) if error.is_full() => Failure::ImagePull,
            Self::BootFiles(_) | Self::Store(_) | Self::Aborted(_) => Failure::System,
        }
    }
}

impl RootImage {
    /// The image that `request` asks for: one of the guest images for an empty name (the default one) or `local/…`, else
    /// one of a registry, which is pulled if need be.
    ///
    /// # Errors
    ///
    /// [`RootImageError`]. Dropping the future ends a pull.
    pub(crate) async fn find(
        host: &Host,
        request: &PullRequest,
        progress: Progress<'_>,
    ) -> Result<Self, RootImageError> {
        let name = match request.reference.trim() {
            "" => DEFAULT_IMAGE,
            _ => request.reference.as_str(),
        };
        if let Some(platform) = &request.platform {
            runs_here(name, platform)?;
        }
        if name.starts_with(LOCAL_PREFIX) {
            return Self::local(&host.boot_files()?, name);
        }
        let host = host.clone();
        let store = tokio::task::spawn_blocking(move || host.image_store());
        let store = store.await.map_err(RootImageError::Aborted)??;
        Ok(Self::stored(store.ensure(request, progress).await?))
    }

    fn local(images: &BootFiles, name: &str) -> Result<Self, RootImageError> {
        Ok(Self {
            rootfs: images.resolve(name)?,
            name: name.to_owned(),
            defaults: ProcessDefaults::default(),
            stored: None,
        })
    }

    fn stored(image: StoredImage) -> Self {
        Self {
            name: image.reference().to_string(),
            rootfs: image.rootfs(),
            defaults: image.config().clone().into(),
            stored: Some(Arc::new(image)),
        }
    }

    /// Its name; in full, for a registry's.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What its name was resolved to; `None` for a guest image.
    #[must_use]
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.stored.as_ref().map(|image| image.digest())
    }

    /// The EROFS file.
    #[must_use]
    pub(crate) fn rootfs(&self) -> &Path {
        &self.rootfs
    }

    /// What it wants for its processes.
    #[must_use]
    pub(crate) fn defaults(&self) -> &ProcessDefaults {
        &self.defaults
    }
}

/// Whether the guest is of the platform that `text` names.
fn runs_here(name: &str, text: &str) -> Result<(), RootImageError> {
    let name = || name.to_owned();
    let platform: Platform = text.parse().map_err(|source| RootImageError::Platform {
        name: name(),
        source,
    })?;
    let guest = Platform::of_guest();
    // A wish for a variant is met by what there is of it, and what the guest runs beside its own may be wished for.
    if guest.distance(&platform).is_some() || platform.distance(&guest).is_some() {
        return Ok(());
    }
    Err(RootImageError::Foreign {
        name: name(),
        platform: platform.to_string(),
        guest: guest.to_string(),
    })
}

/// A folder's path that is meant from the root, whether it says so or not, in its shortest form. As Docker does, `..` takes away the
/// name before it, be that a link or not.
pub(crate) fn from_root(folder: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in folder.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

impl From<ImageConfig> for ProcessDefaults {
    fn from(config: ImageConfig) -> Self {
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let folder = |path: &str| from_root(Path::new(path)).to_string_lossy().into_owned();
        Self {
            env: config.env,
            user: given(config.user),
            working_dir: given(config.working_dir).as_deref().map(folder),
            entrypoint: config.entrypoint,
            cmd: config.cmd,
            volumes: config.volumes.iter().map(|path| folder(path)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_images_are_cleaned_as_words() {
        for (written, meant) in [
            ("srv", "/srv"),
            ("//srv/./a//", "/srv/a"),
            ("/opt/app/../kept", "/opt/kept"),
            ("../..", "/"),
            ("/", "/"),
        ] {
            assert_eq!(
                from_root(Path::new(written)),
                Path::new(meant),
                "{written:?}"
            );
        }
    }
}
