//! How much of this host's disk a checkout takes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::error::CheckoutError;

/// How often the folder is measured, at most and at least.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Measuring takes at most the fifth part of the time.
const SHARE: u32 = 4;

/// What a file takes at least, in bytes: its inode and name.
const LEAST: u64 = 4096;

/// A folder and what it may grow to.
///
/// git and git-lfs have no bound of their own for what a server sends them, so the folder is measured while they
/// work. What comes between two looks comes on top.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// The folder.
    pub(super) folder: PathBuf,
    /// Most bytes in it.
    pub(super) max_bytes: u64,
}

/// Why a command is not let go on.
#[derive(Debug)]
pub(super) enum Broken {
    /// The folder is over its bound.
    Outgrown(CheckoutError),
    /// Nothing came for too long.
    Stalled,
}

impl Bound {
    /// Resolves when the folder is over its bound, or when it has stayed as it is for `stall`.
    pub(super) async fn broken(&self, stall: Option<Duration>) -> Broken {
        let (least, most) = PAUSE;
        let mut pause = least;
        let mut last = (0, Instant::now());
        loop {
            tokio::time::sleep(pause).await;
            let began = Instant::now();
            let taken = match self.check().await {
                Ok(taken) => taken,
                Err(error) => return Broken::Outgrown(error),
            };
            if taken != last.0 {
                last = (taken, began);
            }
            if stall.is_some_and(|stall| last.1.elapsed() >= stall) {
                return Broken::Stalled;
            }
            pause = (began.elapsed() * SHARE).clamp(least, most);
        }
    }

    /// Measures the folder once; gives its bytes.
    pub(super) async fn check(&self) -> Result<u64, CheckoutError> {
        let Self { folder, max_bytes } = self.clone();
        // Fails only when the runtime ends.
        let taken = tokio::task::spawn_blocking(move || measure(folder, max_bytes)).await;
        match taken.unwrap_or_default() {
            taken if taken > max_bytes => Err(CheckoutError::DiskBound { taken, max_bytes }),
            taken => Ok(taken),
        }
    }
}

/// Bytes that a folder takes; not all of them when they are more than `enough`. What goes meanwhile is not counted.
fn measure(folder: PathBuf, enough: u64) -> u64 {
    let mut taken = 0u64;
    let mut pending = vec![folder];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if taken > enough {
                return taken;
            }
            // Of a link, the link.
            let Ok(found) = entry.metadata() else {
                continue;
            };
            if found.is_dir() {
                pending.push(entry.path());
            }
            let blocks = found.blocks().saturating_mul(512);
            taken = taken.saturating_add(found.len().max(blocks).max(LEAST));
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_over_its_bound_is_told_and_links_lead_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large"), vec![1; 1 << 20]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        let bound = Bound {
            folder: folder.path().to_owned(),
            max_bytes: 200_000,
        };
        bound.check().await.unwrap();

        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/file"), vec![1; 300_000]).unwrap();

        let Broken::Outgrown(error) = bound.broken(None).await else {
            panic!("it does not stall");
        };
        assert!(
            matches!(error, CheckoutError::DiskBound { taken, max_bytes: 200_000 } if taken > 200_000),
            "{error}"
        );
    }

    #[test]
    fn empty_files_count_too() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..100 {
            fs::write(folder.path().join(format!("{number}")), "").unwrap();
        }

        assert_eq!(measure(folder.path().to_owned(), u64::MAX), 100 * LEAST);
    }
}
