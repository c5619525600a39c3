//! An image of the store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::digest::digest;
use super::files::{StoreError, failed};
use crate::images::platform::Platform;
use crate::images::settings::ImageConfig;
use crate::registry::{Digest, Reference};

/// Version of the entries' layout and records. Part of the key: entries of another version are not seen, and are
/// collected as they fall out of use.
const LAYOUT_VERSION: u32 = 4;

/// The file with the root file system.
pub(super) const ROOTFS: &str = "rootfs.erofs";

/// The file with the record. Its modification time is that of the last use.
pub(super) const RECORD: &str = "image.json";

/// What an entry is found by: a digest of everything that its bytes depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    /// The key of the image with the manifest `manifest`, for a platform.
    pub(crate) fn of(manifest: Digest, platform: &Platform) -> Self {
        let format = vk_erofs::FORMAT_VERSION;
        let text = format!(
            "layout {LAYOUT_VERSION}\nerofs {format}\nmanifest {manifest}\nplatform {platform}\n"
        );
        Self(Digest::of(text.as_bytes()).hex())
    }

    /// A key that names a folder of the store.
    pub(super) fn from_name(name: &std::ffi::OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (name.len() == 64 && name.bytes().all(hex)).then(|| Self(name.to_owned()))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

/// What is kept of an image beside its root file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryRecord {
    /// The manifest's digest.
    pub(crate) manifest: String,
    pub(crate) platform: String,
    pub(crate) config: ImageConfig,
    /// Length of the root file system in bytes.
    pub(crate) rootfs_bytes: u64,
    /// Digest of the root file system (see [`super::digest`]); [`Store::publish`](super::Store::publish) fills it in.
    pub(crate) rootfs_digest: String,
}

/// An image that this host has. As long as this lives, no process collects it.
#[derive(Debug)]
pub struct StoredImage {
    pub(super) reference: Reference,
    pub(super) digest: Digest,
    pub(super) folder: PathBuf,
    pub(super) record: EntryRecord,
    /// The entry's folder, open, with a shared lock.
    pub(super) _lock: File,
}

impl StoredImage {
    /// The root file system: an EROFS file that never changes.
    #[must_use]
    pub fn rootfs(&self) -> PathBuf {
        self.folder.join(ROOTFS)
    }

    /// What the reference was resolved to: the digest of its manifest, or of its index.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The full reference: registry, repository, tag or digest.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// How the image wants its processes run.
    #[must_use]
    pub fn config(&self) -> &ImageConfig {
        &self.record.config
    }

    /// The platform it is made for, such as `linux/amd64`.
    #[must_use]
    pub fn platform(&self) -> &str {
        &self.record.platform
    }
}

/// The record in an entry's folder; `None` for an entry that is damaged: half of it missing, or not as long as it
/// should be.
pub(super) fn read(folder: &Path) -> Result<Option<EntryRecord>, StoreError> {
    let Some(content) = super::files::read_record(&folder.join(RECORD))? else {
        return Ok(None);
    };
    let Ok(record) = serde_json::from_slice::<EntryRecord>(&content) else {
        return Ok(None);
    };
    let length = fs::metadata(folder.join(ROOTFS)).map(|metadata| metadata.len());
    Ok(Some(record).filter(|record| length.is_ok_and(|length| length == record.rootfs_bytes)))
}

/// Whether the root file system in an entry's folder has the bytes that its record tells. Reads all of it
/// but its holes.
pub(super) fn is_sound(folder: &Path, record: &EntryRecord) -> Result<bool, StoreError> {
    let path = folder.join(ROOTFS);
    let found = File::open(&path)
        .and_then(|file| digest(&file))
        .map_err(failed("read", &path))?;
    Ok(found.to_string() == record.rootfs_digest)
}

/// Notes that an entry is used now.
pub(super) fn touch(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(RECORD);
    File::options()
        .append(true)
        .open(&path)
        .and_then(|file| file.set_modified(SystemTime::now()))
        .map_err(failed("touch", &path))
}
