//! Unpacking a zip: folders, then files on several threads, then links, then what folders say of themselves.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::content::Unpacker;
use super::place::{Folder, Identity, Place, Rules, parent};
use super::writers::write_piece;
use super::zip_directory::{Directory, Item, Kind};
use super::{ExtractError, ExtractOptions, Extracted, ObstructedLink};
use crate::threads;
use crate::write::MOST_THREADS;

/// Longest target of a link (`PATH_MAX` of limits.h).
const MOST_TARGET: u64 = 4096;

/// Unpacks the zip `archive` into the folder `dest`.
///
/// # Errors
///
/// [`ExtractError`], which names the entry if there is one to blame. The directory of the zip is checked before
/// anything is made.
pub fn extract_zip(
    archive: &File,
    dest: &Path,
    options: &ExtractOptions,
) -> Result<Extracted, ExtractError> {
    let place = Place::open(dest, options.owner, Rules::Archive)?;
    let directory = Directory::read(archive, options.limits, &place.shown)?;
    let zip = Zip {
        archive,
        place,
        directory,
    };
    let mut extracted = Extracted::default();
    // As the folders of the directory are ordered.
    let mut folders = Vec::new();
    for item in &zip.directory.items {
        match item.kind {
            Kind::Folder => {
                let name = zip.directory.name(item);
                let folder = zip.place.make(name, name)?;
                let identity = Identity::of(folder.as_fd());
                folders.push(identity.map_err(|errno| ExtractError::entry(name, errno))?);
            }
            Kind::File => extracted.bytes += item.size,
            Kind::Symlink => {}
            // GitLab Runner leaves them out as well.
            Kind::Other => continue,
        }
        extracted.entries += 1;
    }
    zip.files(options.threads)?;
    extracted.obstructed = zip.links()?;
    zip.finish_folders(&folders)?;
    Ok(extracted)
}

struct Zip<'a> {
    archive: &'a File,
    place: Place,
    directory: Directory,
}

impl Zip<'_> {
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Item> {
        self.directory
            .items
            .iter()
            .filter(move |item| item.kind == kind)
    }

    fn files(&self, threads: usize) -> Result<(), ExtractError> {
        let threads = threads.min(MOST_THREADS);
        let next = AtomicUsize::new(0);
        let first_error = Mutex::new(None);
        // Two, not one for each thread: memory.
        let (number, large_zstd) = (AtomicUsize::new(0), [Mutex::new(()), Mutex::new(())]);
        let work = || {
            let [one, other] = &large_zstd;
            let is_even = number.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            let mut unpacker = Unpacker::new(self.archive, if is_even { one } else { other });
            let mut current = None;
            while let Some(item) = self
                .directory
                .items
                .get(next.fetch_add(1, Ordering::Relaxed))
            {
                if item.kind == Kind::File
                    && let Err(error) = self.file(item, &mut unpacker, &mut current)
                {
                    // The others stop at their next entry.
                    next.store(self.directory.items.len(), Ordering::Relaxed);
                    let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error);
                }
            }
        };
        thread::scope(|scope| {
            threads::spawn(scope, threads.saturating_sub(1), work);
            work();
        });
        let first = first_error
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), Err)
    }

    /// The folder that an entry goes into, which mostly is that of the one before.
    fn enter<'p>(
        &self,
        name: &[u8],
        current: &'p mut Option<(Vec<u8>, Folder)>,
    ) -> Result<&'p Folder, ExtractError> {
        let (path, _) = parent(name);
        let kept = current.take().filter(|(kept, _)| kept == path);
        let kept = match kept {
            Some(kept) => kept,
            None => (path.to_vec(), self.place.make(path, name)?.into()),
        };
        let (_, folder) = current.insert(kept);
        Ok(folder)
    }

    fn file(
        &self,
        item: &Item,
        unpacker: &mut Unpacker<'_>,
        current: &mut Option<(Vec<u8>, Folder)>,
    ) -> Result<(), ExtractError> {
        let name = self.directory.name(item);
        let failed = |error| ExtractError::entry(name, error);
        let folder = self.enter(name, current)?;
        let file = self
            .place
            .file(folder.as_fd(), parent(name).1)
            .map_err(failed)?;
        let mut at = 0;
        unpacker.unpack(item, name, &mut |piece| {
            write_piece(&file, at, piece).map_err(failed)?;
            at += piece.len() as u64;
            Ok(())
        })?;
        // What ends in zeros ends in a hole.
        file.set_len(item.size).map_err(failed)?;
        self.place.finish_file(&file, &item.meta).map_err(failed)
    }

    /// Makes the links; answers one in whose place there is a folder with something in it.
    fn links(&self) -> Result<Option<ObstructedLink>, ExtractError> {
        let large_zstd = Mutex::new(());
        let mut unpacker = Unpacker::new(self.archive, &large_zstd);
        let mut obstructed = None;
        // Those below whose names other entries lie come last, inner ones first: nothing goes through them.
        let above = |item: &&Item| self.directory.is_above(item);
        let others = self.of_kind(Kind::Symlink).filter(|item| !above(item));
        let last: Vec<&Item> = self.of_kind(Kind::Symlink).filter(above).collect();
        let mut current = None;
        for item in others.chain(last.into_iter().rev()) {
            let name = self.directory.name(item);
            if !self.link(item, name, &mut unpacker, &mut current)? {
                // Inner ones come first, and the outermost is told.
                obstructed = Some(ObstructedLink::new(&self.place.shown, name));
            }
        }
        Ok(obstructed)
    }

    fn link(
        &self,
        item: &Item,
        name: &[u8],
        unpacker: &mut Unpacker<'_>,
        current: &mut Option<(Vec<u8>, Folder)>,
    ) -> Result<bool, ExtractError> {
        if item.size > MOST_TARGET {
            return Err(ExtractError::refused(
                name,
                "is a link whose target is too long",
            ));
        }
        let mut target = Vec::new();
        unpacker.unpack(item, name, &mut |piece| {
            target.extend_from_slice(piece);
            Ok(())
        })?;
        if target.is_empty() || target.contains(&0) {
            return Err(ExtractError::refused(name, "is a link without a target"));
        }
        let folder = self.enter(name, current)?;
        self.place
            .symlink(folder.as_fd(), parent(name).1, &target, &item.meta)
            .map_err(|error| ExtractError::entry(name, error))
    }

    fn finish_folders(&self, identities: &[Identity]) -> Result<(), ExtractError> {
        let mut folders: Vec<(&[u8], &Item, Identity)> = self
            .of_kind(Kind::Folder)
            .zip(identities)
            .map(|(item, identity)| (self.directory.name(item), item, *identity))
            .collect();
        // Inner ones first: an outer one's mode may close the way.
        folders.sort_by(|one, other| other.0.cmp(one.0));
        for (name, item, identity) in folders {
            if name == b"." {
                continue;
            }
            self.place
                .finish_folder(name, &item.meta, identity)
                .map_err(|error| ExtractError::entry(name, error))?;
        }
        Ok(())
    }
}
