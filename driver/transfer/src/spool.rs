//! Archives on the host's disk: a private file each, bounded, gone with its owner.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

/// Most bytes of one archive (dispatch protocol, "Archiving and extracting").
pub const MAX_ARCHIVE: u64 = 10 << 30;

/// An archive cannot be kept on the host.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// It is larger than archives may be.
    #[error("the archive is larger than {} GiB", MAX_ARCHIVE >> 30)]
    TooLarge,
    /// The disk does not do as it should.
    #[error("cannot keep the archive on this host's disk")]
    Io(#[from] io::Error),
}

/// An archive being written.
pub struct Spool {
    /// Where it lies; removed when dropped.
    file: NamedTempFile,
    writer: File,
    digest: Sha256,
    size: u64,
    limit: u64,
}

/// An archive that was written.
#[derive(Debug)]
pub struct Spooled {
    file: NamedTempFile,
    size: u64,
    digest: [u8; 32],
}

impl Spool {
    /// An empty one in `folder`, which may grow to [`MAX_ARCHIVE`].
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn create(folder: &Path) -> Result<Self, SpoolError> {
        Self::with_limit(folder, MAX_ARCHIVE)
    }

    fn with_limit(folder: &Path, limit: u64) -> Result<Self, SpoolError> {
        let file = tempfile::Builder::new()
            .prefix("archive-")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        let writer = File::from_std(file.reopen()?);
        Ok(Self {
            file,
            writer,
            digest: Sha256::new(),
            size: 0,
            limit,
        })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// If there is too much, or no room for it.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > self.limit {
            return Err(SpoolError::TooLarge);
        }
        self.digest.update(bytes);
        Ok(self.writer.write_all(bytes).await?)
    }

    /// Begins anew.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub async fn clear(&mut self) -> Result<(), SpoolError> {
        self.writer.flush().await?;
        self.writer.set_len(0).await?;
        self.writer.rewind().await?;
        self.digest = Sha256::new();
        self.size = 0;
        Ok(())
    }

    /// Ends the writing.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub async fn finish(mut self) -> Result<Spooled, SpoolError> {
        self.writer.flush().await?;
        Ok(Spooled {
            file: self.file,
            size: self.size,
            digest: self.digest.finalize().into(),
        })
    }
}

impl Spooled {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Moves it to `path`, which must not exist or is replaced.
    ///
    /// # Errors
    ///
    /// If it cannot be moved there.
    pub fn persist(self, path: &Path) -> io::Result<()> {
        match self.file.persist(path) {
            Ok(_) => Ok(()),
            // Another file system.
            Err(error) => {
                let folder = path.parent().unwrap_or(Path::new("."));
                let draft = NamedTempFile::new_in(folder)?;
                std::fs::copy(error.file.path(), draft.path())?;
                draft.as_file().sync_all()?;
                draft.persist(path)?;
                Ok(())
            }
        }
    }

    /// The SHA-256 of its bytes.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// A reader of it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub async fn open(&self) -> io::Result<File> {
        File::open(self.path()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_archive_is_private_bounded_and_gone_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::with_limit(folder.path(), 10).unwrap();
        spool.write(b"0123").await.unwrap();
        spool.write(b"456789").await.unwrap();
        assert!(matches!(spool.write(b"x").await, Err(SpoolError::TooLarge)));
        drop(spool);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

        let mut spool = Spool::with_limit(folder.path(), 10).unwrap();
        spool.write(b"wrong").await.unwrap();
        spool.clear().await.unwrap();
        spool.write(b"abc").await.unwrap();
        let spooled = spool.finish().await.unwrap();
        assert_eq!(spooled.size(), 3);
        assert_eq!(std::fs::read(spooled.path()).unwrap(), b"abc");
        let digest: [u8; 32] = Sha256::digest(b"abc").into();
        assert_eq!(spooled.digest(), digest);
        let mode = std::fs::metadata(spooled.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(spooled);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
