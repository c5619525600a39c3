//! What `vk image` does with the images of this host.

use super::pull::ImageStore;
use super::store::{Collected, StoreError, StoredSummary};
use crate::registry::Reference;

/// Fewest digits of an id that name an image: fewer are a tag's, or a slip of the finger.
const MIN_ID: usize = 6;

/// Why an image was not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// There is none.
    #[error("no image \"{0}\" on this host; `vk image ls` lists them")]
    Unknown(String),
    /// There are some.
    #[error("\"{0}\" means {1} images on this host; give more digits of the id")]
    Ambiguous(String, usize),
    /// A process uses it.
    #[error(
        "the image \"{0}\" is in use by a VM, or is just being looked at; try again when that is over"
    )]
    InUse(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ImageStore {
    /// The images of this host, the last used first. Works on the disk.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn list(&self) -> Result<Vec<StoredSummary>, StoreError> {
        self.store.summaries()
    }

    /// Removes the images, in all platforms, that `name` means: a reference, or the first digits of an id. Works on
    /// the disk.
    ///
    /// # Errors
    ///
    /// If there is none, or it is in use.
    pub fn remove(&self, name: &str) -> Result<Vec<StoredSummary>, RemoveError> {
        let mut found = self.find(name)?;
        if found.is_empty() {
            return Err(RemoveError::Unknown(name.to_owned()));
        }
        let mut removed = Vec::new();
        found.retain(|image| !image.in_use);
        for image in found {
            if self.store.remove(&image.id)? {
                removed.push(image);
            }
        }
        self.store.tidy()?;
        if removed.is_empty() {
            return Err(RemoveError::InUse(name.to_owned()));
        }
        Ok(removed)
    }

    fn find(&self, name: &str) -> Result<Vec<StoredSummary>, RemoveError> {
        let all = self.store.summaries()?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if name.len() >= MIN_ID && name.bytes().all(hex) {
            let found: Vec<_> = all
                .iter()
                .filter(|image| image.id.starts_with(name))
                .cloned()
                .collect();
            match found.len() {
                0 => {}
                1 => return Ok(found),
                count => return Err(RemoveError::Ambiguous(name.to_owned(), count)),
            }
        }
        let reference = name
            .parse::<Reference>()
            .map(|reference| reference.to_string());
        let wanted = reference.unwrap_or_else(|_| name.to_owned());
        Ok(all
            .into_iter()
            .filter(|image| image.references.contains(&wanted))
            .collect())
    }

    /// Removes images, the one that was used longest ago first, until the rest takes no more than `limit` bytes;
    /// `None` for the configured bound. Works on the disk.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub fn collect(&self, limit: Option<u64>) -> Result<Collected, StoreError> {
        self.store.collect(limit.unwrap_or(self.max_bytes()))
    }
}
