//! What a layer brings stays where its name says.
//!
//! Names lead through symbolic links, so two names of a layer can mean one place, and a link or folder on the way to one
//! entry can be what another entry replaces. Nothing of a layer gets lost that way:
//!
//! - A link of lower layers is followed as long as the layer's entries have room behind it. Where two of them would be
//!   in each other's way, a folder takes the link's place, and what the layer brought through the link goes into it.
//! - Where that does not help, or cannot be done any more, the later entry takes the place; unless the layer then brings
//!   the earlier one anew, it is refused in the end.
//!
//! For that, entries whose way led through links, or whose place was taken, are noted here by their names as the layer
//! has them.

use std::collections::HashSet;
use std::hash::BuildHasher;

use hashbrown::HashTable;

use super::find::Way;
use super::{Attributes, InodeId, NONE, NameId, Refused, Tree, text_in};
use crate::path::MAX_PATH;
use crate::{ConvertError, EntryProblem};

/// What the current layer brought through links.
#[derive(Default)]
pub(super) struct Brought {
    records: Vec<Record>,
    /// The records' names, one after the other.
    texts: Vec<u8>,
    /// The latest record of each name as the layer has it.
    by_text: HashTable<u32>,
    /// The latest record of each place in the tree.
    by_place: HashTable<u32>,
    /// Links that must stay links, as what was done behind them cannot be undone.
    fixed: HashSet<NameId>,
    /// The first file that the layer made: those before are of lower layers.
    first_inode: InodeId,
    /// Names that were there gave way to others: what led through them may be lost.
    is_changed: bool,
    /// Only one link is made a folder at a time.
    is_unfollowing: bool,
}

/// An entry whose way led through links. 20 bytes.
#[derive(Clone, Copy)]
struct Record {
    text: u32,
    len: u16,
    /// It counts: the layer has not brought another file by the same name since.
    counts: bool,
    place: NameId,
    inode: InodeId,
    /// The link of a lower layer that the last part of the way led through, or [`NONE`].
    through: NameId,
}

const _: () = assert!(MAX_PATH <= u16::MAX as usize && size_of::<Record>() == 20);

/// What is to be brought.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coming {
    Folder,
    /// A file: this one, if it is there already.
    File(Option<InodeId>),
}

impl Tree {
    /// A new layer begins.
    pub(super) fn forget_brought(&mut self) {
        self.brought = Brought {
            first_inode: InodeId::try_from(self.inodes.len()).unwrap_or(NONE),
            ..Brought::default()
        };
    }

    /// The folder for an entry called `text` below `folders`. Nothing of the same layer is in its way there, as far as
    /// that can be.
    pub(super) fn room_for(
        &mut self,
        folders: &[&[u8]],
        text: &[u8],
        coming: Coming,
    ) -> Result<Way, Refused> {
        loop {
            let way = self.make_folders(folders)?;
            let Some(place) = self.find_name(way.folder, text) else {
                return Ok(way);
            };
            let in_the_way = self.in_the_way(&way, folders, text, place, coming)?;
            if in_the_way.is_empty() {
                return Ok(way);
            }
            for link in in_the_way {
                // One may have become a folder, or gone, with another one.
                if self.can_unfollow(link) {
                    self.unfollow(link)?;
                }
            }
        }
    }

    /// The links that have to become folders before `place` can be taken.
    fn in_the_way(
        &mut self,
        way: &Way,
        folders: &[&[u8]],
        text: &[u8],
        place: NameId,
        coming: Coming,
    ) -> Result<Vec<NameId>, Refused> {
        let inode = self.inode_of(place);
        let is_folder = self.inode(inode).is_folder();
        if self.name(place).layer != self.layer {
            // It would replace a link on its own way.
            if way.passed.contains(&place) && self.can_unfollow(way.through) {
                return Ok(vec![way.through]);
            }
            // A folder takes a link's place, with what the layer brought through the link.
            let is_used = coming == Coming::Folder
                && self.can_unfollow(place)
                && !self.brought.records.is_empty();
            return Ok(if is_used { vec![place] } else { Vec::new() });
        }
        if coming == Coming::File(Some(inode)) || coming == Coming::Folder && is_folder {
            return Ok(Vec::new());
        }
        let mut others = Vec::new();
        let mut path = self.path_of(&way.names);
        path.extend_from_slice(text);
        if self.name(place).explicit && !self.is_same_name(way, folders, text, place) {
            others.push((place, path.clone()));
        }
        if is_folder {
            self.own_below(inode, path, &mut others)?;
        }
        if others.is_empty() {
            return Ok(Vec::new());
        }
        if self.can_unfollow(way.through) {
            return Ok(vec![way.through]);
        }
        let mut links = Vec::new();
        for (place, _) in &others {
            let through = self.record_at(*place).map_or(NONE, |record| record.through);
            if !links.contains(&through) {
                links.push(through);
            }
        }
        if links.iter().all(|link| self.can_unfollow(*link)) {
            return Ok(links);
        }
        for (place, path) in others {
            if self.record_at(place).is_none() {
                self.add_record(&path, place, NONE)?;
            }
        }
        Ok(Vec::new())
    }

    /// Notes that a name of the tree means something else now, or nothing.
    pub(super) fn note_change(&mut self) {
        self.brought.is_changed = true;
    }

    /// Whether a folder can still take the place of `link`, if it is one of lower layers.
    pub(super) fn can_unfollow(&self, link: NameId) -> bool {
        link != NONE
            && self.name(link).layer != self.layer
            // It may be whited out by now.
            && self.inode_of(link) != NONE
            && self.inode(self.inode_of(link)).is_symlink()
            && !self.brought.fixed.contains(&link)
    }

    /// The names in `folder`, at any depth, that the current layer has entries for; with their paths, from that of
    /// `folder` on.
    fn own_below(
        &mut self,
        folder: InodeId,
        path: Vec<u8>,
        found: &mut Vec<(NameId, Vec<u8>)>,
    ) -> Result<(), ConvertError> {
        let mut folders = vec![(folder, path)];
        while let Some((folder, path)) = folders.pop() {
            let names: Vec<NameId> = self.names_in(folder).collect();
            for id in names {
                self.count_step()?;
                let &super::Name {
                    layer,
                    explicit,
                    inode,
                    ..
                } = self.name(id);
                if layer != self.layer {
                    continue;
                }
                let path = [&path[..], b"/", self.text_of(id)].concat();
                self.count_metadata(path.len())?;
                if self.inode(inode).is_folder() {
                    folders.push((inode, path.clone()));
                }
                if explicit {
                    found.push((id, path));
                }
            }
        }
        Ok(())
    }

    /// The path of a folder, by the names on its way; with a slash at its end, unless it is the root.
    fn path_of(&self, names: &[NameId]) -> Vec<u8> {
        let mut path = Vec::new();
        for name in names {
            path.extend_from_slice(self.text_of(*name));
            path.push(b'/');
        }
        path
    }

    /// Whether what is at `place` has the very name there that the coming entry has.
    fn is_same_name(&self, way: &Way, folders: &[&[u8]], text: &[u8], place: NameId) -> bool {
        match self.record_at(place) {
            None => way.passed.is_empty(),
            Some(record) => self.brought.text(record) == full_name(folders, text),
        }
    }

    /// Notes what the layer brought at `place`, if that has to be known.
    pub(super) fn note(
        &mut self,
        way: &Way,
        folders: &[&[u8]],
        text: &[u8],
        place: NameId,
    ) -> Result<(), Refused> {
        if way.passed.is_empty() && self.brought.records.is_empty() {
            return Ok(());
        }
        let full = full_name(folders, text);
        let (text_hash, place_hash) = (self.hasher.hash_one(&full), self.hasher.hash_one(place));
        let Brought {
            records,
            texts,
            by_text,
            by_place,
            ..
        } = &mut self.brought;
        let record = |at: &u32| records.get(*at as usize);
        let same_place = |at: &u32| record(at).is_some_and(|record| record.place == place);
        if let Ok(old) = by_place.find_entry(place_hash, same_place) {
            old.remove();
        }
        let same_text = |at: &u32| record(at).is_some_and(|r| text_of(texts, r) == full);
        if let Ok(old) = by_text.find_entry(text_hash, same_text) {
            let (at, _) = old.remove();
            if let Some(record) = records.get_mut(at as usize) {
                record.counts = false;
            }
        }
        if !way.passed.is_empty() {
            self.add_record(&full, place, way.through)?;
        }
        Ok(())
    }

    fn add_record(
        &mut self,
        full: &[u8],
        place: NameId,
        through: NameId,
    ) -> Result<(), ConvertError> {
        self.count_metadata(full.len())?;
        let inode = self.inode_of(place);
        let Self {
            brought, hasher, ..
        } = self;
        let Brought {
            records,
            texts,
            by_text,
            by_place,
            ..
        } = brought;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "records and texts are counted as entries and metadata; no path is longer than MAX_PATH"
        )]
        let (at, record) = (
            records.len() as u32,
            Record {
                text: texts.len() as u32,
                len: full.len() as u16,
                counts: true,
                place,
                inode,
                through,
            },
        );
        texts.extend_from_slice(full);
        records.push(record);
        let record = |at: &u32| records.get(*at as usize);
        by_text.insert_unique(hasher.hash_one(full), at, |at| {
            hasher.hash_one(record(at).map_or(&[][..], |record| text_of(texts, record)))
        });
        by_place.insert_unique(hasher.hash_one(place), at, |at| {
            hasher.hash_one(record(at).map_or(NONE, |record| record.place))
        });
        Ok(())
    }

    /// From here on the links on `way` stay links.
    pub(super) fn fix(&mut self, way: &Way) {
        self.brought.fixed.extend(&way.passed);
    }

    /// What lower layers had in the place of a new entry is gone for good.
    pub(super) fn fix_replaced(&mut self, way: &Way, old: Option<NameId>) {
        if old.is_some_and(|old| self.name(old).layer != self.layer) {
            self.fix(way);
        }
    }

    /// A folder that lower layers have, too, or that the layer has under two names, cannot be taken apart again.
    pub(super) fn fix_merged(
        &mut self,
        way: &Way,
        folders: &[&[u8]],
        text: &[u8],
        folder: NameId,
    ) -> Result<(), Refused> {
        let is_other = self.name(folder).layer == self.layer
            && self.name(folder).explicit
            && !self.is_same_name(way, folders, text, folder);
        if is_other || self.is_lower(self.inode_of(folder)) {
            self.fix(way);
        }
        if is_other
            && let Some(record) = self.record_at(folder).copied()
            && let Some(way) = self.way_of(&record)?
        {
            self.fix(&way);
        }
        Ok(())
    }

    fn is_lower(&self, inode: InodeId) -> bool {
        inode < self.brought.first_inode
    }

    /// Puts a folder in the place of `link`, and what the layer brought through the link into it.
    pub(super) fn unfollow(&mut self, link: NameId) -> Result<(), Refused> {
        if self.brought.is_unfollowing {
            return Err(EntryProblem::InTheWay.into());
        }
        self.brought.is_unfollowing = true;
        let mut moved = Vec::new();
        for at in 0..self.brought.records.len() {
            self.count_step()?;
            let record = self.brought.records.get(at).copied();
            let Some(record) = record.filter(|record| record.counts) else {
                continue;
            };
            if self
                .way_of(&record)?
                .is_some_and(|way| way.passed.contains(&link))
            {
                if let Some(record) = self.brought.records.get_mut(at) {
                    record.counts = false;
                }
                moved.push(record);
            }
        }
        let mut taken = Vec::new();
        // The latest first: what is in a folder before the folder.
        for record in moved.into_iter().rev() {
            let attributes = self.take(&record)?;
            taken.push((record, attributes));
        }
        let text = self.text_of(link).to_vec();
        let parent = self.name(link).parent;
        self.new_folder(parent, &text, &Attributes::IMPLIED, false)?;
        for (record, attributes) in taken.into_iter().rev() {
            let full = self.brought.text(&record).to_vec();
            let parts: Vec<&[u8]> = full.split(|byte| *byte == b'/').collect();
            let (last, folders) = parts.split_last().ok_or(EntryProblem::InTheWay)?;
            if let Some(attributes) = attributes {
                self.put_folder(folders, last, &attributes)?;
            } else {
                self.link(folders, last, record.inode)?;
                self.release(record.inode);
            }
        }
        self.brought.is_unfollowing = false;
        Ok(())
    }

    /// Takes an entry from its place: a file, which stays held, or a folder's attributes. Folders on its way that
    /// were made for it, and are empty now, go, too.
    fn take(&mut self, record: &Record) -> Result<Option<Attributes>, Refused> {
        if self.inode_of(record.place) != record.inode {
            return Err(EntryProblem::InTheWay.into());
        }
        let way = self.way_of(record)?.ok_or(EntryProblem::InTheWay)?;
        let mut names = way.names;
        let inode = self.inode(record.inode);
        let attributes = inode.is_folder().then(|| inode.attributes());
        if attributes.is_some() {
            self.inode_mut(record.inode).set(&Attributes::IMPLIED);
            self.name_mut(record.place).explicit = false;
            names.push(record.place);
        } else {
            self.hold(record.inode)?;
            self.remove(record.place);
        }
        while let Some(name) = names.pop() {
            let folder = self.inode_of(name);
            let is_empty = self.names_in(folder).next().is_none();
            if self.is_lower(folder) || self.name(name).explicit || !is_empty {
                break;
            }
            self.remove(name);
        }
        Ok(attributes)
    }

    /// The way to the folder of an entry, as it is now, if there still is one.
    fn way_of(&mut self, record: &Record) -> Result<Option<Way>, Refused> {
        let full = self.brought.text(record).to_vec();
        let parts: Vec<&[u8]> = full.split(|byte| *byte == b'/').collect();
        let folders = parts.split_last().map_or(&[][..], |(_, folders)| folders);
        match self.way(folders) {
            Err(Refused::Entry(_)) => Ok(None),
            way => way,
        }
    }

    fn record_at(&self, place: NameId) -> Option<&Record> {
        let brought = &self.brought;
        let record = |at: &u32| brought.records.get(*at as usize);
        let same = |at: &u32| record(at).is_some_and(|record| record.place == place);
        let hash = self.hasher.hash_one(place);
        brought.by_place.find(hash, same).and_then(record)
    }

    /// Checks that all that the layer brought through links is found by its name.
    ///
    /// # Errors
    ///
    /// The name of an entry that is not.
    pub(crate) fn check_brought(&mut self) -> Result<(), ConvertError> {
        if !self.brought.is_changed {
            return Ok(());
        }
        for at in 0..self.brought.records.len() {
            let Some(record) = self.brought.records.get(at).copied() else {
                break;
            };
            if !record.counts {
                continue;
            }
            let full = self.brought.text(&record).to_vec();
            let parts: Vec<&[u8]> = full.split(|byte| *byte == b'/').collect();
            match self.find(&parts) {
                Ok(Some(inode)) if inode == record.inode => {}
                // One folder is as good as another.
                Ok(Some(inode))
                    if self.inode(inode).is_folder() && self.inode(record.inode).is_folder() => {}
                Err(Refused::Limit(error)) => return Err(error),
                _ => return Err(ConvertError::entry(&full, EntryProblem::Lost)),
            }
        }
        Ok(())
    }
}

impl Brought {
    fn text(&self, record: &Record) -> &[u8] {
        text_of(&self.texts, record)
    }
}

fn text_of<'a>(texts: &'a [u8], record: &Record) -> &'a [u8] {
    text_in(texts, record.text, record.len.into())
}

/// A cleaned name of an entry, as one text.
fn full_name(folders: &[&[u8]], text: &[u8]) -> Vec<u8> {
    let mut full = folders.join(&b'/');
    if !folders.is_empty() {
        full.push(b'/');
    }
    full.extend_from_slice(text);
    full
}
