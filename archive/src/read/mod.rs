//! Unpacking archives below a folder and nowhere else (gitlab-runner, wire §3.6).
//!
//! Each entry's folder is opened beneath the destination by the kernel (`openat2(2)`, `RESOLVE_BENEATH`), whatever
//! stands there already; files are made by name in it, never opened through a link; links of the archive are made
//! when all files are there. So neither an archive nor the tree that it meets can lead outside.

mod content;
mod frames;
mod names;
mod place;
mod tar;
mod writers;
mod zip;
mod zip_directory;

use std::fmt;
use std::io;

pub use tar::{extract_tar, extract_tar_zstd};
pub use zip::extract_zip;

use vk_archive_format::Format;

use crate::gopath::show;

/// Largest window that a zstd frame may ask for, as a power of two: what Go's library uses at its best level.
const MOST_WINDOW: u32 = 25;

/// What an archive may cost. What is held in memory for each entry is bounded beside that (`MOST_HELD`).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most entries.
    pub entries: u64,
    /// Most bytes of all files together, unpacked.
    pub bytes: u64,
}

/// Most bytes that are held of entries: names, targets of links, and what an entry takes beside them. Of a zip of a million
/// files, with names of a hundred bytes, they are 190 million.
const MOST_HELD: usize = 256 << 20;

/// Why an entry with the destination's name is refused.
const NO_FOLDER: &str = "names the destination, and is no folder";

/// Who owns what is unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Whom the archive names, as far as the kernel lets it.
    #[default]
    Archived,
    /// Who unpacks.
    Unpacking,
    /// This user and group.
    Fixed(u32, u32),
}

/// How to unpack.
#[derive(Clone, Copy, Debug)]
pub struct ExtractOptions {
    /// Bounds.
    pub limits: Limits,
    /// Owner.
    pub owner: Owner,
    /// Threads that unpack and write files; more than a few are not used.
    pub threads: usize,
}

/// What was unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Files, folders and links.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// A link that was not made, if there is one.
    pub obstructed: Option<ObstructedLink>,
}

/// A link of an archive that was not made, as a folder with something in it has its name. All else is there.
///
/// Other entries of the archive lie below it, where a path led through a link to a folder and another one chose the link; or
/// the folder stood there before. GitLab Runner fails on it when all files are there; the text is its last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObstructedLink {
    /// Its path, with the destination's.
    pub path: Vec<u8>,
}

impl ObstructedLink {
    fn new(dest: &str, path: &[u8]) -> Self {
        let path = [dest.as_bytes(), b"/", path].concat();
        Self { path }
    }
}

impl fmt::Display for ObstructedLink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "remove {}: directory not empty", show(&self.path))
    }
}

/// Why an archive cannot be unpacked. What came before the trouble stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The format is not one to unpack; the words are GitLab Runner's.
    #[error("{0:?} format: unsupported archive format")]
    Format(&'static str),
    /// The destination cannot be used.
    #[error("cannot unpack into {dest}")]
    Destination {
        /// The folder.
        dest: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// An entry's name leads out of the destination.
    #[error("{entry} cannot be extracted outside of chroot ({dest})")]
    Outside {
        /// The entry's name.
        entry: String,
        /// The folder.
        dest: String,
    },
    /// An entry has no place in the destination.
    #[error("{entry}: {why}")]
    Refused {
        /// The entry's name.
        entry: String,
        /// Why not.
        why: &'static str,
    },
    /// The archive costs more than it may.
    #[error("{entry}: the archive is over the limit of {limit}")]
    Limit {
        /// The entry that went over it.
        entry: String,
        /// The limit.
        limit: String,
    },
    /// An entry's content is not what the archive says.
    #[error("{entry}: {what}")]
    Damaged {
        /// The entry's name.
        entry: String,
        /// What is wrong.
        what: String,
    },
    /// The kernel refuses to make an entry.
    #[error("{entry}")]
    Entry {
        /// The entry's name.
        entry: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The archive is none, or damaged where no entry can be named.
    #[error("the archive is damaged: {0}")]
    Broken(String),
    /// The archive cannot be read.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
}

impl ExtractError {
    fn refused(entry: &[u8], why: &'static str) -> Self {
        Self::Refused {
            entry: show(entry).into_owned(),
            why,
        }
    }

    fn damaged(entry: &[u8], what: impl Into<String>) -> Self {
        Self::Damaged {
            entry: show(entry).into_owned(),
            what: what.into(),
        }
    }

    fn entry(entry: &[u8], source: impl Into<io::Error>) -> Self {
        Self::Entry {
            entry: show(entry).into_owned(),
            source: source.into(),
        }
    }

    fn limit(entry: &[u8], limit: impl Into<String>) -> Self {
        Self::Limit {
            entry: show(entry).into_owned(),
            limit: limit.into(),
        }
    }
}

/// What an archive is, by its first four bytes or more (gitlab-runner, wire §3.4): what is neither zstd nor gzip is
/// taken for a zip.
#[must_use]
pub fn detect(head: &[u8]) -> Format {
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Format::TarZstd
    } else if head.starts_with(&[0x1f, 0x8b]) {
        Format::Gzip
    } else {
        Format::Zip
    }
}
