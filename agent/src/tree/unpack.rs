//! Unpacks a tar stream below a folder and nowhere else.
//!
//! Each entry's parent is opened below the destination with `openat2`, following no symbolic link, and kept
//! open for the entries after it; files are then made by name in that folder. So the cost per file is opening,
//! writing and stamping it, and no name, link or race can lead outside.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FchmodatFlags, Mode, UtimensatFlags, fchmodat, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, LinkatFlags, Uid, UnlinkatFlags, fchownat, linkat, symlinkat, unlinkat};
use tar::EntryType;
use vk_agent_proto::TreeSummary;

/// What is moved at once from the stream to a file.
const COPY: usize = 256 << 10;

/// Bytes that folders may hold which wait for the end of the stream. More than any well-meant tree needs.
const MOST_WAITING: usize = if cfg!(test) { 256 << 10 } else { 4 << 20 };

/// Most bytes of an entry's headers, its long names and extended attributes included; they are held in memory.
/// Paths and targets end at 4 KiB (`PATH_MAX`).
const MOST_HEADERS: u64 = 1 << 20;

/// Why a tree cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnpackError {
    /// The stream is no tar, or ended early.
    #[error("the stream is broken")]
    Stream(#[source] io::Error),
    /// The entry has no place in a tree.
    #[error("`{}` {why}", path.display())]
    Refused { path: PathBuf, why: &'static str },
    /// The kernel refused to make the entry.
    #[error("`{}`", path.display())]
    Entry {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Unpacks one tree.
pub(super) struct Unpacker {
    dest: OwnedFd,
    owner: Option<(u32, u32)>,
    /// The folder of the last entry, which is that of the next one most of the time.
    parent: Option<(PathBuf, OwnedFd)>,
    /// Folders, whose times and modes are set once nothing more is put into them.
    folders: Vec<Folder>,
    /// What they hold, in bytes.
    waiting: usize,
    buffer: Vec<u8>,
    summary: TreeSummary,
}

struct Folder {
    path: PathBuf,
    mode: Mode,
    mtime: TimeSpec,
}

impl Folder {
    fn held(&self) -> usize {
        size_of::<Self>() + self.path.as_os_str().len()
    }
}

impl Unpacker {
    /// Below `dest`, for `owner` (user and group) or else for whom the agent is.
    pub(super) fn new(dest: OwnedFd, owner: Option<(u32, u32)>) -> Self {
        Self {
            dest,
            owner,
            parent: None,
            folders: Vec::new(),
            waiting: 0,
            buffer: vec![0; COPY],
            summary: TreeSummary::default(),
        }
    }

    /// Unpacks all of `tar`.
    ///
    /// # Errors
    ///
    /// [`UnpackError`] for the first entry that does not go; those before it stay.
    pub(super) fn unpack(mut self, tar: &mut impl Read) -> Result<TreeSummary, UnpackError> {
        let left = Cell::new(MOST_HEADERS);
        let mut archive = tar::Archive::new(Metered {
            stream: tar,
            left: &left,
        });
        let mut entries = archive.entries().map_err(UnpackError::Stream)?;
        loop {
            left.set(MOST_HEADERS);
            let Some(entry) = entries.next() else {
                break;
            };
            left.set(u64::MAX);
            let mut entry = entry.map_err(UnpackError::Stream)?;
            self.entry(&mut entry)?;
            // Content that its kind has no use for.
            io::copy(&mut entry, &mut io::sink()).map_err(UnpackError::Stream)?;
        }
        self.finish_folders(None)?;
        Ok(self.summary)
    }

    fn entry(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), UnpackError> {
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let name = entry.path_bytes();
        let path = inside(
            Path::new(OsStr::from_bytes(&name)),
            "leads outside the destination",
        )?;
        let mode = Mode::from_bits_truncate(entry.header().mode().map_err(UnpackError::Stream)?);
        let mode = mode & Mode::from_bits_truncate(0o7777);
        let mtime = entry.header().mtime().map_err(UnpackError::Stream)?;
        let mtime = TimeSpec::new(i64::try_from(mtime).unwrap_or(i64::MAX), 0);
        self.summary.entries += 1;
        match kind {
            EntryType::Directory => self.folder(path, mode, mtime),
            EntryType::Symlink | EntryType::Link => {
                let target = entry.link_name_bytes().unwrap_or_default();
                let target = Path::new(OsStr::from_bytes(&target));
                self.link(&path, kind, target, mtime)
            }
            EntryType::Regular | EntryType::Continuous => self.file(&path, mode, mtime, entry),
            _ => Err(UnpackError::Refused {
                path,
                why: "is neither file, folder nor link",
            }),
        }
    }

    fn file(
        &mut self,
        path: &Path,
        mode: Mode,
        mtime: TimeSpec,
        content: &mut impl Read,
    ) -> Result<(), UnpackError> {
        let name = self.enter(path)?;
        let owner = self.owner;
        let parent = self.parent();
        let failed = failed(path);
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = over(parent, name, || openat(parent, name, flags, mode)).map_err(&failed)?;
        let mut file = File::from(file);
        loop {
            let len = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(UnpackError::Stream(error)),
            };
            let bytes = self.buffer.get(..len).unwrap_or_default();
            file.write_all(bytes).map_err(|source| UnpackError::Entry {
                path: path.to_owned(),
                source,
            })?;
            self.summary.bytes += len as u64;
        }
        if let Some((uid, gid)) = owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            nix::unistd::fchown(&file, Some(uid), Some(gid)).map_err(&failed)?;
        }
        // Writing and a new owner take the set-id bits away.
        if mode.intersects(Mode::S_ISUID | Mode::S_ISGID) {
            nix::sys::stat::fchmod(&file, mode).map_err(&failed)?;
        }
        nix::sys::stat::futimens(&file, &TimeSpec::UTIME_OMIT, &mtime).map_err(&failed)
    }

    fn folder(&mut self, path: PathBuf, mode: Mode, mtime: TimeSpec) -> Result<(), UnpackError> {
        if path.file_name().is_some() {
            let name = self.enter(&path)?;
            let parent = self.parent();
            make_folder(parent, name, self.owner).map_err(failed(&path))?;
        }
        let folder = Folder { path, mode, mtime };
        self.waiting += folder.held();
        if self.waiting > MOST_WAITING {
            self.finish_folders(Some(&folder.path))?;
            self.waiting += folder.held();
        }
        self.folders.push(folder);
        Ok(())
    }

    fn link(
        &mut self,
        path: &Path,
        kind: EntryType,
        target: &Path,
        mtime: TimeSpec,
    ) -> Result<(), UnpackError> {
        let failed = failed(path);
        if kind == EntryType::Link {
            let target = inside(
                target,
                "is outside the destination, and a hard link to it is asked for",
            )?;
            let (of, target_name) = self.open_parent(&target)?;
            let name = self.enter(path)?;
            let parent = self.parent();
            let link = || linkat(&of, target_name, parent, name, LinkatFlags::empty());
            return over(parent, name, link).map_err(failed);
        }
        let name = self.enter(path)?;
        let parent = self.parent();
        over(parent, name, || symlinkat(target, parent, name)).map_err(&failed)?;
        if let Some((uid, gid)) = self.owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
            fchownat(parent, name, Some(uid), Some(gid), flags).map_err(&failed)?;
        }
        let flags = UtimensatFlags::NoFollowSymlink;
        utimensat(parent, name, &TimeSpec::UTIME_OMIT, &mtime, flags).map_err(failed)
    }

    /// Makes the folder that holds `path` the current one; returns the last name of `path`.
    fn enter<'p>(&mut self, path: &'p Path) -> Result<&'p OsStr, UnpackError> {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            return Err(UnpackError::Refused {
                path: path.to_owned(),
                why: "is the destination itself, which is a folder",
            });
        };
        if self.parent.as_ref().is_none_or(|(at, _)| at != parent) {
            let folder = self.open_folder(parent, path)?;
            self.parent = Some((parent.to_owned(), folder));
        }
        Ok(name)
    }

    /// The current folder.
    fn parent(&self) -> BorrowedFd<'_> {
        let parent = self.parent.as_ref().map(|(_, folder)| folder.as_fd());
        parent.unwrap_or(self.dest.as_fd())
    }

    fn open_parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), UnpackError> {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            return Err(UnpackError::Refused {
                path: path.to_owned(),
                why: "is the destination itself, which cannot be linked",
            });
        };
        Ok((self.open_folder(parent, path)?, name))
    }

    /// Opens `folder` below the destination, made if it is missing, for the sake of `entry`.
    fn open_folder(&self, folder: &Path, entry: &Path) -> Result<OwnedFd, UnpackError> {
        match self.open_below(folder) {
            Ok(folder) => return Ok(folder),
            Err(Errno::ENOENT) => {}
            Err(Errno::ELOOP | Errno::EXDEV) => {
                return Err(UnpackError::Refused {
                    path: entry.to_owned(),
                    why: "would lie behind a symbolic link",
                });
            }
            Err(errno) => return Err(failed(entry)(errno)),
        }
        let mut so_far = PathBuf::new();
        let mut parent = self.open_below(&so_far).map_err(failed(entry))?;
        for part in folder.components() {
            so_far.push(part);
            make_folder(parent.as_fd(), part.as_os_str(), self.owner).map_err(failed(entry))?;
            parent = self.open_below(&so_far).map_err(failed(entry))?;
        }
        Ok(parent)
    }

    fn open_below(&self, folder: &Path) -> Result<OwnedFd, Errno> {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        openat2(&self.dest, folder, how)
    }

    /// Sets modes and times of folders, innermost first: what is done inside one changes its time. Not of
    /// those that hold `current`.
    fn finish_folders(&mut self, current: Option<&Path>) -> Result<(), UnpackError> {
        let mut open: Vec<Folder> = Vec::new();
        while let Some(folder) = self.folders.pop() {
            if current.is_some_and(|current| current.starts_with(&folder.path)) {
                // All of these lie along one path. The last of a name counts.
                let len = folder.path.as_os_str().len();
                if !open.iter().any(|it| it.path.as_os_str().len() == len) {
                    open.push(folder);
                }
                continue;
            }
            let Folder { path, mode, mtime } = folder;
            let failed = failed(&path);
            let folder = match self.open_below(&path) {
                Ok(folder) => folder,
                // A later entry of the same name took its place.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let dot = OsStr::new(".");
            fchmodat(&folder, dot, mode, FchmodatFlags::FollowSymlink).map_err(&failed)?;
            let flags = UtimensatFlags::FollowSymlink;
            utimensat(&folder, dot, &TimeSpec::UTIME_OMIT, &mtime, flags).map_err(&failed)?;
        }
        open.reverse();
        self.waiting = open.iter().map(Folder::held).sum();
        self.folders = open;
        Ok(())
    }
}

/// A stream of which so much may still be read.
struct Metered<'a, R> {
    stream: &'a mut R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("an entry has more than {MOST_HEADERS} bytes of names and attributes"),
            ));
        }
        let want = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let got = self
            .stream
            .read(buffer.get_mut(..want).unwrap_or_default())?;
        self.left.set(left - got as u64);
        Ok(got)
    }
}

fn failed(path: &Path) -> impl Fn(Errno) -> UnpackError {
    move |errno| UnpackError::Entry {
        path: path.to_owned(),
        source: errno.into(),
    }
}

/// `path` without its dots, if it stays below where it starts; else it is refused for `why`.
fn inside(path: &Path, why: &'static str) -> Result<PathBuf, UnpackError> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                let path = path.to_owned();
                return Err(UnpackError::Refused { path, why });
            }
        }
    }
    Ok(clean)
}

/// Makes something named `name`; what has that name and is no folder goes first: the last entry of a name
/// wins.
fn over<T>(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    make: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match make() {
        Err(Errno::EEXIST) => {
            match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
                Err(Errno::EISDIR) => unlinkat(parent, name, UnlinkatFlags::RemoveDir)?,
                result => result?,
            }
            make()
        }
        result => result,
    }
}

/// Makes a folder named `name`, unless there is one. Its mode lets us work in it; its own is set at the end.
fn make_folder(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    owner: Option<(u32, u32)>,
) -> Result<(), Errno> {
    let mode = Mode::from_bits_truncate(0o755);
    match mkdirat(parent, name, mode) {
        Err(Errno::EEXIST) => {
            let stat = nix::sys::stat::fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
            if stat.st_mode & libc::S_IFMT == libc::S_IFDIR {
                return Ok(());
            }
            unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)?;
            mkdirat(parent, name, mode)?;
        }
        result => result?,
    }
    if let Some((uid, gid)) = owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        fchownat(
            parent,
            name,
            Some(uid),
            Some(gid),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::open;
    use std::os::unix::fs::MetadataExt;
    use tar::{Builder, Header};

    fn unpacker(dest: &Path) -> Unpacker {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Unpacker::new(open(dest, flags, Mode::empty()).unwrap(), None)
    }

    fn time() -> TimeSpec {
        TimeSpec::new(1_000_000_000, 0)
    }

    fn add(unpacker: &mut Unpacker, path: &str) {
        let mode = Mode::from_bits_truncate(0o750);
        unpacker.folder(path.into(), mode, time()).unwrap();
    }

    #[test]
    fn folders_that_wait_for_the_end_are_bounded_and_keep_their_times() {
        let dest = tempfile::tempdir().unwrap();
        let mut unpacker = unpacker(dest.path());
        let name = "n".repeat(200);
        let count = 3 * MOST_WAITING / (2 * name.len());
        add(&mut unpacker, "outer");

        for number in 0..count {
            // Again and again the same, then one of its own.
            add(&mut unpacker, "outer");
            add(&mut unpacker, &format!("outer/{name}{number}"));
            assert!(unpacker.waiting <= MOST_WAITING);
        }
        let held: usize = unpacker.folders.iter().map(Folder::held).sum();
        assert_eq!(unpacker.waiting, held);
        unpacker.finish_folders(None).unwrap();

        for path in [
            "outer".to_owned(),
            format!("outer/{name}0"),
            format!("outer/{name}{}", count - 1),
        ] {
            let meta = std::fs::metadata(dest.path().join(&path)).unwrap();
            assert_eq!(
                (meta.mtime(), meta.mode() & 0o777),
                (1_000_000_000, 0o750),
                "{path}"
            );
        }
    }

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o755);
        header.set_mtime(0);
        header.set_path("name").unwrap();
        header.set_cksum();
        header
    }

    #[test]
    fn headers_that_would_fill_the_memory_are_refused() {
        for kind in [
            EntryType::GNULongName,
            EntryType::GNULongLink,
            EntryType::XHeader,
        ] {
            let dest = tempfile::tempdir().unwrap();
            let size = 8 * MOST_HEADERS;
            let mut tar = Builder::new(Vec::new());
            tar.append(&header(kind, size), io::repeat(b'x').take(size))
                .unwrap();
            tar.append(&header(EntryType::Regular, 0), io::empty())
                .unwrap();
            let bytes = tar.into_inner().unwrap();
            let mut stream = bytes.as_slice();

            let result = unpacker(dest.path()).unpack(&mut stream);

            assert!(matches!(result, Err(UnpackError::Stream(_))), "{kind:?}");
            let read = bytes.len() - stream.len();
            assert!(read as u64 <= MOST_HEADERS + 1024, "{kind:?}: {read}");
        }
    }

    #[test]
    fn content_without_use_is_passed_over_whatever_its_size() {
        let dest = tempfile::tempdir().unwrap();
        let size = 2 * MOST_HEADERS;
        let mut tar = Builder::new(Vec::new());
        for kind in [EntryType::XGlobalHeader, EntryType::Directory] {
            tar.append(&header(kind, size), io::repeat(b'x').take(size))
                .unwrap();
        }
        let bytes = tar.into_inner().unwrap();

        let summary = unpacker(dest.path()).unpack(&mut bytes.as_slice()).unwrap();

        assert_eq!(summary.entries, 1);
    }
}
