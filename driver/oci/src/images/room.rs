//! Room on the disk for an image: how much it may take, and which images give way.
//!
//! A manifest's sizes are claims. They are good for refusing an image that cannot fit; images of this
//! host give way only to bytes that have come.

use std::time::Duration;

use vk_erofs::{ConvertError, Limit, Limits};

use super::error::PullCause;
use super::manifest::{ImageManifest, Part};
use super::pull::ImageStore;
use super::store::{Store, StoreError};

/// How much larger than its compressed layers an image is taken to become. Gzipped system images unpack to two to
/// three times their size.
const EXPANSION: u64 = 3;

/// What is left free for others, in bytes.
const RESERVE: u64 = 64 << 20;

/// The most that is kept free beyond [`RESERVE`] while an image comes, in bytes: more than a disk takes between two
/// looks.
const MARGIN: u64 = 512 << 20;

/// How often it is looked how much is free.
const LOOK: Duration = Duration::from_millis(100);

/// The room that one image needs.
pub(super) struct Room {
    image: String,
    /// As far as its manifest tells, in bytes.
    needed: u64,
    /// Compressed layers that wait in files, in bytes.
    waiting: u64,
    images: ImageStore,
}

impl Room {
    pub(super) fn new(images: &ImageStore, image: &str, manifest: &ImageManifest) -> Self {
        let sum = |layers: &[Part]| {
            layers
                .iter()
                .fold(0_u64, |sum, layer| sum.saturating_add(layer.size))
        };
        // The first layer is not kept in its compressed form.
        let waiting = sum(manifest.layers.get(1..).unwrap_or_default());
        let needed = sum(&manifest.layers)
            .saturating_mul(EXPANSION)
            .saturating_add(waiting);
        Self {
            image: image.to_owned(),
            needed,
            waiting,
            images: images.clone(),
        }
    }

    /// How much the image may take unpacked, in bytes.
    ///
    /// # Errors
    ///
    /// If it would not fit even if all images that are not in use were gone.
    pub(super) async fn allowed(&self) -> Result<u64, PullCause> {
        let (free, unused) = self
            .images
            .blocking(|store| {
                let free = store.free()?;
                let unused: u64 = store
                    .summaries()?
                    .iter()
                    .filter(|image| !image.in_use)
                    .map(|image| image.disk_bytes)
                    .sum();
                Ok((free, unused))
            })
            .await?;
        let available = free.saturating_add(unused).saturating_sub(RESERVE);
        if available < self.needed {
            return Err(self.none(self.needed, free));
        }
        Ok(Limits::default()
            .max_bytes
            .min(self.images.max_bytes())
            .min(available.saturating_sub(self.waiting)))
    }

    /// Looks on while the image comes: others give way to it as the disk fills. Ends, with an error, when nobody is
    /// left who could.
    pub(super) async fn watch(&self) -> PullCause {
        let begin = match self.images.blocking(Store::free).await {
            Ok(free) => free,
            Err(cause) => return cause,
        };
        let needed = self.needed;
        loop {
            tokio::time::sleep(LOOK).await;
            let look = move |store: &Store| {
                // What grew fast may go on like that, whatever its manifest tells.
                let grown = begin.saturating_sub(store.free()?);
                make(store, RESERVE + MARGIN.min(needed.max(grown)))
            };
            match self.images.blocking(look).await {
                Ok(free) if free < RESERVE => return self.none(self.needed, free),
                Ok(_) => {}
                Err(cause) => return cause,
            }
        }
    }

    fn none(&self, needed: u64, free: u64) -> PullCause {
        PullCause::NoSpace {
            image: self.image.clone(),
            needed,
            free,
            folder: self.images.store.path().to_owned(),
        }
    }

    /// Says of a failure with figures that there was no room, if that is why; `allowed` is what the image was allowed.
    pub(super) fn explain(&self, cause: PullCause, allowed: u64) -> PullCause {
        if exceeds_bytes(&cause) && allowed < Limits::default().max_bytes {
            if allowed == self.images.max_bytes() {
                return PullCause::LargerThanStore {
                    image: self.image.clone(),
                    limit: allowed,
                };
            }
        } else if !is_full(&cause) {
            return cause;
        }
        // It may be more than its manifest tells.
        let needed = if exceeds_bytes(&cause) {
            self.needed.max(allowed)
        } else {
            self.needed
        };
        self.none(needed, self.images.store.free().unwrap_or(0))
    }
}

/// Sees to it that `wanted` bytes are free, as far as images that are not in use can give way; answers what is free.
fn make(store: &Store, wanted: u64) -> Result<u64, StoreError> {
    let missing = wanted.saturating_sub(store.free()?);
    if missing > 0 {
        let taken: u64 = store
            .summaries()?
            .iter()
            .map(|image| image.disk_bytes)
            .sum();
        store.collect(taken.saturating_sub(missing))?;
    }
    store.free()
}

fn exceeds_bytes(cause: &PullCause) -> bool {
    matches!(
        cause,
        PullCause::Layer {
            source: ConvertError::TooLarge {
                limit: Limit::Bytes,
                ..
            },
            ..
        }
    )
}

/// Whether a failure comes from a full disk.
fn is_full(cause: &PullCause) -> bool {
    if let PullCause::Store(error) = cause
        && error.is_full()
    {
        return true;
    }
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(cause);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return matches!(
                error.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
            );
        }
        next = error.source();
    }
    false
}
