//! LFS objects that this host has already.
//!
//! Objects are named by their content, so one is as good as another; which of them a job may have, its own
//! commit says, in which the name stands. They are kept for each project apart, next to its packs.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::pointer::{Oid, hex};
use super::scan::Pointers;
use crate::cache::{SourceCache, link};

/// Where objects are found.
#[derive(Clone, Debug)]
pub(super) enum Store {
    /// Nowhere.
    None,
    /// In git-lfs' own folder of a repository on this host; nothing is added to it.
    Local(PathBuf),
    /// In this folder of a project's; what comes is added to it, and the cache kept within its bound.
    Kept(SourceCache, PathBuf),
}

impl Store {
    /// The objects of the repository whose shared `.git` folder is `common_dir`.
    pub(super) fn of_local(common_dir: &Path) -> Self {
        Self::Local(common_dir.join("lfs/objects"))
    }

    fn find(&self, oid: &str) -> Option<PathBuf> {
        match self {
            Self::None => None,
            Self::Local(objects) => Some(objects.join(place(oid))),
            Self::Kept(_, folder) => Some(folder.join(oid)),
        }
    }

    /// Puts the objects that are here where git-lfs looks for them, below `storage`. An object whose content is
    /// not what its name says is not taken, and no longer kept.
    pub(super) async fn lend(&self, storage: &Path, pointers: &Pointers) {
        let wanted = wanted(pointers);
        let (store, storage) = (self.clone(), storage.to_path_buf());
        blocking(move || {
            make_folder(&storage)?;
            for (oid, size) in wanted {
                let Some(from) = store.find(&hex(&oid)) else {
                    return Ok(());
                };
                match is_sound(&from, &oid, size) {
                    Ok(true) => {
                        let to = storage.join("objects").join(place(&hex(&oid)));
                        make_folder(to.parent().unwrap_or(&to))?;
                        link(&from, &to)?;
                    }
                    Ok(false) if matches!(store, Self::Kept(..)) => fs::remove_file(&from)?,
                    Ok(false) | Err(_) => {}
                }
            }
            Ok(())
        })
        .await;
    }

    /// Keeps the objects that git-lfs brought, whose content it has checked.
    pub(super) async fn keep(&self, storage: &Path, pointers: &Pointers) {
        let Self::Kept(cache, folder) = self.clone() else {
            return;
        };
        let wanted = wanted(pointers);
        let objects = storage.join("objects");
        blocking(move || {
            make_folder(&folder)?;
            for (oid, _) in wanted {
                let oid = hex(&oid);
                let from = objects.join(place(&oid));
                // A repository may want a part of its files only.
                if from.exists() {
                    link(&from, &folder.join(&oid))?;
                    File::open(&from)?.set_modified(SystemTime::now())?;
                }
            }
            cache.sweep()
        })
        .await;
    }
}

fn wanted(pointers: &Pointers) -> HashMap<Oid, u64> {
    pointers.objects().map(|(oid, size)| (*oid, size)).collect()
}

/// A job does not fail because nothing could be kept of it, or lent to it.
async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) {
    let done = tokio::task::spawn_blocking(work).await;
    if let Err(error) = done.map_err(io::Error::from).flatten() {
        tracing::warn!(%error, "cannot use the LFS objects of earlier jobs");
    }
}

/// Path of an object in git-lfs' folder of objects.
fn place(oid: &str) -> PathBuf {
    let part = |from: usize, to: usize| oid.get(from..to).unwrap_or_default();
    Path::new(part(0, 2)).join(part(2, 4)).join(oid)
}

fn is_sound(path: &Path, oid: &Oid, size: u64) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != size {
        return Ok(false);
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hash.finalize().as_slice() == oid);
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
