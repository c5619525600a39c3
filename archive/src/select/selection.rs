//! What was chosen.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::gopath::as_path;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Relative to the project, which itself is `.`; parts are separated by single slashes.
    pub path: &'a [u8],
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
    /// All paths, one behind the other.
    names: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// Where its path begins.
    start: usize,
    /// Length of its path; the kernel takes none over 4 KiB.
    len: u16,
    kind: EntryKind,
    mode: u32,
    size: u64,
    mtime: i64,
    uid: u32,
    gid: u32,
}

impl Selection {
    /// Nothing yet, of the project at `root`.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            names: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Takes one more.
    pub(super) fn push(&mut self, path: &[u8], meta: &Metadata) {
        let kind = meta.file_type();
        self.items.push(Item {
            start: self.names.len(),
            len: u16::try_from(path.len()).unwrap_or(u16::MAX),
            kind: if kind.is_file() {
                EntryKind::File
            } else if kind.is_dir() {
                EntryKind::Folder
            } else if kind.is_symlink() {
                EntryKind::Symlink
            } else {
                EntryKind::Other
            },
            mode: meta.mode(),
            size: if kind.is_file() { meta.len() } else { 0 },
            mtime: meta.mtime(),
            uid: meta.uid(),
            gid: meta.gid(),
        });
        self.names.extend_from_slice(path);
    }

    /// Sorts, and leaves one of each path.
    pub(super) fn tidy(&mut self) {
        let names = &self.names;
        let name = |item: &Item| names.get(item.start..item.start + usize::from(item.len));
        self.items.sort_by(|one, other| name(one).cmp(&name(other)));
        self.items.dedup_by(|one, other| name(one) == name(other));
        let held: usize = self.items.iter().map(|item| usize::from(item.len)).sum();
        // Paths chosen again and again would pile up.
        if held * 2 < self.names.len() {
            let mut kept = Vec::with_capacity(held);
            for item in &mut self.items {
                let range = item.start..item.start + usize::from(item.len);
                item.start = kept.len();
                kept.extend_from_slice(self.names.get(range).unwrap_or_default());
            }
            self.names = kept;
        }
    }

    /// The project's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// One by its number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Entry<'_>> {
        self.items.get(number).map(|item| self.entry(item))
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.items.iter().map(|item| self.entry(item))
    }

    /// Where an entry lies.
    pub(crate) fn place(&self, path: &[u8]) -> PathBuf {
        self.root.join(as_path(path))
    }

    fn entry(&self, item: &Item) -> Entry<'_> {
        let range = item.start..item.start + usize::from(item.len);
        Entry {
            path: self.names.get(range).unwrap_or_default(),
            kind: item.kind,
            mode: item.mode,
            size: item.size,
            mtime: item.mtime,
            uid: item.uid,
            gid: item.gid,
        }
    }
}
