//! Why an image cannot be had.

use std::io;
use std::path::PathBuf;

use vk_erofs::ConvertError;

use super::manifest::ManifestError;
use super::name::NameError;
use super::platform::PlatformError;
use super::policy::{PolicyError, PullPolicy, list};
use super::settings::ConfigBlobError;
use super::store::StoreError;
use crate::registry::{Digest, RegistryError};

/// An image that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The job asks for what is not supported, or not allowed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A name that no registry is asked for.
    #[error(transparent)]
    Reserved(NameError),
    /// No policy led to the image. The text is GitLab Runner's.
    #[error("failed to pull image \"{image}\" with specified policies {}", list(.policies))]
    Failed {
        /// The image as it was named.
        image: String,
        /// The policies that were tried.
        policies: Vec<PullPolicy>,
        /// What the last one met.
        #[source]
        cause: Box<PullCause>,
    },
}

impl PullError {
    /// Whether what the job asks for is at fault, and not the image (failure class `configuration`).
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Policy(_) | Self::Reserved(_) => true,
            Self::Failed { .. } => false,
        }
    }

    /// Why the last policy that was tried did not lead to the image, if one was.
    #[must_use]
    pub fn cause(&self) -> Option<&PullCause> {
        match self {
            Self::Failed { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Why a policy did not lead to an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullCause {
    /// The name is none.
    #[error(transparent)]
    Name(NameError),
    /// The platform is none.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The image is not on this host, and may not be pulled.
    #[error(
        "no such image on this host: {image}; a pull policy of always or if-not-present would pull it"
    )]
    NotHere {
        /// The image's full reference.
        image: String,
    },
    /// The registry does not give it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// What the registry gives is no image for this host.
    #[error("cannot use image {image}")]
    Manifest {
        /// The image's full reference.
        image: String,
        /// Why.
        source: ManifestError,
    },
    /// Its configuration is of no use.
    #[error("cannot use image {image}")]
    Config {
        /// The image's full reference.
        image: String,
        /// Why.
        source: ConfigBlobError,
    },
    /// A layer is of no use.
    #[error("cannot unpack layer {layer} of image {image}")]
    Layer {
        /// The image's full reference.
        image: String,
        /// The layer.
        layer: Digest,
        /// Why.
        source: ConvertError,
    },
    /// The layers are not those that the configuration names.
    #[error(
        "layer {layer} of image {image} unpacks to {found}, not to {expected} as its configuration says"
    )]
    DiffId {
        /// The image's full reference.
        image: String,
        /// The layer.
        layer: Digest,
        /// What the configuration says.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// The file system could not be completed.
    #[error("cannot make a disk of image {image}")]
    Disk {
        /// The image's full reference.
        image: String,
        /// Why.
        source: ConvertError,
    },
    /// There is not enough room.
    #[error(
        "not enough disk space for image {image}: it needs about {} MiB, {} has {} MiB free; `vk image gc` and \
         `vk image rm` make room", .needed >> 20, .folder.display(), .free >> 20
    )]
    NoSpace {
        /// The image's full reference.
        image: String,
        /// In bytes.
        needed: u64,
        /// In bytes.
        free: u64,
        /// Where.
        folder: PathBuf,
    },
    /// It alone takes more than all images may.
    #[error(
        "image {image} unpacks to more than {} MiB, which is all that images may take on this host \
         (`images.store_size` in the configuration)", .limit >> 20
    )]
    LargerThanStore {
        /// The image's full reference.
        image: String,
        /// In bytes.
        limit: u64,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something of vk itself.
    #[error("cannot pull image {image}")]
    Internal {
        /// The image's full reference.
        image: String,
        /// What.
        source: io::Error,
    },
}
