//! Which image a reference means on this host.

use serde::{Deserialize, Serialize};

use super::entry::Key;
use super::files::{StoreError, failed, names, read_record, write_whole};
use super::folder::Store;
use crate::images::platform::Platform;
use crate::registry::{Digest, Reference};

/// A reference, and what it meant when it was last resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameRecord {
    /// The full reference.
    pub(crate) reference: String,
    /// The platform that was asked for.
    pub(crate) platform: String,
    /// What the registry resolved it to: a manifest or an index.
    pub(crate) digest: String,
    /// The entry.
    pub(crate) key: String,
}

impl Store {
    /// What `reference` means here.
    pub(crate) fn look_up(
        &self,
        reference: &Reference,
        platform: &Platform,
    ) -> Result<Option<(Key, Digest)>, StoreError> {
        let path = self.names_folder().join(file_name(reference, platform));
        let record = read_record(&path)?
            .and_then(|content| serde_json::from_slice::<NameRecord>(&content).ok())
            // A record under the wrong name is none.
            .filter(|record| record.reference == reference.to_string());
        Ok(record.and_then(|record| {
            let key = Key::from_name(record.key.as_ref())?;
            Some((key, record.digest.parse().ok()?))
        }))
    }

    /// Notes what `reference` means, and the same image by its digest.
    pub(crate) fn note(
        &self,
        reference: &Reference,
        platform: &Platform,
        digest: Digest,
        key: &Key,
    ) -> Result<(), StoreError> {
        let _guard = self.lock()?;
        let pinned = reference.repository().pinned(digest);
        for reference in [reference, &pinned] {
            if self.look_up(reference, platform)? == Some((key.clone(), digest)) {
                continue;
            }
            let record = NameRecord {
                reference: reference.to_string(),
                platform: platform.to_string(),
                digest: digest.to_string(),
                key: key.name().to_owned(),
            };
            let name = file_name(reference, platform);
            let path = self.names_folder().join(&name);
            let content = serde_json::to_vec(&record)
                .map_err(|error| failed("write", &path)(error.into()))?;
            let temporary = self.temporary_file(&name);
            write_whole(&path, &temporary, &content)?;
        }
        Ok(())
    }

    /// All names.
    pub(crate) fn all_names(&self) -> Result<Vec<NameRecord>, StoreError> {
        let folder = self.names_folder();
        let mut records = Vec::new();
        for name in names(&folder)? {
            let content = read_record(&folder.join(name))?;
            let record = content.and_then(|content| serde_json::from_slice(&content).ok());
            records.extend::<Option<NameRecord>>(record);
        }
        records.sort_by(|one, other| one.reference.cmp(&other.reference));
        Ok(records)
    }

    /// Forgets the names that lead to no image.
    pub(super) fn forget_names(&self) -> Result<(), StoreError> {
        let _guard = self.lock()?;
        let folder = self.names_folder();
        for name in names(&folder)? {
            let path = folder.join(name);
            let content = read_record(&path)?;
            let record =
                content.and_then(|content| serde_json::from_slice::<NameRecord>(&content).ok());
            let key = record.and_then(|record| Key::from_name(record.key.as_ref()));
            let leads = key.is_some_and(|key| self.entry(&key).is_dir());
            if !leads {
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(failed("remove", &path)(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn file_name(reference: &Reference, platform: &Platform) -> String {
    Digest::of(format!("{reference}\n{platform}\n").as_bytes()).hex()
}
