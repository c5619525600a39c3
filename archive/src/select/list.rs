//! Chosen entries in memory.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::selection::{Entry, EntryKind};

/// Entries; once [`List::tidy`] was called, each path once and in the order of the paths' bytes.
#[derive(Debug, Default)]
pub(super) struct List {
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

impl List {
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

    /// Sorts, and leaves the first one of each path.
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

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Memory that they take, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.names.len() + size_of_val(self.items.as_slice())
    }

    /// All, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.items.iter().map(|item| {
            let range = item.start..item.start + usize::from(item.len);
            Entry {
                path: self.names.get(range).unwrap_or_default().to_vec(),
                kind: item.kind,
                mode: item.mode,
                size: item.size,
                mtime: item.mtime,
                uid: item.uid,
                gid: item.gid,
            }
        })
    }
}
