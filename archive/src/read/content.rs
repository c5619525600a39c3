//! Contents of a zip's entries.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use crc32fast::Hasher;
use flate2::bufread::DeflateDecoder;
use libdeflater::Decompressor;

use super::zip_directory::{Item, content_start};
use super::{ExtractError, MOST_WINDOW};

/// Entries up to this size, packed and unpacked, are unpacked in memory, which is faster.
const SMALL: u64 = 1 << 20;

/// What is moved at once of larger ones.
const COPY: usize = 256 << 10;

/// Zstandard's number (APPNOTE 4.4.5).
const ZSTD: u16 = 93;

/// One thread's tools.
pub(super) struct Unpacker<'a> {
    archive: &'a File,
    inflate: Decompressor,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    /// Held while a large entry in zstd is unpacked, of which each may take [`MOST_WINDOW`] in memory.
    large_zstd: &'a Mutex<()>,
    packed: Vec<u8>,
    content: Vec<u8>,
}

impl<'a> Unpacker<'a> {
    /// So many large entries in zstd are unpacked at once as there are mutexes among all threads.
    pub(super) fn new(archive: &'a File, large_zstd: &'a Mutex<()>) -> Self {
        Self {
            archive,
            inflate: Decompressor::new(),
            zstd: None,
            large_zstd,
            packed: Vec::new(),
            content: Vec::new(),
        }
    }

    /// An entry's content, given to `sink` piece by piece and checked.
    ///
    /// # Errors
    ///
    /// [`ExtractError::Damaged`] if it is not what the directory says, else what `sink` says.
    pub(super) fn unpack(
        &mut self,
        item: &Item,
        name: &[u8],
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ExtractError>,
    ) -> Result<(), ExtractError> {
        if ![0, 8, ZSTD].contains(&item.method) {
            let what = format!("compression method {} is not supported", item.method);
            return Err(ExtractError::damaged(name, what));
        }
        if item.method == 0 && item.packed != item.size {
            return Err(ExtractError::damaged(
                name,
                "it is stored, and its two sizes differ",
            ));
        }
        let start = content_start(self.archive, item, name)?;
        if item.packed <= SMALL && item.size <= SMALL {
            let content = self.small(item, name, start)?;
            if crc32fast::hash(content) != item.crc {
                return Err(wrong_checksum(name));
            }
            return if content.is_empty() {
                Ok(())
            } else {
                sink(content)
            };
        }
        self.large(item, name, start, sink)
    }

    /// A small entry's content; for links, whose targets are small, too.
    fn small(&mut self, item: &Item, name: &[u8], start: u64) -> Result<&[u8], ExtractError> {
        let sized = |size: u64| usize::try_from(size).unwrap_or_default();
        self.packed.resize(sized(item.packed), 0);
        self.archive
            .read_exact_at(&mut self.packed, start)
            .map_err(|_| ExtractError::damaged(name, "its content is cut off"))?;
        self.content.resize(sized(item.size), 0);
        let got = match item.method {
            0 => return Ok(&self.packed),
            8 => {
                let got = self
                    .inflate
                    .deflate_decompress(&self.packed, &mut self.content);
                got.map_err(|error| ExtractError::damaged(name, error.to_string()))?
            }
            _ => self.small_zstd(name)?,
        };
        if got != self.content.len() {
            return Err(wrong_size(name));
        }
        Ok(&self.content)
    }

    fn small_zstd(&mut self, name: &[u8]) -> Result<usize, ExtractError> {
        let damaged = |error: io::Error| ExtractError::damaged(name, error.to_string());
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => {
                let mut zstd = zstd::bulk::Decompressor::new().map_err(damaged)?;
                zstd.window_log_max(MOST_WINDOW).map_err(damaged)?;
                none.insert(zstd)
            }
        };
        zstd.decompress_to_buffer(&self.packed, self.content.as_mut_slice())
            .map_err(damaged)
    }

    fn large(
        &mut self,
        item: &Item,
        name: &[u8],
        start: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ExtractError>,
    ) -> Result<(), ExtractError> {
        let damaged = |error: io::Error| ExtractError::damaged(name, error.to_string());
        let packed = Section {
            file: self.archive,
            at: start,
            left: item.packed,
        };
        let packed = BufReader::with_capacity(COPY, packed);
        let _turn = (item.method == ZSTD).then(|| {
            self.large_zstd
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        });
        let mut content: Box<dyn Read + '_> = match item.method {
            0 => Box::new(packed),
            8 => Box::new(DeflateDecoder::new(packed)),
            _ => {
                let mut zstd = zstd::stream::read::Decoder::with_buffer(packed).map_err(damaged)?;
                zstd.window_log_max(MOST_WINDOW).map_err(damaged)?;
                Box::new(zstd)
            }
        };
        self.content.resize(COPY, 0);
        let mut checksum = Hasher::new();
        let mut left = item.size;
        loop {
            let got = match content.read(&mut self.content) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(damaged(error)),
            };
            left = left
                .checked_sub(got as u64)
                .ok_or_else(|| wrong_size(name))?;
            let piece = self.content.get(..got).unwrap_or_default();
            checksum.update(piece);
            sink(piece)?;
        }
        if left > 0 {
            return Err(wrong_size(name));
        }
        if checksum.finalize() != item.crc {
            return Err(wrong_checksum(name));
        }
        Ok(())
    }
}

fn wrong_size(name: &[u8]) -> ExtractError {
    ExtractError::damaged(name, "its content is not as long as the archive says")
}

fn wrong_checksum(name: &[u8]) -> ExtractError {
    ExtractError::damaged(name, "its checksum is wrong")
}

/// A part of a file, read without moving the position that others share.
struct Section<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let got = self
            .file
            .read_at(buffer.get_mut(..want).unwrap_or_default(), self.at)?;
        if got == 0 && want > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += got as u64;
        self.left -= got as u64;
        Ok(got)
    }
}
