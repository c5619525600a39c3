//! Writing the tree behind the contents: first the blocks of folders (and of long symbolic links), then the files'
//! records, each with what fits behind it.

use std::ops::Range;

use crate::data::ImageFile;
use crate::format::folder::{self, Item};
use crate::format::inode::{self, Layout, Placed};
use crate::format::superblock::Superblock;
use crate::format::{BLOCK, blocks};
use crate::layer::Image;
use crate::limits::Limits;
use crate::tree::{Inode, InodeId, NameId, ROOT, Tree, kind};
use crate::xattr::XattrSets;
use crate::{ConvertError, Summary};

/// Names that are in no folder's list, though in its contents.
const DOT: NameId = NameId::MAX - 1;
const DOT_DOT: NameId = NameId::MAX - 2;

/// The root's record comes first. Number 0 is left free: C programs take it for "no file".
const FIRST_SLOT: u64 = inode::SIZE as u64 / inode::SLOT;

/// The same number, as the superblock has it.
const ROOT_SLOT: u16 = 2;

const _: () = assert!(ROOT_SLOT as u64 == FIRST_SLOT);

/// A folder and where its parts are.
struct Folder {
    inode: InodeId,
    parent: InodeId,
    /// Its names in order, in [`Plan::names`].
    start: u32,
    end: u32,
    /// Length of its contents.
    size: u64,
    /// Its first block, if it has any of its own.
    block: u32,
    folders: u32,
}

impl Folder {
    fn names(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Where everything goes.
struct Plan<'a> {
    tree: &'a Tree,
    xattrs: &'a XattrSets,
    limits: &'a Limits,
    /// Breadth first: a folder's files are next to each other.
    folders: Vec<Folder>,
    names: Vec<NameId>,
    /// For each file the folder that it is, or the block of a long link.
    details: Vec<u32>,
    /// For each file the number of its record; 0 for files that are not part of the image.
    slots: Vec<u32>,
    /// The first block that is free.
    next_block: u64,
    /// Where the next record goes, in bytes from the first one.
    position: u64,
    placed: u64,
}

pub(crate) fn write(image: Image) -> Result<Summary, ConvertError> {
    let Image {
        mut file,
        tree,
        xattrs,
        next_block,
        limits,
    } = image;
    let mut plan = Plan::new(&tree, &xattrs, &limits, next_block);
    plan.place_contents()?;
    let metadata_block = limits.check_blocks(plan.next_block)?;
    plan.place_records()?;
    let end = plan.next_block + blocks(plan.position);
    let blocks = limits.check_blocks(end)?;

    plan.write_contents(&mut file)?;
    plan.write_records(&mut file, metadata_block)?;
    let len = end * BLOCK as u64;
    file.set_len(len)?;
    let superblock = Superblock {
        root: ROOT_SLOT,
        inodes: plan.placed,
        blocks,
        metadata_block,
    };
    file.write(0, &superblock.encode())?;
    file.flush()?;
    Ok(Summary {
        image_bytes: len,
        inodes: plan.placed,
    })
}

impl<'a> Plan<'a> {
    fn new(tree: &'a Tree, xattrs: &'a XattrSets, limits: &'a Limits, next_block: u32) -> Self {
        let mut plan = Self {
            tree,
            xattrs,
            limits,
            folders: Vec::new(),
            names: Vec::new(),
            details: vec![0; tree.inode_count()],
            slots: vec![0; tree.inode_count()],
            next_block: u64::from(next_block),
            position: FIRST_SLOT * inode::SLOT,
            placed: 0,
        };
        plan.list_folder(ROOT, ROOT);
        let mut next = 0;
        while let Some(folder) = plan.folders.get(next) {
            let parent = folder.inode;
            for at in folder.names() {
                let inode = plan.inode_of(plan.name(at), parent, parent);
                if inode != parent && tree.inode(inode).is_folder() {
                    plan.list_folder(inode, parent);
                }
            }
            next += 1;
        }
        plan
    }

    fn list_folder(&mut self, inode: InodeId, parent: InodeId) {
        let start = self.names.len();
        self.names.extend([DOT, DOT_DOT]);
        self.names.extend(self.tree.names_in(inode));
        let tree = self.tree;
        let names = self.names.get_mut(start..).unwrap_or_default();
        names.sort_unstable_by_key(|name| text(tree, *name));
        let lengths = names.iter().map(|name| text(tree, *name).len());
        let (count, last) = folder::pack(lengths).fold((0, 0), |(n, _), (_, len)| (n + 1, len));
        let is_folder =
            |name: &&NameId| **name < DOT_DOT && tree.inode(tree.inode_of(**name)).is_folder();
        let folders = names.iter().filter(is_folder).count();
        let number = counted(self.folders.len());
        *self.detail(inode) = number;
        self.folders.push(Folder {
            inode,
            parent,
            start: counted(start),
            end: counted(self.names.len()),
            size: (count - 1) * BLOCK as u64 + last as u64,
            block: 0,
            folders: counted(folders),
        });
    }

    /// The file that a name in `folder` stands for.
    fn inode_of(&self, name: NameId, folder: InodeId, parent: InodeId) -> InodeId {
        match name {
            DOT => folder,
            DOT_DOT => parent,
            _ => self.tree.inode_of(name),
        }
    }

    /// Calls `visit` for every file of the image at the first of its names, in the order of their records.
    fn visit(
        &mut self,
        mut visit: impl FnMut(&mut Self, InodeId) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        visit(self, ROOT)?;
        for folder in 0..self.folders.len() {
            let names = self.folders.get(folder).map(Folder::names);
            for at in names.into_iter().flatten() {
                let name = self.name(at);
                if name < DOT_DOT {
                    visit(self, self.tree.inode_of(name))?;
                }
            }
        }
        Ok(())
    }

    /// Length of what is in a file's own blocks or behind its record; of regular files nothing is left to write.
    fn size(&self, id: InodeId) -> u64 {
        let inode = self.tree.inode(id);
        match inode.mode & kind::MASK {
            kind::FOLDER => self.folder(id).size,
            kind::SYMLINK => inode.size,
            _ => 0,
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`list_folder` gave the folder its number"
    )]
    fn folder(&self, id: InodeId) -> &Folder {
        &self.folders[self.detail_of(id) as usize]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`list_folder` gave the folder its number"
    )]
    fn folder_mut(&mut self, id: InodeId) -> &mut Folder {
        let number = self.detail_of(id);
        &mut self.folders[number as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "a place that a folder has")]
    fn name(&self, at: usize) -> NameId {
        self.names[at]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there is one for each file of the tree"
    )]
    fn detail_of(&self, id: InodeId) -> u32 {
        self.details[id as usize]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there is one for each file of the tree"
    )]
    fn detail(&mut self, id: InodeId) -> &mut u32 {
        &mut self.details[id as usize]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there is one for each file of the tree"
    )]
    fn slot(&self, id: InodeId) -> u32 {
        self.slots[id as usize]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there is one for each file of the tree"
    )]
    fn slot_mut(&mut self, id: InodeId) -> &mut u32 {
        &mut self.slots[id as usize]
    }

    fn xattrs(&self, inode: &Inode) -> &'a [u8] {
        self.xattrs.get(inode.xattrs)
    }

    /// Whether the last block of a file's contents goes behind its record: it must be in one block with it.
    fn layout(&self, id: InodeId) -> Layout {
        let tail = self.size(id) % BLOCK as u64;
        let record = (inode::SIZE + self.xattrs(self.tree.inode(id)).len()) as u64;
        match tail > 0 && record + tail <= BLOCK as u64 {
            true => Layout::Inline,
            false => Layout::Plain,
        }
    }

    /// Blocks of its own that a folder or a link needs.
    fn own_blocks(&self, id: InodeId) -> u64 {
        match self.layout(id) {
            Layout::Plain => blocks(self.size(id)),
            Layout::Inline => self.size(id) / BLOCK as u64,
        }
    }

    fn place_contents(&mut self) -> Result<(), ConvertError> {
        self.visit(|plan, id| {
            let own = plan.own_blocks(id);
            if own == 0 {
                return Ok(());
            }
            let block = plan.limits.check_blocks(plan.next_block)?;
            match plan.tree.inode(id).is_folder() {
                true => plan.folder_mut(id).block = block,
                // Links with several names come by several times.
                false if plan.detail_of(id) != 0 => return Ok(()),
                false => *plan.detail(id) = block,
            }
            plan.next_block += own;
            Ok(())
        })
    }

    fn place_records(&mut self) -> Result<(), ConvertError> {
        self.visit(|plan, id| {
            if plan.slot(id) != 0 {
                return Ok(());
            }
            let xattrs = plan.xattrs(plan.tree.inode(id)).len();
            let tail = match plan.layout(id) {
                Layout::Plain => 0,
                Layout::Inline => plan.size(id) % BLOCK as u64,
            };
            let len = (inode::SIZE + xattrs) as u64 + tail;
            let block = BLOCK as u64;
            let left = block - plan.position % block;
            // Long attributes alone go across blocks.
            if left < len.min(block) {
                plan.position += left;
            }
            let slot = u32::try_from(plan.position / inode::SLOT);
            *plan.slot_mut(id) = slot.map_err(|_| ConvertError::TooLarge {
                limit: crate::Limit::ImageBytes,
                max: u64::from(u32::MAX) * inode::SLOT,
            })?;
            plan.position = (plan.position + len).next_multiple_of(inode::SLOT);
            plan.placed += 1;
            Ok(())
        })
    }

    fn nid(&self, id: InodeId) -> u64 {
        u64::from(self.slot(id))
    }

    /// Calls `visit` with the blocks of a folder, one by one.
    fn folder_blocks(
        &self,
        folder: &Folder,
        mut visit: impl FnMut(u64, &[u8]) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        let mut names = self.names.get(folder.names()).unwrap_or_default();
        let lengths = names.iter().map(|name| text(self.tree, *name).len());
        let mut bytes = Vec::with_capacity(BLOCK);
        for (at, (count, _)) in folder::pack(lengths).enumerate() {
            let (now, later) = names.split_at(count);
            let item = |name: &NameId| {
                let inode = self.inode_of(*name, folder.inode, folder.parent);
                Item {
                    name: text(self.tree, *name),
                    nid: self.nid(inode),
                    mode: self.tree.inode(inode).mode,
                }
            };
            let items: Vec<Item<'_>> = now.iter().map(item).collect();
            folder::encode(&items, &mut bytes);
            visit(at as u64, &bytes)?;
            names = later;
        }
        Ok(())
    }

    /// The part of a folder or link that goes behind its record.
    fn tail(&self, id: InodeId) -> Result<Vec<u8>, ConvertError> {
        let mut tail = Vec::new();
        if self.layout(id) == Layout::Plain {
            return Ok(tail);
        }
        let whole = self.size(id) / BLOCK as u64;
        if !self.tree.inode(id).is_folder() {
            return Ok(self.tree.target_of(id).to_vec());
        }
        self.folder_blocks(self.folder(id), |at, bytes| {
            if at == whole {
                tail = bytes.to_vec();
            }
            Ok(())
        })?;
        Ok(tail)
    }

    fn write_contents(&mut self, file: &mut ImageFile) -> Result<(), ConvertError> {
        self.visit(|plan, id| {
            let own = plan.own_blocks(id);
            if own == 0 {
                return Ok(());
            }
            let offset = |block: u32| u64::from(block) * BLOCK as u64;
            if !plan.tree.inode(id).is_folder() {
                return file.write(offset(plan.detail_of(id)), plan.tree.target_of(id));
            }
            let folder = plan.folder(id);
            plan.folder_blocks(folder, |at, bytes| match at < own {
                true => file.write(offset(folder.block) + at * BLOCK as u64, bytes),
                false => Ok(()),
            })
        })
    }

    fn write_records(&mut self, file: &mut ImageFile, first: u32) -> Result<(), ConvertError> {
        let first = u64::from(first) * BLOCK as u64;
        let mut serial = 0;
        let mut last = 0;
        let mut record = Vec::new();
        self.visit(|plan, id| {
            let nid = plan.nid(id);
            // Numbers ascend: a file with several names was written at the first.
            if nid <= last {
                return Ok(());
            }
            last = nid;
            serial += 1;
            let node = plan.tree.inode(id);
            let xattrs = plan.xattrs(node);
            let is_folder = node.is_folder();
            let placed = Placed {
                layout: plan.layout(id),
                place: match node.mode & kind::MASK {
                    kind::FOLDER => plan.folder(id).block,
                    kind::SYMLINK => plan.detail_of(id),
                    kind::FILE if node.size == 0 => 0,
                    _ => node.place,
                },
                size: match is_folder {
                    true => plan.folder(id).size,
                    false => node.size,
                },
                links: match is_folder {
                    true => plan.folder(id).folders + 2,
                    false => node.links,
                },
                xattrs: xattrs.len(),
                serial,
            };
            record.clear();
            record.extend_from_slice(&inode::encode(node, &placed));
            record.extend_from_slice(xattrs);
            record.extend_from_slice(&plan.tail(id)?);
            file.write(first + nid * inode::SLOT, &record)
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "names and folders, with two names more for each folder, are less than four times the entries, of which \
              `Tree::count_entry` lets no more in than 30 bits count"
)]
fn counted(count: usize) -> u32 {
    count as u32
}

fn text(tree: &Tree, name: NameId) -> &[u8] {
    match name {
        DOT => b".",
        DOT_DOT => b"..",
        _ => tree.text_of(name),
    }
}
