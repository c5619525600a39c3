//! What the store has, and which of it goes.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use super::entry::{self, Key, RECORD, ROOTFS};
use super::files::{StoreError, failed, is_still, names, try_lock};
use super::folder::Store;

/// Bytes of a block of `st_blocks` (stat(2)).
const STAT_BLOCK: u64 = 512;

/// An image of the store, for lists.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredSummary {
    /// The entry's name: the first twelve digits are enough for people.
    pub id: String,
    /// The full references that mean it.
    pub references: Vec<String>,
    /// The manifest's digest.
    pub digest: String,
    /// What it is made for, such as `linux/amd64`.
    pub platform: String,
    /// What it takes on the disk, in bytes.
    pub disk_bytes: u64,
    /// When it was used last.
    pub last_used: SystemTime,
    /// Whether a process uses it.
    pub in_use: bool,
}

/// What was removed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Collected {
    /// The images, in order.
    pub removed: Vec<StoredSummary>,
    /// What is left, in bytes on the disk.
    pub left_bytes: u64,
}

impl Store {
    /// What it has, the last used first. Damaged entries are in it, without a platform.
    pub(crate) fn summaries(&self) -> Result<Vec<StoredSummary>, StoreError> {
        let known = self.all_names()?;
        let mut summaries = Vec::new();
        for name in names(&self.entries())? {
            let Some(key) = Key::from_name(&name) else {
                continue;
            };
            let folder = self.entry(&key);
            let Ok(lock) = File::open(&folder) else {
                // Gone just now.
                continue;
            };
            let record = entry::read(&folder)?;
            let record_file = fs::metadata(folder.join(RECORD)).or_else(|_| fs::metadata(&folder));
            let last_used = record_file.and_then(|metadata| metadata.modified());
            let disk = fs::metadata(folder.join(ROOTFS));
            let references: Vec<_> = known
                .iter()
                .filter(|name| name.key == key.name())
                .map(|name| name.reference.clone())
                .collect();
            let (digest, platform) = record
                .map(|record| (record.manifest, record.platform))
                .unwrap_or_default();
            summaries.push(StoredSummary {
                id: key.name().to_owned(),
                references,
                digest,
                platform,
                disk_bytes: disk.map_or(0, |metadata| metadata.blocks().saturating_mul(STAT_BLOCK)),
                last_used: last_used.unwrap_or(SystemTime::UNIX_EPOCH),
                in_use: !try_lock(&lock, &folder)?,
            });
        }
        summaries.sort_by_key(|summary| std::cmp::Reverse(summary.last_used));
        Ok(summaries)
    }

    /// Removes images, the one that was used longest ago first, until the rest takes no more than `limit` bytes.
    /// Those in use stay.
    pub(crate) fn collect(&self, limit: u64) -> Result<Collected, StoreError> {
        let mut summaries = self.summaries()?;
        let mut left: u64 = summaries.iter().map(|summary| summary.disk_bytes).sum();
        let mut collected = Collected::default();
        while left > limit
            && let Some(summary) = summaries.pop()
        {
            if self.remove(&summary.id)? {
                left = left.saturating_sub(summary.disk_bytes);
                collected.removed.push(summary);
            }
        }
        collected.left_bytes = left;
        self.tidy()?;
        Ok(collected)
    }

    /// Removes an entry, unless it is in use.
    pub(crate) fn remove(&self, id: &str) -> Result<bool, StoreError> {
        let Some(key) = Key::from_name(id.as_ref()) else {
            return Ok(false);
        };
        let folder = self.entry(&key);
        let Ok(lock) = File::open(&folder) else {
            return Ok(true);
        };
        // Whoever opens it now waits for the lock, and then sees that it is gone.
        if !try_lock(&lock, &folder)? || !is_still(&lock, &folder)? {
            return Ok(false);
        }
        self.discard(&key)?;
        Ok(true)
    }

    /// Forgets names without an image, and lock files that nobody holds.
    pub(crate) fn tidy(&self) -> Result<(), StoreError> {
        self.forget_names()?;
        self.forget_checked()?;
        self.tidy_locks()
    }

    /// Room for others in the store's file system, in bytes.
    pub(crate) fn free(&self) -> Result<u64, StoreError> {
        let path = self.path();
        let status = nix::sys::statvfs::statvfs(path)
            .map_err(|error| failed("look at", path)(error.into()))?;
        // The types differ between platforms.
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
        let free = (status.blocks_available() as u64).saturating_mul(status.fragment_size() as u64);
        Ok(free)
    }
}
