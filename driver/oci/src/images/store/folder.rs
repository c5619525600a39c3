//! The store's folder: opening, pulling into it, using what it has.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::digest::digest;
use super::entry::{self, EntryRecord, Key, RECORD, ROOTFS, StoredImage};
use super::files::{
    StoreError, failed, is_still, make_folder, names, open_lock, sync_folder, try_lock, write_whole,
};
use crate::registry::{Digest, Reference, Repository};

/// An open store. All of it works on the disk and may wait for it.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    root: PathBuf,
}

/// The right to pull one image, held by one process at a time.
#[derive(Debug)]
pub(crate) struct PullLock {
    _file: File,
}

/// A folder for a pull under way; removed when dropped, or by the next process that opens the store.
#[derive(Debug)]
pub(crate) struct Workspace {
    path: PathBuf,
    /// Open, and locked, as long as the pull lives.
    _lock: File,
}

impl Store {
    /// Opens, and if need be makes, the store at `root`, and removes what killed pulls left.
    pub(crate) fn open(root: &Path) -> Result<Self, StoreError> {
        let store = Self {
            root: root.to_owned(),
        };
        for folder in [
            root.to_owned(),
            store.tmp(),
            store.entries(),
            store.names_folder(),
            store.checked(),
            store.locks(),
        ] {
            make_folder(&folder)?;
        }
        store.sweep()?;
        Ok(store)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(super) fn entries(&self) -> PathBuf {
        self.root.join("entries")
    }

    pub(super) fn names_folder(&self) -> PathBuf {
        self.root.join("names")
    }

    pub(super) fn checked(&self) -> PathBuf {
        self.root.join("checked")
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    pub(super) fn entry(&self, key: &Key) -> PathBuf {
        self.entries().join(key.name())
    }

    /// A name in `tmp` that no other thread or process uses.
    pub(super) fn temporary_file(&self, name: &str) -> PathBuf {
        self.tmp().join(unique(name))
    }

    /// Held for moments, while folders are made, judged or counted.
    pub(super) fn lock(&self) -> Result<File, StoreError> {
        let path = self.root.join("lock");
        let file = open_lock(&path)?;
        file.lock().map_err(failed("lock", &path))?;
        Ok(file)
    }

    /// Removes what killed pulls left. What lives is locked.
    fn sweep(&self) -> Result<(), StoreError> {
        let mut dead = Vec::new();
        {
            let _guard = self.lock()?;
            for name in names(&self.tmp())? {
                let path = self.tmp().join(name);
                let Ok(file) = File::open(&path) else {
                    // Gone just now.
                    continue;
                };
                // Plain files are records on their way, written within moments: only old ones are left over.
                let metadata = file.metadata().map_err(failed("look at", &path))?;
                let is_old = metadata
                    .modified()
                    .is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() > 600));
                if metadata.is_dir() {
                    if try_lock(&file, &path)? {
                        dead.push((path, file));
                    }
                } else if is_old {
                    // Another one may be quicker.
                    let _ = fs::remove_file(&path);
                }
            }
        }
        // Their locks are kept until they are gone, so that no two processes are at one.
        for (path, _lock) in dead {
            if let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!(%error, "cannot remove {}", path.display());
            }
        }
        Ok(())
    }

    /// The entry, locked against being collected; `None` if there is none, or a damaged one. Each is read whole when
    /// it is used for the first time since the host was started: files that were written may not have survived a
    /// loss of power, and disks forget.
    pub(crate) fn get(
        &self,
        key: &Key,
        reference: &Reference,
        digest: Digest,
    ) -> Result<Option<StoredImage>, StoreError> {
        let folder = self.entry(key);
        loop {
            let lock = match File::open(&folder) {
                Ok(lock) => lock,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed("open", &folder)(error)),
            };
            lock.lock_shared().map_err(failed("lock", &folder))?;
            // It may have been collected, and pulled again, before it was locked.
            if !is_still(&lock, &folder)? {
                continue;
            }
            let record = match entry::read(&folder)? {
                Some(record) if self.is_checked(key) => Some(record),
                Some(record) if entry::is_sound(&folder, &record)? => {
                    self.note_checked(key)?;
                    Some(record)
                }
                _ => None,
            };
            let Some(record) = record else {
                tracing::warn!("the image in {} is damaged", folder.display());
                // It is not read again, unless it is in use, or read elsewhere right now.
                if try_lock(&lock, &folder)? && is_still(&lock, &folder)? {
                    self.discard(key)?;
                }
                return Ok(None);
            };
            entry::touch(&folder)?;
            return Ok(Some(StoredImage {
                reference: reference.clone(),
                digest,
                folder,
                record,
                _lock: lock,
            }));
        }
    }

    /// The right to pull an image from `repository`, if nobody else has it. Other repositories have locks of their
    /// own, even for the same image: a slow registry, on purpose or not, delays its own users only.
    pub(crate) fn try_pull_lock(
        &self,
        key: &Key,
        repository: &Repository,
    ) -> Result<Option<PullLock>, StoreError> {
        let name = Digest::of(format!("{}\n{repository}\n", key.name()).as_bytes()).hex();
        let path = self.locks().join(name);
        let file = open_lock(&path)?;
        // The file may have been tidied away between the two steps.
        let is_ours = try_lock(&file, &path)? && is_still(&file, &path)?;
        Ok(is_ours.then_some(PullLock { _file: file }))
    }

    /// Waits for the right to put an image in its place.
    fn publish_lock(&self, key: &Key) -> Result<PullLock, StoreError> {
        let path = self.locks().join(key.name());
        loop {
            let file = open_lock(&path)?;
            file.lock().map_err(failed("lock", &path))?;
            // The file may have been tidied away between the two steps.
            if is_still(&file, &path)? {
                return Ok(PullLock { _file: file });
            }
        }
    }

    /// Removes lock files that nobody holds.
    pub(super) fn tidy_locks(&self) -> Result<(), StoreError> {
        for name in names(&self.locks())? {
            let path = self.locks().join(name);
            if let Ok(file) = File::open(&path)
                && try_lock(&file, &path)?
            {
                // Another one may be quicker.
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// A folder for a pull.
    pub(crate) fn workspace(&self) -> Result<Workspace, StoreError> {
        // A folder that exists but is not locked yet is safe from another process's sweep.
        let _guard = self.lock()?;
        let path = loop {
            let path = self.tmp().join(unique("pull"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                // Left by an earlier process of the same number, not yet swept.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("make", &path)(error)),
            }
        };
        let lock = File::open(&path).map_err(failed("open", &path))?;
        lock.lock().map_err(failed("lock", &path))?;
        Ok(Workspace { path, _lock: lock })
    }

    /// Makes the finished image of `workspace` the entry `key`, and answers it, locked against being collected. If
    /// another one was quicker, from another repository, it is that one's.
    pub(crate) fn publish(
        &self,
        workspace: &Workspace,
        key: &Key,
        mut record: EntryRecord,
        reference: &Reference,
        digest: Digest,
    ) -> Result<StoredImage, StoreError> {
        let made = workspace.path.join("entry");
        record.rootfs_digest = sync_and_hash(&workspace.rootfs()?)?.to_string();
        let path = made.join(RECORD);
        let content = serde_json::to_vec_pretty(&record)
            .map_err(|error| failed("write", &path)(error.into()))?;
        write_whole(&path, &made.join("record"), &content)?;
        // Locked before it is visible, so that it is not collected.
        let lock = File::open(&made).map_err(failed("open", &made))?;
        lock.lock_shared().map_err(failed("lock", &made))?;
        let _guard = self.publish_lock(key)?;
        if let Some(image) = self.get(key, reference, digest)? {
            return Ok(image);
        }
        // A damaged one that is in use.
        self.discard(key)?;
        let folder = self.entry(key);
        fs::rename(&made, &folder).map_err(failed("write", &folder))?;
        sync_folder(&self.entries())?;
        self.note_checked(key)?;
        Ok(StoredImage {
            reference: reference.clone(),
            digest,
            folder,
            record,
            _lock: lock,
        })
    }

    /// Moves an entry out of the way and removes it.
    pub(super) fn discard(&self, key: &Key) -> Result<(), StoreError> {
        let entry = self.entry(key);
        if !entry.exists() {
            return Ok(());
        }
        let trash = self.workspace()?;
        match fs::rename(&entry, trash.path.join("entry")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed("remove", &entry)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Workspace {
    /// Where the root file system is made.
    pub(crate) fn rootfs(&self) -> Result<PathBuf, StoreError> {
        let folder = self.path.join("entry");
        make_folder(&folder)?;
        Ok(folder.join(ROOTFS))
    }

    /// Where the layer `number` waits.
    pub(crate) fn layer(&self, number: usize) -> PathBuf {
        self.path.join(format!("layer-{number}"))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, "cannot remove {}", self.path.display());
        }
    }
}

/// Makes a file last, and computes its digest in the meantime.
fn sync_and_hash(path: &Path) -> Result<Digest, StoreError> {
    let open = || File::open(path).map_err(failed("open", path));
    let (to_sync, to_read) = (open()?, open()?);
    std::thread::scope(|scope| {
        let synced = scope.spawn(move || to_sync.sync_all());
        let digest = digest(&to_read).map_err(failed("read", path))?;
        match synced.join() {
            Ok(synced) => synced.map_err(failed("sync", path))?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(digest)
    })
}

fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);

    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{:x}-{number:x}", std::process::id())
}
