//! Writing the image file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, PosixFadviseAdvice, fallocate, posix_fadvise};

use crate::ConvertError;
use crate::format::BLOCK;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 256 << 10;
/// Pieces at least as long are written without a detour.
const DIRECT: usize = 64 << 10;
/// After so many bytes the system is told to begin writing them to disk: then little is left to wait for at the end.
const WRITE_BACK: u64 = 8 << 20;

const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// The image file, written mostly from front to back. Places that are never written are holes and read as zeros.
pub(crate) struct ImageFile {
    file: File,
    gathered: Vec<u8>,
    /// Where the gathered bytes belong.
    start: u64,
    /// Up to where writing to disk has begun.
    written_back: u64,
}

impl ImageFile {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            gathered: Vec::with_capacity(GATHERED),
            start: 0,
            written_back: 0,
        }
    }

    /// Writes `bytes` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ConvertError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = self.start + self.gathered.len() as u64;
        let fits = self.gathered.len() + bytes.len() <= GATHERED;
        if offset != end || !fits || bytes.len() >= DIRECT {
            self.flush()?;
        }
        if bytes.len() >= DIRECT {
            return self.write_now(offset, bytes);
        }
        if self.gathered.is_empty() {
            self.start = offset;
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes what was gathered.
    pub(crate) fn flush(&mut self) -> Result<(), ConvertError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.gathered);
        let written = self.write_now(self.start, &gathered);
        self.gathered = gathered;
        self.gathered.clear();
        written
    }

    fn write_now(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ConvertError> {
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|source| failed("write", source))?;
        let end = offset + bytes.len() as u64;
        if end >= self.written_back.saturating_add(WRITE_BACK) {
            // "Not needed" starts writing what is not on disk yet, and drops none of it. Only a hint.
            let (from, len) = (self.written_back, end - self.written_back);
            if let (Ok(from), Ok(len)) = (i64::try_from(from), i64::try_from(len)) {
                let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
                let _ = posix_fadvise(&self.file, from, len, advice);
            }
            self.written_back = end;
        }
        Ok(())
    }

    /// Gives whole blocks, `len` bytes at `offset`, back to the host; they read as zeros from here on.
    pub(crate) fn punch(&mut self, offset: u64, len: u64) -> Result<(), ConvertError> {
        self.flush()?;
        // Contents with holes at their end may reach beyond the file's.
        let end = self.len()?.min(offset + len);
        let Some(len) = end.checked_sub(offset).filter(|len| *len > 0) else {
            return Ok(());
        };
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let (Ok(from), Ok(bytes)) = (i64::try_from(offset), i64::try_from(len)) else {
            return Err(failed("free space in", Errno::EOVERFLOW.into()));
        };
        match fallocate(&self.file, flags, from, bytes) {
            Ok(()) => Ok(()),
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => self.zero(offset, len),
            Err(error) => Err(failed("free space in", error.into())),
        }
    }

    /// For file systems without holes.
    fn zero(&mut self, offset: u64, len: u64) -> Result<(), ConvertError> {
        for at in (offset..offset + len).step_by(BLOCK) {
            self.write(at, &ZEROS)?;
        }
        self.flush()
    }

    /// Makes the file `len` bytes long.
    pub(crate) fn set_len(&mut self, len: u64) -> Result<(), ConvertError> {
        self.flush()?;
        let set = self.file.set_len(len);
        set.map_err(|source| failed("set the length of", source))
    }

    fn len(&self) -> Result<u64, ConvertError> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|source| failed("look at", source))?.len())
    }
}

fn failed(operation: &'static str, source: io::Error) -> ConvertError {
    ConvertError::Write { operation, source }
}

/// Writes one file's contents from front to back, from a block's start on. Blocks of zeros become holes.
pub(crate) struct ContentsWriter<'a> {
    image: &'a mut ImageFile,
    /// Where the next whole block belongs.
    at: u64,
    /// The block that is not complete yet.
    block: Vec<u8>,
}

impl<'a> ContentsWriter<'a> {
    pub(crate) fn new(image: &'a mut ImageFile, at: u64) -> Self {
        Self {
            image,
            at,
            block: Vec::new(),
        }
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), ConvertError> {
        if !self.block.is_empty() {
            let missing = (BLOCK - self.block.len()).min(bytes.len());
            let (some, rest) = bytes.split_at(missing);
            self.block.extend_from_slice(some);
            bytes = rest;
            if self.block.len() < BLOCK {
                return Ok(());
            }
            let block = std::mem::take(&mut self.block);
            self.blocks(&block)?;
            self.block = block;
            self.block.clear();
        }
        let whole = bytes.len() - bytes.len() % BLOCK;
        let (blocks, rest) = bytes.split_at(whole);
        self.blocks(blocks)?;
        self.block.extend_from_slice(rest);
        Ok(())
    }

    /// Adds `len` zeros.
    pub(crate) fn skip(&mut self, mut len: u64) -> Result<(), ConvertError> {
        if !self.block.is_empty() {
            let missing = len.min((BLOCK - self.block.len()) as u64);
            self.zeros(missing)?;
            len -= missing;
        }
        // Now the block is complete and empty again, or there is nothing left.
        let rest = len % BLOCK as u64;
        self.at += len - rest;
        self.zeros(rest)
    }

    /// Adds zeros, of a block at the most.
    fn zeros(&mut self, len: u64) -> Result<(), ConvertError> {
        let len = usize::try_from(len).unwrap_or(BLOCK);
        self.write(ZEROS.get(..len).unwrap_or(&ZEROS))
    }

    /// Writes the last block.
    pub(crate) fn finish(mut self) -> Result<(), ConvertError> {
        let mut block = std::mem::take(&mut self.block);
        if !block.is_empty() {
            block.resize(BLOCK, 0);
            self.blocks(&block)?;
        }
        Ok(())
    }

    /// Writes whole blocks, those of zeros apart.
    fn blocks(&mut self, bytes: &[u8]) -> Result<(), ConvertError> {
        let (blocks, _) = bytes.as_chunks::<BLOCK>();
        for run in blocks.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            let run = run.as_flattened();
            if !run.first_chunk().is_some_and(is_zero) {
                self.image.write(self.at, run)?;
            }
            self.at += run.len() as u64;
        }
        Ok(())
    }
}

fn is_zero(block: &[u8; BLOCK]) -> bool {
    // Most blocks have something else at once; the comparison as a whole is the fastest for the others.
    block[0] == 0 && block[..16] == ZEROS[..16] && *block == ZEROS
}
