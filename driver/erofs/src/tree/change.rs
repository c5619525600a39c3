//! Adding and removing.

use super::brought::Coming;
use super::{
    Attributes, Freed, InodeId, NONE, Name, NameId, Node, ROOT, Refused, Tree, kind, text_in,
};
use crate::EntryProblem;

impl Tree {
    /// A folder called `text` in the one that `folders` lead to: a new one, or the old one with new attributes.
    pub(crate) fn put_folder(
        &mut self,
        folders: &[&[u8]],
        text: &[u8],
        attributes: &Attributes,
    ) -> Result<(), Refused> {
        let way = self.room_for(folders, text, Coming::Folder)?;
        let old = self.find_name(way.folder, text);
        let place = match old {
            Some(name) if self.inode(self.inode_of(name)).is_folder() => {
                self.fix_merged(&way, folders, text, name)?;
                let inode = self.inode_of(name);
                self.inode_mut(inode).set(attributes);
                self.touch(name);
                self.name_mut(name).explicit = true;
                name
            }
            _ => {
                self.fix_replaced(&way, old);
                self.new_folder(way.folder, text, attributes, true)?
            }
        };
        self.note(&way, folders, text, place)
    }

    /// New attributes for the root.
    pub(crate) fn put_root(&mut self, attributes: &Attributes) {
        self.inode_mut(ROOT).set(attributes);
    }

    /// A file called `text` in the folder that `folders` lead to, instead of what was there.
    pub(crate) fn put(
        &mut self,
        folders: &[&[u8]],
        text: &[u8],
        attributes: &Attributes,
        node: Node<'_>,
    ) -> Result<(), Refused> {
        let way = self.room_for(folders, text, Coming::File(None))?;
        let (kind, size, place) = match node {
            Node::File { size, first_block } => (kind::FILE, size, first_block),
            Node::Symlink(target) => {
                let place = self.add_text(target)?;
                (kind::SYMLINK, target.len() as u64, place)
            }
            Node::BlockDevice(number) => (kind::BLOCK_DEVICE, 0, number),
            Node::CharDevice(number) => (kind::CHAR_DEVICE, 0, number),
            Node::Fifo => (kind::FIFO, 0, 0),
        };
        let inode = self.new_inode(kind, attributes, size, place);
        let old = self.find_name(way.folder, text);
        self.fix_replaced(&way, old);
        let place = self.enter(way.folder, text, inode, true)?;
        self.note(&way, folders, text, place)
    }

    /// Another name for the file `inode`: `text` in the folder that `folders` lead to.
    pub(crate) fn link(
        &mut self,
        folders: &[&[u8]],
        text: &[u8],
        inode: InodeId,
    ) -> Result<(), Refused> {
        if self.inode(inode).is_folder() {
            return Err(EntryProblem::LinkToFolder.into());
        }
        // Held, so that it survives if what gives way to its new name has its last one.
        self.hold(inode)?;
        let entered = self.enter_link(folders, text, inode);
        self.release(inode);
        entered
    }

    fn enter_link(
        &mut self,
        folders: &[&[u8]],
        text: &[u8],
        inode: InodeId,
    ) -> Result<(), Refused> {
        let way = self.room_for(folders, text, Coming::File(Some(inode)))?;
        let old = self.find_name(way.folder, text);
        let place = match old {
            Some(name) if self.inode_of(name) == inode => {
                self.touch(name);
                self.name_mut(name).explicit = true;
                name
            }
            _ => {
                self.fix_replaced(&way, old);
                self.enter(way.folder, text, inode, true)?
            }
        };
        self.note(&way, folders, text, place)
    }

    /// Hides what lower layers have at `text` in the folder that `folders` lead to.
    pub(crate) fn whiteout(&mut self, folders: &[&[u8]], text: &[u8]) -> Result<(), Refused> {
        let way = self.make_folders(folders)?;
        self.fix(&way);
        if let Some(name) = self.find_name(way.folder, text) {
            self.hide(name)
                .into_iter()
                .for_each(|inner| self.clear_all(inner));
        }
        Ok(())
    }

    /// Hides what lower layers have in the folder that `folders` lead to, at any depth.
    pub(crate) fn clear(&mut self, folders: &[&[u8]]) -> Result<(), Refused> {
        let way = self.make_folders(folders)?;
        self.fix(&way);
        self.clear_all(way.folder);
        Ok(())
    }

    fn clear_all(&mut self, folder: InodeId) {
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            if self.inode(folder).cleared == self.layer {
                continue;
            }
            self.inode_mut(folder).cleared = self.layer;
            let names: Vec<NameId> = self.names_in(folder).collect();
            // Linked anew, without those that are gone, so that the next layer need not look at them again.
            self.inode_mut(folder).place = NONE;
            for name in names {
                folders.extend(self.hide(name));
                if self.inode_of(name) != NONE {
                    self.name_mut(name).next = self.inode(folder).place;
                    self.inode_mut(folder).place = name;
                }
            }
        }
    }

    /// Removes a name of a lower layer. One of this layer stays: if it is a folder that lower layers have, too, it
    /// becomes this layer's, and is returned, as its content still has to be looked through.
    fn hide(&mut self, name: NameId) -> Option<InodeId> {
        let &Name {
            layer,
            inode,
            explicit,
            ..
        } = self.name(name);
        if layer != self.layer {
            self.remove(name);
            return None;
        }
        if !self.inode(inode).is_folder() {
            return None;
        }
        if !explicit {
            self.inode_mut(inode).set(&Attributes::IMPLIED);
        }
        (self.inode(inode).cleared != self.layer).then_some(inode)
    }

    /// Makes a name the current layer's.
    pub(super) fn touch(&mut self, name: NameId) {
        let layer = self.layer;
        let name = self.name_mut(name);
        if name.layer != layer {
            (name.layer, name.explicit) = (layer, false);
        }
    }

    pub(super) fn new_folder(
        &mut self,
        folder: InodeId,
        text: &[u8],
        attributes: &Attributes,
        explicit: bool,
    ) -> Result<NameId, Refused> {
        let inode = self.new_inode(kind::FOLDER, attributes, 0, NONE);
        self.enter(folder, text, inode, explicit)
    }

    /// Gives `inode` the name `text` in `folder`, instead of what was there.
    fn enter(
        &mut self,
        folder: InodeId,
        text: &[u8],
        inode: InodeId,
        explicit: bool,
    ) -> Result<NameId, Refused> {
        let len = u8::try_from(text.len()).map_err(|_| EntryProblem::NameTooLong)?;
        self.hold(inode)?;
        if let Some(id) = self.find_name(folder, text) {
            self.note_change();
            let old = self.inode_of(id);
            let layer = self.layer;
            let name = self.name_mut(id);
            (name.inode, name.layer, name.explicit) = (inode, layer, explicit);
            self.unlink(old);
            return Ok(id);
        }
        let hash = self.hash(folder, text);
        let place = self.add_text(text)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "`count_entry` lets no more in than 32 bits count"
        )]
        let id = self.names.len() as NameId;
        self.names.push(Name {
            parent: folder,
            inode,
            next: self.inode(folder).place,
            text: place,
            layer: self.layer,
            len,
            explicit,
        });
        self.inode_mut(folder).place = id;
        let Self {
            index,
            names,
            texts,
            hasher,
            ..
        } = self;
        index.insert_unique(hash, id, |id| {
            let Some(name) = names.get(*id as usize) else {
                return 0;
            };
            let text = text_in(texts, name.text, name.len.into());
            std::hash::BuildHasher::hash_one(hasher, (name.parent, text))
        });
        Ok(id)
    }

    pub(super) fn remove(&mut self, name: NameId) {
        let inode = self.forget(name);
        self.unlink(inode);
    }

    /// Takes a name out of the index.
    fn forget(&mut self, name: NameId) -> InodeId {
        self.note_change();
        let hash = self.hash(self.name(name).parent, self.text_of(name));
        if let Ok(entry) = self.index.find_entry(hash, |id| *id == name) {
            entry.remove();
        }
        std::mem::replace(&mut self.name_mut(name).inode, NONE)
    }

    /// One name less for `inode`; a folder goes with all that is in it.
    fn unlink(&mut self, inode: InodeId) {
        let mut gone = vec![inode];
        while let Some(inode) = gone.pop() {
            if self.inode(inode).is_folder() {
                let names: Vec<NameId> = self.names_in(inode).collect();
                gone.extend(names.into_iter().map(|name| self.forget(name)));
                self.inode_mut(inode).place = NONE;
            } else {
                self.release(inode);
            }
        }
    }

    pub(super) fn hold(&mut self, inode: InodeId) -> Result<(), Refused> {
        let inode = self.inode_mut(inode);
        inode.links = inode
            .links
            .checked_add(1)
            .ok_or(EntryProblem::TooManyLinks)?;
        Ok(())
    }

    pub(super) fn release(&mut self, id: InodeId) {
        let inode = self.inode_mut(id);
        inode.links = inode.links.saturating_sub(1);
        let &mut super::Inode {
            links,
            mode,
            size,
            place,
            ..
        } = inode;
        if links == 0 && mode & kind::MASK == kind::FILE && size > 0 {
            self.freed.push(Freed {
                first_block: place,
                size,
            });
        }
    }
}
