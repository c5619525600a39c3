//! Files and folders, locked and synced.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Largest record that is read, in bytes.
const MAX_RECORD: u64 = 16 << 20;

/// Something could not be done in the store.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {} in the image store", path.display())]
pub struct StoreError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

pub(super) fn failed<'a>(
    operation: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> StoreError + 'a {
    move |source| StoreError {
        operation,
        path: path.to_owned(),
        source,
    }
}

impl StoreError {
    /// Whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.source.kind() == io::ErrorKind::StorageFull
    }
}

/// Makes a folder for its owner alone, if it is missing.
pub(super) fn make_folder(path: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(failed("make", path))
}

/// Opens a file to lock, and makes it if it is missing.
pub(super) fn open_lock(path: &Path) -> Result<File, StoreError> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("open", path))
}

/// Takes a lock if it is free.
pub(super) fn try_lock(file: &File, path: &Path) -> Result<bool, StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(failed("lock", path)(error)),
    }
}

/// Whether `path` still is the open `file`.
pub(super) fn is_still(file: &File, path: &Path) -> Result<bool, StoreError> {
    let open = file.metadata().map_err(failed("look at", path))?;
    match fs::metadata(path) {
        Ok(there) => Ok((open.dev(), open.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("look at", path)(error)),
    }
}

/// Writes a file that is there whole, and after a crash, too, or not at all; `temporary` is on the same file system.
pub(super) fn write_whole(path: &Path, temporary: &Path, content: &[u8]) -> Result<(), StoreError> {
    let write = || {
        let mut file = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(temporary)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(failed("write", temporary))?;
    fs::rename(temporary, path).map_err(failed("write", path))?;
    sync_folder(path.parent().unwrap_or(path))
}

/// Makes what was made and renamed in a folder last.
pub(super) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(failed("sync", path))
}

/// A record's content; `None` if there is none.
pub(super) fn read_record(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let mut content = Vec::new();
    file.take(MAX_RECORD)
        .read_to_end(&mut content)
        .map_err(failed("read", path))?;
    Ok(Some(content))
}

/// Names in a folder.
pub(super) fn names(path: &Path) -> Result<Vec<std::ffi::OsString>, StoreError> {
    fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
        .map_err(failed("read", path))
}
