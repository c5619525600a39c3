//! Why a guest cannot start.

use std::fmt::Display;
use std::io;

use super::root::{FolderError, ImageFault};

/// A step of the boot that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct BootError {
    what: String,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl BootError {
    /// What is wrong with the image, if it is at fault.
    pub(crate) fn image_fault(&self) -> Option<&ImageFault> {
        match self.source.downcast_ref()? {
            FolderError::Image(fault) => Some(fault),
            FolderError::Io(_) => None,
        }
    }
}

/// Says what was being done when something failed.
pub(crate) trait During<T> {
    /// Names the step, worded to follow "cannot start:".
    ///
    /// # Errors
    ///
    /// [`BootError`] in place of the error there was.
    fn during(self, what: impl Display) -> Result<T, BootError>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> During<T> for Result<T, E> {
    fn during(self, what: impl Display) -> Result<T, BootError> {
        self.map_err(|error| BootError {
            what: what.to_string(),
            source: error.into(),
        })
    }
}

/// A step that failed without the kernel saying why.
pub(crate) fn failed(what: impl Display, why: impl Into<String>) -> BootError {
    BootError {
        what: what.to_string(),
        source: Box::new(io::Error::other(why.into())),
    }
}
