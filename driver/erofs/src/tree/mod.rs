//! The image's tree in memory: one compact record per file and per name.
//!
//! Nothing here does I/O. Space in the image that files give back is noted ([`Tree::take_freed`]).
//!
//! Layers are numbered from 1. Each name knows in which layer it was last brought, each folder in which one it lost
//! what lower layers had in it: so whiteouts tell lower layers from their own, and no folder is searched twice for a
//! layer.

mod brought;
mod change;
mod find;

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::limits::{Limit, Limits};
use crate::tar::Time;
use crate::{ConvertError, EntryProblem};
use brought::Brought;

/// Number of a file's record.
pub(crate) type InodeId = u32;
/// Number of a name's record.
pub(crate) type NameId = u32;

/// The root's record.
pub(crate) const ROOT: InodeId = 0;
/// No record.
const NONE: u32 = u32::MAX;
/// Parts of paths that may be walked for each of the entries that an image may have.
const STEPS_PER_ENTRY: u64 = 100;

/// A file of any type. 48 bytes.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) size: u64,
    pub(crate) mtime: Time,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Names of the file; not kept for folders.
    pub(crate) links: u32,
    /// Number of its set of extended attributes.
    pub(crate) xattrs: u32,
    /// Regular file: its first block. Symbolic link: where its target is among the texts. Device: its number. Folder:
    /// its first name.
    pub(crate) place: u32,
    /// Type and permissions, as in `st_mode`.
    pub(crate) mode: u16,
    /// Folder: the layer for which nothing of lower layers is left in it.
    cleared: u16,
}

/// What all kinds of files have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    /// At most 0o7777.
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Time,
    pub(crate) xattrs: u32,
}

impl Attributes {
    /// Those of a folder that no layer says anything about.
    pub(crate) const IMPLIED: Self = Self {
        mode: 0o755,
        uid: 0,
        gid: 0,
        mtime: Time {
            seconds: 0,
            nanos: 0,
        },
        xattrs: 0,
    };
}

/// What a new file is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    File { size: u64, first_block: u32 },
    Symlink(&'a [u8]),
    BlockDevice(u32),
    CharDevice(u32),
    Fifo,
}

/// The types of `st_mode` (inode(7)).
pub(crate) mod kind {
    pub(crate) const MASK: u16 = 0o170_000;
    pub(crate) const FOLDER: u16 = 0o040_000;
    pub(crate) const FILE: u16 = 0o100_000;
    pub(crate) const SYMLINK: u16 = 0o120_000;
    pub(crate) const CHAR_DEVICE: u16 = 0o020_000;
    pub(crate) const BLOCK_DEVICE: u16 = 0o060_000;
    pub(crate) const FIFO: u16 = 0o010_000;
}

/// A name in a folder. 20 bytes.
#[derive(Debug)]
struct Name {
    parent: InodeId,
    /// [`NONE`] once removed.
    inode: InodeId,
    /// The next name of the folder, removed ones among them.
    next: NameId,
    text: u32,
    /// The layer that brought it last, or something below it.
    layer: u16,
    len: u8,
    /// That layer has an entry for it, and not only for something below it.
    explicit: bool,
}

/// Space of a file that is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) first_block: u32,
    pub(crate) size: u64,
}

/// The tree.
pub(crate) struct Tree {
    inodes: Vec<Inode>,
    names: Vec<Name>,
    /// Names by folder and text.
    index: HashTable<NameId>,
    /// Against names chosen so that they collide.
    hasher: RandomState,
    /// Names and targets of symbolic links, one after the other.
    texts: Vec<u8>,
    freed: Vec<Freed>,
    layer: u16,
    /// Entries and metadata bytes so far.
    entries: u64,
    metadata: u64,
    /// Parts of paths walked so far.
    steps: u64,
    brought: Brought,
    limits: Limits,
}

impl Tree {
    /// A tree with an empty root.
    pub(crate) fn new(limits: Limits) -> Self {
        let mut tree = Self {
            inodes: Vec::new(),
            names: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
            texts: Vec::new(),
            freed: Vec::new(),
            layer: 0,
            entries: 0,
            metadata: 0,
            steps: 0,
            brought: Brought::default(),
            limits,
        };
        tree.new_inode(kind::FOLDER, &Attributes::IMPLIED, 0, NONE);
        tree
    }

    /// From here on everything belongs to the next layer.
    pub(crate) fn begin_layer(&mut self) -> Result<(), ConvertError> {
        self.layer = self.layer.checked_add(1).ok_or(ConvertError::TooLarge {
            limit: Limit::Layers,
            max: u64::from(u16::MAX),
        })?;
        self.forget_brought();
        Ok(())
    }

    /// Counts an entry.
    pub(crate) fn count_entry(&mut self) -> Result<(), ConvertError> {
        // Numbers of records are 32 bits; a folder takes four of them at the most.
        let max = self.limits.max_entries.min(u64::from(u32::MAX / 4));
        self.entries += 1;
        match self.entries <= max {
            true => Ok(()),
            false => Err(ConvertError::TooLarge {
                limit: Limit::Entries,
                max,
            }),
        }
    }

    /// Counts bytes of metadata.
    pub(crate) fn count_metadata(&mut self, bytes: usize) -> Result<(), ConvertError> {
        let max = self.limits.max_metadata_bytes.min(u64::from(u32::MAX));
        self.metadata = self.metadata.saturating_add(bytes as u64);
        match self.metadata <= max {
            true => Ok(()),
            false => Err(ConvertError::TooLarge {
                limit: Limit::MetadataBytes,
                max,
            }),
        }
    }

    /// Counts a step on the way to an entry. Ordinary paths have a dozen; links can make one of a few letters cost
    /// thousands.
    fn count_step(&mut self) -> Result<(), ConvertError> {
        self.count_steps(1)
    }

    fn count_steps(&mut self, steps: usize) -> Result<(), ConvertError> {
        let max = self.limits.max_entries.saturating_mul(STEPS_PER_ENTRY);
        self.steps = self.steps.saturating_add(steps as u64);
        match self.steps <= max {
            true => Ok(()),
            false => Err(ConvertError::TooLarge {
                limit: Limit::Steps,
                max,
            }),
        }
    }

    /// The space that was given back since the last call.
    pub(crate) fn take_freed(&mut self) -> Vec<Freed> {
        std::mem::take(&mut self.freed)
    }

    /// How many records of files there are, those of removed files among them.
    pub(crate) fn inode_count(&self) -> usize {
        self.inodes.len()
    }

    // The numbers below come from this tree alone, which removes nothing from its lists.

    #[expect(clippy::indexing_slicing, reason = "a number of this tree")]
    pub(crate) fn inode(&self, id: InodeId) -> &Inode {
        &self.inodes[id as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "a number of this tree")]
    fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        &mut self.inodes[id as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "a number of this tree")]
    fn name(&self, id: NameId) -> &Name {
        &self.names[id as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "a number of this tree")]
    fn name_mut(&mut self, id: NameId) -> &mut Name {
        &mut self.names[id as usize]
    }

    /// The file that goes by a name.
    pub(crate) fn inode_of(&self, id: NameId) -> InodeId {
        self.name(id).inode
    }

    /// A name's bytes.
    pub(crate) fn text_of(&self, id: NameId) -> &[u8] {
        let name = self.name(id);
        self.text(name.text, u64::from(name.len))
    }

    /// The target of a symbolic link.
    pub(crate) fn target_of(&self, id: InodeId) -> &[u8] {
        let inode = self.inode(id);
        self.text(inode.place, inode.size)
    }

    /// The names in a folder, in no particular order.
    pub(crate) fn names_in(&self, folder: InodeId) -> impl Iterator<Item = NameId> + '_ {
        let some = |id: NameId| (id != NONE).then_some(id);
        std::iter::successors(some(self.inode(folder).place), move |id| {
            some(self.name(*id).next)
        })
        .filter(|id| self.name(*id).inode != NONE)
    }

    fn text(&self, at: u32, len: u64) -> &[u8] {
        text_in(&self.texts, at, len)
    }

    fn add_text(&mut self, text: &[u8]) -> Result<u32, ConvertError> {
        self.count_metadata(text.len())?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "texts are metadata, of which 4 GiB count at the most"
        )]
        let at = self.texts.len() as u32;
        self.texts.extend_from_slice(text);
        Ok(at)
    }

    fn new_inode(&mut self, kind: u16, attributes: &Attributes, size: u64, place: u32) -> InodeId {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "`count_entry` lets no more in than 32 bits count"
        )]
        let id = self.inodes.len() as InodeId;
        self.inodes.push(Inode {
            size,
            mtime: attributes.mtime,
            uid: attributes.uid,
            gid: attributes.gid,
            links: 0,
            xattrs: attributes.xattrs,
            place,
            mode: kind | attributes.mode,
            cleared: self.layer,
        });
        id
    }

    fn hash(&self, folder: InodeId, text: &[u8]) -> u64 {
        self.hasher.hash_one((folder, text))
    }

    /// The name `text` in `folder`.
    fn find_name(&self, folder: InodeId, text: &[u8]) -> Option<NameId> {
        let same = |id: &NameId| self.name(*id).parent == folder && self.text_of(*id) == text;
        let hash = self.hash(folder, text);
        self.index.find(hash, same).copied()
    }
}

impl Inode {
    pub(crate) fn is_folder(&self) -> bool {
        self.mode & kind::MASK == kind::FOLDER
    }

    fn is_symlink(&self) -> bool {
        self.mode & kind::MASK == kind::SYMLINK
    }

    fn attributes(&self) -> Attributes {
        Attributes {
            mode: self.mode & !kind::MASK,
            uid: self.uid,
            gid: self.gid,
            mtime: self.mtime,
            xattrs: self.xattrs,
        }
    }

    fn set(&mut self, attributes: &Attributes) {
        self.mode = self.mode & kind::MASK | attributes.mode;
        self.uid = attributes.uid;
        self.gid = attributes.gid;
        self.mtime = attributes.mtime;
        self.xattrs = attributes.xattrs;
    }
}

/// Why a change to the tree cannot be made.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Because of the entry.
    Entry(EntryProblem),
    /// Because of a limit.
    Limit(ConvertError),
}

impl From<EntryProblem> for Refused {
    fn from(problem: EntryProblem) -> Self {
        Self::Entry(problem)
    }
}

impl From<ConvertError> for Refused {
    fn from(error: ConvertError) -> Self {
        Self::Limit(error)
    }
}

/// A text of a tree, by where `texts` has it.
fn text_in(texts: &[u8], at: u32, len: u64) -> &[u8] {
    let at = at as usize;
    let end = usize::try_from(len)
        .ok()
        .and_then(|len| at.checked_add(len));
    end.and_then(|end| texts.get(at..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`Limits`] promises how much memory an entry takes.
    #[test]
    fn records_are_small() {
        assert_eq!((size_of::<Inode>(), size_of::<Name>()), (48, 20));
    }
}
