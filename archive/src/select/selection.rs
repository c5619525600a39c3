//! What was chosen.

use std::path::{Path, PathBuf};

use super::list::List;
use super::runs::Run;
use crate::gopath::as_path;
use crate::spill::{Spill, SpillError};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device: counted and left out of archives.
    Other,
}

/// One file, folder or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the project, which itself is `.`; parts are separated by single slashes.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// As stat(2) has it, type included.
    pub mode: u32,
    /// Bytes of a file's content when it was chosen.
    pub size: u64,
    /// When it was changed last, in seconds since 1970.
    pub mtime: i64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The chosen entries of one project, each path once, in the order of the paths' bytes.
#[derive(Debug)]
pub struct Selection {
    root: PathBuf,
    spill: Option<Spill>,
    kept: Kept,
}

/// Where the entries are.
#[derive(Debug)]
pub(super) enum Kept {
    Memory(List),
    Spilled(Run),
}

impl Selection {
    pub(super) fn new(root: PathBuf, spill: Option<Spill>, kept: Kept) -> Self {
        Self { root, spill, kept }
    }

    /// The project's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.kept {
            Kept::Memory(list) => list.len(),
            Kept::Spilled(run) => run.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All, in order. An error, which only those that are kept in a file can have, is the last.
    pub fn iter(&self) -> impl Iterator<Item = Result<Entry, SpillError>> {
        let (list, run) = match &self.kept {
            Kept::Memory(list) => (Some(list), None),
            Kept::Spilled(run) => (None, Some(run)),
        };
        let list = list.into_iter().flat_map(List::iter).map(Ok);
        list.chain(run.into_iter().flat_map(Run::iter))
    }

    /// Whether the entries are kept in a file.
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        matches!(self.kept, Kept::Spilled(_))
    }

    /// Where lists go on that outgrow memory.
    pub(crate) fn spill(&self) -> Option<&Spill> {
        self.spill.as_ref()
    }

    /// Where an entry lies.
    pub(crate) fn place(&self, path: &[u8]) -> PathBuf {
        self.root.join(as_path(path))
    }
}
