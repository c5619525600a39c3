//! Lists that outgrow memory go on in files that have no name.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::fcntl::OFlag;

/// Memory that the list of chosen entries may take, in bytes: 200,000 entries whose paths have 120 bytes, so that
/// an agent stays below 128 MiB together with its threads ([`crate::write()`]).
const MEMORY: usize = 32 << 20;

/// Where, and from which size on, lists go on in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// A folder on a disk with room for about 300 bytes for each entry, and 16 times `memory` where patterns choose the
    /// same again and again. Its file system must know files without names (`O_TMPFILE`, open(2)).
    pub folder: PathBuf,
    /// Bytes of chosen entries that stay in memory; a zip's directory may take a quarter of it besides.
    pub memory: usize,
}

/// Why a list cannot go on in a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpillError {
    /// The disk is full.
    #[error(
        "no room in `{}` for the list of chosen files; make room there, or choose fewer files",
        folder.display()
    )]
    Full {
        /// The folder of [`Spill`].
        folder: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something else is wrong with the file or folder.
    #[error("cannot keep the list of chosen files in `{}`: {source}", folder.display())]
    Io {
        /// The folder of [`Spill`].
        folder: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Spill {
    /// Into files in `folder`, from 32 MiB on: 200,000 entries stay in memory.
    #[must_use]
    pub fn into_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            memory: MEMORY,
        }
    }

    fn file(&self) -> Result<File, SpillError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(OFlag::O_TMPFILE.bits())
            .open(&self.folder)
            .map_err(|source| self.failed(source))
    }

    pub(crate) fn failed(&self, source: io::Error) -> SpillError {
        let folder = self.folder.clone();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                SpillError::Full { folder, source }
            }
            _ => SpillError::Io { folder, source },
        }
    }
}

/// Bytes that are written and then read from front to back.
#[derive(Debug)]
pub(crate) struct Spool {
    /// With the bytes that stay in memory; none if all do.
    spill: Option<(Spill, usize)>,
    file: Option<File>,
    /// Bytes in the file.
    filed: u64,
    /// The bytes behind them.
    memory: Vec<u8>,
}

impl Spool {
    /// Keeps so many bytes in memory, or all if there is nowhere else.
    pub(crate) fn new(spill: Option<&Spill>, most: usize) -> Self {
        Self {
            spill: spill.map(|spill| (spill.clone(), most)),
            file: None,
            filed: 0,
            memory: Vec::new(),
        }
    }

    /// Appends what `make` appends.
    ///
    /// # Errors
    ///
    /// [`SpillError`]: the bytes are no longer what they should be.
    pub(crate) fn append(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> Result<(), SpillError> {
        make(&mut self.memory);
        let Some((spill, most)) = &self.spill else {
            return Ok(());
        };
        if self.memory.len() > *most {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(spill.file()?),
            };
            file.write_all(&self.memory)
                .map_err(|error| spill.failed(error))?;
            self.filed += self.memory.len() as u64;
            self.memory.clear();
        }
        Ok(())
    }

    /// All bytes.
    pub(crate) fn reader(&self) -> SpoolReader<'_> {
        SpoolReader { spool: self, at: 0 }
    }

    /// What a failed read is.
    pub(crate) fn failed(&self, error: io::Error) -> SpillError {
        match &self.spill {
            Some((spill, _)) => spill.failed(error),
            None => SpillError::Io {
                folder: PathBuf::new(),
                source: error,
            },
        }
    }
}

/// Reads a [`Spool`].
pub(crate) struct SpoolReader<'a> {
    spool: &'a Spool,
    at: u64,
}

impl Read for SpoolReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = match (&self.spool.file, self.spool.filed.checked_sub(self.at)) {
            (Some(file), Some(left @ 1..)) => {
                let most =
                    usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
                let room = buffer.get_mut(..most).unwrap_or_default();
                match file.read_at(room, self.at)? {
                    0 if most > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    got => got,
                }
            }
            _ => {
                let start = usize::try_from(self.at - self.spool.filed).unwrap_or(usize::MAX);
                let mut rest = self.spool.memory.get(start..).unwrap_or_default();
                rest.read(buffer)?
            }
        };
        self.at += got as u64;
        Ok(got)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_in_order_from_file_and_memory() {
        let spill = Spill::into_folder(std::env::temp_dir());
        let wanted: Vec<u8> = (0..100u8).flat_map(|byte| [byte; 7]).collect();
        for spill in [Some(&spill), None] {
            for most in [0, 1, 10, 699, 700] {
                let mut spool = Spool::new(spill, most);
                for piece in wanted.chunks(7) {
                    spool.append(|bytes| bytes.extend(piece)).unwrap();
                }
                assert_eq!(spool.file.is_some(), spill.is_some() && most < 700);
                for _ in 0..2 {
                    let mut bytes = Vec::new();
                    spool.reader().read_to_end(&mut bytes).unwrap();
                    assert_eq!(bytes, wanted);
                }
            }
        }
    }

    #[test]
    fn a_file_that_lost_its_end_is_an_error() {
        let spill = Spill::into_folder(std::env::temp_dir());
        let mut spool = Spool::new(Some(&spill), 0);
        spool.append(|bytes| bytes.extend([1; 10])).unwrap();
        spool.file.as_ref().unwrap().set_len(5).unwrap();

        let error = spool.reader().read_to_end(&mut Vec::new()).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
