//! Unpacking a tar as it comes, as it is or in zstd.

use std::cell::Cell;
use std::cmp::Reverse;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use tar::EntryType;

use super::frames::unpacked;
use super::names::{Meter, Seen, inside};
use super::place::{Folder, Identity, Meta, Place, Rules, parent};
use super::writers::{Batch, Large, Small, Work, Writers};
use super::{ExtractError, ExtractOptions, Extracted, NO_FOLDER, ObstructedLink};

/// Files up to this size are written whole, larger ones in such parts.
const PART: usize = 1 << 20;

/// What hashes of a name take in two sets, which may have more than twice the room that they need; a link has two more.
const HASHES: usize = 40;

/// Most bytes of an entry's headers, its long names and extended attributes included; they are held in memory.
/// Paths and targets end at 4 KiB (`PATH_MAX`).
const MOST_HEADERS: u64 = 1 << 20;

/// Unpacks the tar that `tar` reads into the folder `dest`, as a folder's content: the last entry of a name wins, no
/// symbolic link is followed, whether it stands there or comes before, and the entry `.` is the folder's own. Hard links
/// name files of the same tar.
///
/// # Errors
///
/// [`ExtractError`], which names the entry if there is one to blame. What came before it stays.
pub fn extract_tar(
    tar: impl Read,
    dest: &Path,
    options: &ExtractOptions,
) -> Result<Extracted, ExtractError> {
    let place = Place::open(dest, options.owner, Rules::Tree)?;
    let mut reader = Reader::new(&place, options);
    Writers::run(&place, options.threads, |writers| reader.read(tar, writers))?;
    reader.finish()
}

/// Unpacks the tar+zstd that `archive` reads into the folder `dest`.
///
/// # Errors
///
/// [`ExtractError`], which names the entry if there is one to blame.
pub fn extract_tar_zstd(
    archive: impl Read + Send,
    dest: &Path,
    options: &ExtractOptions,
) -> Result<Extracted, ExtractError> {
    let place = Place::open(dest, options.owner, Rules::Archive)?;
    let mut reader = Reader::new(&place, options);
    Writers::run(&place, options.threads, |writers| {
        unpacked(archive, options.threads, |stream| {
            reader.read(stream, writers)
        })
    })?;
    reader.finish()
}

struct Reader<'a> {
    place: &'a Place,
    meter: Meter,
    /// All names but folders' ones.
    seen: Seen,
    folder_names: Seen,
    /// Names of regular files, which hard links may name.
    files: Seen,
    /// Names of links that are made at the end.
    link_names: Seen,
    /// Those below whose names other entries lie.
    links_above: Seen,
    /// One that is not made for it.
    obstructed: Option<ObstructedLink>,
    /// The folder of the last entry, which is that of the next one most of the time.
    current: Option<(Vec<u8>, Folder)>,
    /// Files that are to be written.
    batch: Batch,
    /// To be made when all files are there.
    links: Vec<Link>,
    /// What folders are given once nothing more is put into them.
    folders: Vec<(Vec<u8>, Meta, Identity)>,
}

struct Link {
    path: Vec<u8>,
    target: Vec<u8>,
    is_hard: bool,
    meta: Meta,
}

impl<'a> Reader<'a> {
    fn new(place: &'a Place, options: &ExtractOptions) -> Self {
        Self {
            place,
            meter: Meter::new(options.limits),
            seen: Seen::default(),
            folder_names: Seen::default(),
            files: Seen::default(),
            link_names: Seen::default(),
            links_above: Seen::default(),
            obstructed: None,
            current: None,
            batch: Batch::default(),
            links: Vec::new(),
            folders: Vec::new(),
        }
    }

    /// Reads all of the tar; files go to the writers.
    fn read(&mut self, stream: impl Read, writers: &Writers<'_>) -> Result<(), ExtractError> {
        let read = self.entries(stream, writers);
        // What came before trouble stays, too.
        self.give(writers);
        read
    }

    fn entries(&mut self, stream: impl Read, writers: &Writers<'_>) -> Result<(), ExtractError> {
        let left = Cell::new(MOST_HEADERS);
        let ended = Cell::new(false);
        let mut archive = tar::Archive::new(Metered {
            stream,
            left: &left,
            ended: &ended,
        });
        let broken = |error: io::Error| ExtractError::Broken(error.to_string());
        let mut entries = archive.entries().map_err(broken)?;
        loop {
            left.set(MOST_HEADERS);
            let Some(entry) = entries.next() else {
                break;
            };
            left.set(u64::MAX);
            let mut entry = entry.map_err(broken)?;
            if !self.entry(&mut entry, writers)? {
                // The writers say why.
                return Ok(());
            }
            if self.place.rules == Rules::Tree {
                // Content that its kind has no use for.
                io::copy(&mut entry, &mut io::sink()).map_err(broken)?;
            }
        }
        if ended.get() {
            return Err(ExtractError::Broken(
                "it ends before the tar's end".to_owned(),
            ));
        }
        // Up to the stream's end: it may be damaged behind the tar's. Filling comes there, and not much of it.
        left.set(MOST_HEADERS);
        io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken)?;
        Ok(())
    }

    /// Takes an entry; false if there is no use in going on.
    fn entry(
        &mut self,
        entry: &mut tar::Entry<'_, impl Read>,
        writers: &Writers<'_>,
    ) -> Result<bool, ExtractError> {
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(true);
        }
        let name = entry.path_bytes().into_owned();
        if is_sparse(entry).map_err(|error| ExtractError::damaged(&name, error.to_string()))? {
            return Err(ExtractError::refused(&name, "is a sparse file of GNU tar"));
        }
        let path = inside(&name, &self.place.shown)?;
        let meta = meta(entry.header())
            .map_err(|error| ExtractError::damaged(&name, error.to_string()))?;
        // Names of folders and links are held to the end, and a hash or two of each.
        let target = entry.link_name_bytes().unwrap_or_default().into_owned();
        let held = match kind {
            EntryType::Directory => path.len() + size_of::<(Vec<u8>, Meta, Identity)>(),
            EntryType::Symlink | EntryType::Link => {
                path.len() + target.len() + size_of::<Link>() + HASHES
            }
            _ => 0,
        };
        self.meter.entry(&name, held + HASHES)?;
        match kind {
            EntryType::Directory => return self.folder(path, meta, writers),
            EntryType::Symlink | EntryType::Link => {
                if !self.claim(&name, &path, writers)? {
                    return Ok(false);
                }
                if target.is_empty() || target.contains(&0) {
                    return Err(ExtractError::refused(&name, "is a link without a target"));
                }
                // Its folder must be one, and is made before others take the place.
                self.enter(&path)?;
                let is_hard = kind == EntryType::Link;
                let target = if is_hard {
                    self.hard_target(&name, &target)?
                } else {
                    target
                };
                let link = Link {
                    path,
                    target,
                    is_hard,
                    meta,
                };
                match self.place.rules {
                    Rules::Archive => {
                        if !is_hard {
                            self.link_names.insert(&link.path);
                        }
                        self.links.push(link);
                    }
                    Rules::Tree => {
                        // What it names may still wait.
                        if is_hard && !self.settle(writers) {
                            return Ok(false);
                        }
                        self.link(&link)?;
                    }
                }
            }
            EntryType::Regular | EntryType::Continuous => {
                if !self.claim(&name, &path, writers)? {
                    return Ok(false);
                }
                self.files.insert(&path);
                return self.file(path, meta, entry, writers);
            }
            _ => {
                return Err(ExtractError::refused(
                    &name,
                    "is neither file, folder nor link",
                ));
            }
        }
        Ok(true)
    }

    /// Nothing lies below what is no folder, whatever stands in its place by now; for what lies below a link that is yet
    /// to be made, a folder is there.
    fn check_above(&mut self, path: &[u8]) -> Result<(), ExtractError> {
        let mut above = path;
        while let Some(slash) = above.iter().rposition(|byte| *byte == b'/') {
            above = above.get(..slash).unwrap_or_default();
            if !self.seen.contains(above) {
                continue;
            }
            if self.link_names.contains(above) {
                self.links_above.insert(above);
            } else {
                return Err(ExtractError::refused(
                    path,
                    "lies below an entry of the archive that is no folder",
                ));
            }
        }
        Ok(())
    }

    /// Takes a name for what is no folder; false if there is no use in going on.
    fn claim(
        &mut self,
        name: &[u8],
        path: &[u8],
        writers: &Writers<'_>,
    ) -> Result<bool, ExtractError> {
        if path == b"." {
            return Err(ExtractError::refused(name, NO_FOLDER));
        }
        let is_free = !self.folder_names.contains(path) && self.seen.insert(path);
        if is_free {
            return Ok(true);
        }
        let goes_on = self.replace(path, writers)?;
        self.seen.insert(path);
        Ok(goes_on)
    }

    /// Forgets what had this name until now, once it is there; false if there is no use in going on.
    fn replace(&mut self, path: &[u8], writers: &Writers<'_>) -> Result<bool, ExtractError> {
        match self.place.rules {
            Rules::Archive => Err(ExtractError::refused(path, "is in the archive twice")),
            Rules::Tree => {
                for names in [&mut self.seen, &mut self.folder_names, &mut self.files] {
                    names.remove(path);
                }
                self.current = None;
                Ok(self.settle(writers))
            }
        }
    }

    /// Waits until all files that came are written; false if there is no use in going on.
    fn settle(&mut self, writers: &Writers<'_>) -> bool {
        self.give(writers) && writers.settle()
    }

    /// What a hard link names: a file of the same archive.
    fn hard_target(&self, name: &[u8], target: &[u8]) -> Result<Vec<u8>, ExtractError> {
        let clean = inside(target, &self.place.shown).ok();
        clean
            .filter(|target| self.files.contains(target))
            .ok_or_else(|| {
                ExtractError::refused(name, "is a hard link to what is no file of the archive")
            })
    }

    fn enter(&mut self, path: &[u8]) -> Result<Folder, ExtractError> {
        let (folder, _) = parent(path);
        if let Some((kept, open)) = &self.current
            && kept == folder
        {
            return Ok(Arc::clone(open));
        }
        self.check_above(path)?;
        let open: Folder = self.place.make(folder, path)?.into();
        self.current = Some((folder.to_vec(), Arc::clone(&open)));
        Ok(open)
    }

    fn folder(
        &mut self,
        path: Vec<u8>,
        meta: Meta,
        writers: &Writers<'_>,
    ) -> Result<bool, ExtractError> {
        if self.seen.contains(&path) && !self.replace(&path, writers)? {
            return Ok(false);
        }
        self.check_above(&path)?;
        self.folder_names.insert(&path);
        if path == b"." && self.place.rules == Rules::Archive {
            return Ok(true);
        }
        let open = match path.as_slice() {
            b"." => self.place.folder(b"."),
            path => Ok(self.place.make_entry(path)?),
        };
        let failed = |errno: Errno| ExtractError::entry(&path, errno);
        let open = open.map_err(failed)?;
        let identity = Identity::of(open.as_fd()).map_err(failed)?;
        if path != b"." {
            self.current = Some((path.clone(), open.into()));
        }
        self.folders.push((path, meta, identity));
        Ok(true)
    }

    fn file(
        &mut self,
        path: Vec<u8>,
        meta: Meta,
        entry: &mut tar::Entry<'_, impl Read>,
        writers: &Writers<'_>,
    ) -> Result<bool, ExtractError> {
        let size = entry.size();
        self.meter.content(&path, size)?;
        let folder = self.enter(&path)?;
        let whole = usize::try_from(size).ok().filter(|size| *size <= PART);
        if let Some(size) = whole {
            if self.batch.files.is_empty() {
                self.batch.content = writers.spare.take();
            }
            read_piece(entry, self.batch.content.room(size), &path)?;
            self.batch.content.fill(size);
            self.batch.files.push(Small {
                folder,
                path,
                size,
                meta,
            });
            return Ok(!self.batch.is_full() || self.give(writers));
        }
        let file = self
            .place
            .file(folder.as_fd(), parent(&path).1)
            .map_err(|error| ExtractError::entry(&path, error))?;
        let large = Arc::new(Large::new(self.meter.entries, file, path, size, meta));
        let mut offset = 0;
        while offset < size {
            let len = usize::try_from(size - offset).unwrap_or(PART).min(PART);
            let mut content = writers.spare.take();
            read_piece(entry, content.room(len), &large.path)?;
            content.fill(len);
            let file = Arc::clone(&large);
            if !writers.give(Work::Part {
                file,
                offset,
                content,
            }) {
                return Ok(false);
            }
            offset += len as u64;
        }
        Large::release(large, self.place)?;
        Ok(true)
    }

    /// Gives the batch to the writers; false if there is no use in going on.
    fn give(&mut self, writers: &Writers<'_>) -> bool {
        let batch = std::mem::take(&mut self.batch);
        batch.files.is_empty() || writers.give(Work::Batch(batch))
    }

    /// Makes a link, unless there is a folder in its place with something in it.
    fn link(&mut self, link: &Link) -> Result<(), ExtractError> {
        let folder = self.enter(&link.path)?;
        let (_, name) = parent(&link.path);
        let failed = |error| ExtractError::entry(&link.path, error);
        let made = if link.is_hard {
            let (of, target) = parent(&link.target);
            let of = self
                .place
                .folder(of)
                .map_err(|errno| ExtractError::entry(&link.path, errno))?;
            let of = (of.as_fd(), target);
            let made = self.place.hard_link(of, folder.as_fd(), name);
            made.map(|()| true)
        } else {
            self.place
                .symlink(folder.as_fd(), name, &link.target, &link.meta)
        };
        if !made.map_err(failed)? {
            match self.place.rules {
                Rules::Archive => self.obstruct(&link.path),
                Rules::Tree => return Err(failed(Errno::ENOTEMPTY.into())),
            }
        }
        Ok(())
    }

    /// Notes a link that is not made. Inner ones come first, and the outermost is told.
    fn obstruct(&mut self, link: &[u8]) {
        self.obstructed = Some(ObstructedLink::new(&self.place.shown, link));
    }

    /// Links that are left, then what folders say of themselves.
    fn finish(mut self) -> Result<Extracted, ExtractError> {
        let links = std::mem::take(&mut self.links);
        self.current = None;
        // Hard links first: no symbolic link of the archive stands in their way.
        let (hard, symbolic): (Vec<Link>, Vec<Link>) = links.into_iter().partition(|it| it.is_hard);
        // Those below whose names other entries lie come last, inner ones first: nothing goes through them.
        let (above, symbolic): (Vec<Link>, Vec<Link>) = symbolic
            .into_iter()
            .partition(|it| self.links_above.contains(&it.path));
        for link in hard.iter().chain(&symbolic).chain(above.iter().rev()) {
            self.link(link)?;
        }
        // Those whose name something else has by now say nothing.
        let names = &self.folder_names;
        self.folders.retain(|(path, ..)| names.contains(path));
        // Inner ones first: an outer one's mode may close the way. The last of a name counts.
        self.folders.reverse();
        self.folders
            .sort_by(|one, other| outer_last(&one.0).cmp(&outer_last(&other.0)));
        self.folders.dedup_by(|one, other| one.0 == other.0);
        for (path, meta, identity) in &self.folders {
            self.place
                .finish_folder(path, meta, *identity)
                .map_err(|error| ExtractError::entry(path, error))?;
        }
        Ok(Extracted {
            entries: self.meter.entries,
            bytes: self.meter.bytes,
            obstructed: self.obstructed,
        })
    }
}

/// Sorts what is inside a folder before it, and all before the destination.
fn outer_last(path: &[u8]) -> (bool, Reverse<&[u8]>) {
    (path == b".", Reverse(path))
}

/// Whether an entry's content is not its file's, but a map and what is no hole (GNU tar's manual, "Storing Sparse Files").
fn is_sparse(entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
    for extension in entry.pax_extensions()?.into_iter().flatten() {
        if extension?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn meta(header: &tar::Header) -> io::Result<Meta> {
    let id = |id: io::Result<u64>| id.ok().and_then(|id| u32::try_from(id).ok());
    Ok(Meta {
        mode: header.mode()? & 0o7777,
        // Before 1970 in the binary form.
        mtime: Some(header.mtime()?.cast_signed()),
        owner: id(header.uid()).zip(id(header.gid())),
    })
}

fn read_piece(from: &mut impl Read, piece: &mut [u8], path: &[u8]) -> Result<(), ExtractError> {
    from.read_exact(piece).map_err(|error| {
        ExtractError::damaged(path, format!("its content cannot be read: {error}"))
    })
}

/// A stream of which so much may still be read.
struct Metered<'a, R> {
    stream: R,
    left: &'a Cell<u64>,
    /// Whether its end was met.
    ended: &'a Cell<bool>,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "more than {MOST_HEADERS} bytes of names and attributes, or behind its end"
                ),
            ));
        }
        let want = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let got = self
            .stream
            .read(buffer.get_mut(..want).unwrap_or_default())?;
        self.left.set(left - got as u64);
        self.ended.set(got == 0 && want > 0);
        Ok(got)
    }
}
