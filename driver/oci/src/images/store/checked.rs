//! Which images were read whole since the host was started.

use std::fs;
use std::io;

use super::entry::Key;
use super::files::{StoreError, failed, names};
use super::folder::Store;

/// Names the present boot (proc(5), `/proc/sys/kernel/random/boot_id`).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Store {
    /// Whether the entry's bytes were compared with its record since the host was started.
    pub(super) fn is_checked(&self, key: &Key) -> bool {
        let noted = fs::read_to_string(self.checked().join(key.name()));
        match (noted, fs::read_to_string(BOOT_ID)) {
            (Ok(noted), Ok(boot)) => noted == boot,
            _ => false,
        }
    }

    /// Notes that they were, and are right. Whether the note survives a crash does not matter.
    pub(super) fn note_checked(&self, key: &Key) -> Result<(), StoreError> {
        let Ok(boot) = fs::read_to_string(BOOT_ID) else {
            return Ok(());
        };
        let path = self.checked().join(key.name());
        let temporary = self.temporary_file(key.name());
        fs::write(&temporary, boot)
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(failed("write", &path))
    }

    /// Forgets the notes on entries that are gone.
    pub(super) fn forget_checked(&self) -> Result<(), StoreError> {
        for name in names(&self.checked())? {
            if Key::from_name(&name).is_some_and(|key| self.entry(&key).is_dir()) {
                continue;
            }
            let path = self.checked().join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
