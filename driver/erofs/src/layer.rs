//! Applying one layer's entries to the tree, and their contents to the image.

use crate::data::{ContentsWriter, ImageFile};
use crate::format::{self, BLOCK, inode::device};
use crate::limits::{Limit, Limits};
use crate::path::{self, MAX_PATH};
use crate::tar::{Contents, Entry, Kind, Reader};
use crate::tree::{Attributes, Freed, Node, Refused, Tree};
use crate::xattr::{self, XattrSets};
use crate::{ConvertError, EntryProblem};

/// What whiteouts' names begin with, and the name of the mark of an opaque folder (OCI image specification, layer.md).
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What other marks of AUFS begin with, which is where whiteouts come from; Docker leaves them out, too.
const AUFS: &[u8] = b".wh..wh.";

/// All that an image is made of while layers are added.
pub(crate) struct Image {
    pub(crate) file: ImageFile,
    pub(crate) tree: Tree,
    pub(crate) xattrs: XattrSets,
    /// The first block that no contents are in.
    pub(crate) next_block: u32,
    pub(crate) limits: Limits,
}

/// What was in a layer.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) entries: u64,
    pub(crate) skipped_xattrs: u64,
}

impl Image {
    /// Applies all entries of a layer.
    pub(crate) fn apply(&mut self, mut reader: Reader<'_>) -> Result<Applied, ConvertError> {
        let mut applied = Applied::default();
        self.tree.begin_layer()?;
        while let Some(entry) = reader.next()? {
            self.tree.count_entry()?;
            applied.entries += 1;
            let name = entry.path.clone();
            applied.skipped_xattrs +=
                self.entry(entry, &mut reader)
                    .map_err(|refused| match refused {
                        Refused::Entry(problem) => ConvertError::entry(&name, problem),
                        Refused::Limit(error) => error,
                    })?;
        }
        self.tree.check_brought()?;
        self.give_back()?;
        Ok(applied)
    }

    /// Gives the space of hidden files back to the host, what is side by side at once.
    fn give_back(&mut self) -> Result<(), ConvertError> {
        let mut freed = self.tree.take_freed();
        freed.sort_unstable_by_key(|freed| freed.first_block);
        let end = |freed: &Freed| u64::from(freed.first_block) + format::blocks(freed.size);
        for run in freed.chunk_by(|a, b| end(a) == u64::from(b.first_block)) {
            if let [first, ..] = run
                && let [.., last] = run
            {
                let start = u64::from(first.first_block);
                let block = BLOCK as u64;
                self.file
                    .punch(start * block, (end(last) - start) * block)?;
            }
        }
        Ok(())
    }

    /// Applies an entry. Returns how many of its extended attributes were left out.
    fn entry(&mut self, entry: Entry, reader: &mut Reader<'_>) -> Result<u64, Refused> {
        let parts = path::parts(&entry.path)?;
        let aufs = |part: &&[u8]| part.starts_with(AUFS) && *part != OPAQUE;
        if parts.iter().any(aufs) {
            return Ok(0);
        }
        if let Some((last, folders)) = parts.split_last()
            && last.starts_with(WHITEOUT)
        {
            return self.whiteout(folders, last).map(|()| 0);
        }

        let (set, skipped) =
            xattr::encode(entry.xattrs).map_err(|xattr::TooLong| EntryProblem::XattrTooLong)?;
        let (xattrs, new) = self.xattrs.number(&set);
        self.tree.count_metadata(new)?;
        let attributes = Attributes {
            mode: entry.mode,
            uid: owner(entry.uid)?,
            gid: owner(entry.gid)?,
            mtime: entry.mtime,
            xattrs,
        };
        let Some((last, folders)) = parts.split_last() else {
            return match entry.kind {
                Kind::Folder => {
                    self.tree.put_root(&attributes);
                    Ok(skipped)
                }
                _ => Err(EntryProblem::Root.into()),
            };
        };
        if let Kind::HardLink(target) = &entry.kind {
            self.hard_link(folders, last, target)?;
            // Those of the file itself count.
            return Ok(0);
        }
        let node = match &entry.kind {
            Kind::Folder => {
                self.tree.put_folder(folders, last, &attributes)?;
                return Ok(skipped);
            }
            Kind::File(contents) => self.contents(contents, reader)?,
            Kind::Symlink(target) => Node::Symlink(link_target(target)?),
            Kind::Device {
                block,
                major,
                minor,
            } => {
                let number = device(*major, *minor).ok_or(EntryProblem::Device)?;
                match block {
                    true => Node::BlockDevice(number),
                    false => Node::CharDevice(number),
                }
            }
            Kind::Fifo => Node::Fifo,
            Kind::Other(kind) => return Err(EntryProblem::UnknownType(*kind).into()),
            Kind::HardLink(_) => return Ok(0),
        };
        self.tree.put(folders, last, &attributes, node)?;
        Ok(skipped)
    }

    fn whiteout(&mut self, folders: &[&[u8]], mark: &[u8]) -> Result<(), Refused> {
        let hidden = mark.strip_prefix(WHITEOUT).unwrap_or_default();
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(EntryProblem::EmptyWhiteout.into());
        }
        match mark {
            OPAQUE => self.tree.clear(folders),
            _ => self.tree.whiteout(folders, hidden),
        }
    }

    fn hard_link(&mut self, folders: &[&[u8]], name: &[u8], target: &[u8]) -> Result<(), Refused> {
        let target = path::parts(link_target(target)?)?;
        let inode = self.tree.find(&target)?;
        let inode = inode.ok_or(EntryProblem::MissingLinkTarget)?;
        self.tree.link(folders, name, inode)
    }

    /// Writes a file's contents to the next free blocks.
    fn contents<'a>(
        &mut self,
        contents: &Contents,
        reader: &mut Reader<'_>,
    ) -> Result<Node<'a>, Refused> {
        let first_block = self.allocate(contents.size)?;
        let offset = u64::from(first_block) * BLOCK as u64;
        let mut writer = ContentsWriter::new(&mut self.file, offset);
        let mut at = 0;
        for part in &contents.parts {
            writer.skip(part.offset - at)?;
            let mut missing = part.len;
            while missing > 0 {
                missing -= reader.read(missing, |some| writer.write(some))?;
            }
            at = part.offset + part.len;
        }
        writer.finish()?;
        Ok(Node::File {
            size: contents.size,
            first_block,
        })
    }

    /// Sets blocks for `size` bytes aside; returns the first one.
    fn allocate(&mut self, size: u64) -> Result<u32, ConvertError> {
        let first = self.next_block;
        let next = u64::from(first).saturating_add(format::blocks(size));
        self.next_block = self.limits.check_blocks(next)?;
        Ok(first)
    }
}

impl Limits {
    /// Checks that an image may have so many blocks.
    pub(crate) fn check_blocks(&self, blocks: u64) -> Result<u32, ConvertError> {
        // The last number of a block means none.
        let max = (self.max_image_bytes / BLOCK as u64).min(u64::from(u32::MAX - 1));
        let error = || ConvertError::TooLarge {
            limit: Limit::ImageBytes,
            max: self.max_image_bytes,
        };
        let blocks = u32::try_from(blocks).map_err(|_| error())?;
        match u64::from(blocks) <= max {
            true => Ok(blocks),
            false => Err(error()),
        }
    }
}

fn owner(number: u64) -> Result<u32, EntryProblem> {
    u32::try_from(number).map_err(|_| EntryProblem::Owner)
}

fn link_target(target: &[u8]) -> Result<&[u8], EntryProblem> {
    match target.len() {
        0 => Err(EntryProblem::EmptyLink),
        1..=MAX_PATH if target.contains(&0) => Err(EntryProblem::Nul),
        1..=MAX_PATH => Ok(target),
        _ => Err(EntryProblem::PathTooLong),
    }
}
