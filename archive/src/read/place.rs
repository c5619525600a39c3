//! Making files, folders and links below the destination.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{
    FchmodatFlags, Mode, UtimensatFlags, fchmod, fchmodat, fstat, futimens, mkdirat, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{
    Gid, LinkatFlags, Uid, UnlinkatFlags, fchown, fchownat, linkat, symlinkat, unlinkat,
};

use super::{ExtractError, Owner};
use crate::gopath::as_path;

/// Attempts at a name that something else takes again and again: a process, or other threads, as links of the destination make
/// several names of an archive one.
const ATTEMPTS: usize = 100;

/// What an entry says beside its name and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// Permission bits, set-id and sticky ones included.
    pub(super) mode: u32,
    /// In seconds since 1970; none is now.
    pub(super) mtime: Option<i64>,
    /// User and group.
    pub(super) owner: Option<(u32, u32)>,
}

impl Meta {
    fn mode(&self) -> Mode {
        Mode::from_bits_truncate(self.mode & 0o7777)
    }

    fn time(&self) -> TimeSpec {
        self.mtime
            .map_or(TimeSpec::UTIME_NOW, |mtime| TimeSpec::new(mtime, 0))
    }
}

/// Which folder one is, whatever leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(folder: BorrowedFd<'_>) -> Result<Self, Errno> {
        let meta = fstat(folder)?;
        Ok(Self {
            device: meta.st_dev,
            inode: meta.st_ino,
        })
    }
}

/// What may stand in the destination, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// GitLab Runner's, for archives that jobs made: a name comes once, links of the archive are made at its end, links
    /// of the destination are followed as long as they stay beneath it, and the destination keeps its mode and time.
    Archive,
    /// For a folder's content, which may replace other content: the last entry of a name wins, links are made in their
    /// turn, no link is followed, and the destination gets mode and time of the entry `.`.
    Tree,
}

/// The destination.
pub(super) struct Place {
    dest: OwnedFd,
    pub(super) rules: Rules,
    /// For messages.
    pub(super) shown: String,
    owner: Owner,
}

/// A folder that entries go into.
pub(super) type Folder = Arc<OwnedFd>;

impl Place {
    /// The folder at `dest`.
    pub(super) fn open(dest: &Path, owner: Owner, rules: Rules) -> Result<Self, ExtractError> {
        let shown = dest.to_string_lossy().into_owned();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        match open(dest, flags, Mode::empty()) {
            Ok(dest) => Ok(Self {
                dest,
                rules,
                shown,
                owner,
            }),
            Err(errno) => Err(ExtractError::Destination {
                dest: shown,
                source: errno.into(),
            }),
        }
    }

    /// Opens a folder beneath the destination. Links that lead out of it are never followed.
    pub(super) fn folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let links = match self.rules {
            Rules::Archive => ResolveFlag::RESOLVE_NO_MAGICLINKS,
            Rules::Tree => ResolveFlag::RESOLVE_NO_SYMLINKS,
        };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | links);
        loop {
            match openat2(&self.dest, as_path(path), how) {
                // A rename elsewhere crossed its way.
                Err(Errno::EAGAIN) => {}
                result => return result,
            }
        }
    }

    /// Opens the folder `path`, which is made with all above it if it is missing. What is no folder goes.
    pub(super) fn make(&self, path: &[u8], entry: &[u8]) -> Result<OwnedFd, ExtractError> {
        match self.folder(path) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            result => return result.map_err(|errno| self.not_opened(entry, errno)),
        }
        let (mut folder, mut end) = self.above(path, entry)?;
        while end < path.len() {
            let start = end + usize::from(end > 0);
            let rest = path.get(start..).unwrap_or_default();
            let len = rest.iter().position(|byte| *byte == b'/');
            end = start + len.unwrap_or(rest.len());
            let so_far = path.get(..end).unwrap_or_default();
            folder = self.make_in(folder.as_fd(), so_far, entry)?;
        }
        Ok(folder)
    }

    /// Opens the folder that an entry names, made if it is missing.
    pub(super) fn make_entry(&self, path: &[u8]) -> Result<OwnedFd, ExtractError> {
        match self.rules {
            Rules::Archive => self.make(path, path),
            // A link in its place goes.
            Rules::Tree => {
                let folder = self.make(parent(path).0, path)?;
                self.make_in(folder.as_fd(), path, path)
            }
        }
    }

    /// Makes the folder `path` in the one that holds it, unless it is there.
    fn make_in(
        &self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        entry: &[u8],
    ) -> Result<OwnedFd, ExtractError> {
        let name = OsStr::from_bytes(parent(path).1);
        let mode = match self.rules {
            Rules::Archive => Mode::from_bits_truncate(0o777),
            Rules::Tree => Mode::from_bits_truncate(0o755),
        };
        let is_new = make_folder(folder, name, mode);
        let is_new = is_new.map_err(|errno| ExtractError::entry(entry, errno))?;
        if let Owner::Fixed(uid, gid) = self.owner
            && is_new
        {
            self.own(folder, name, (uid, gid))
                .map_err(|errno| ExtractError::entry(entry, errno))?;
        }
        self.folder(path)
            .map_err(|errno| self.not_opened(entry, errno))
    }

    /// Opens the nearest folder above `path` that is there, and says how long its path is; the destination's is empty.
    fn above(&self, path: &[u8], entry: &[u8]) -> Result<(OwnedFd, usize), ExtractError> {
        let mut above = path;
        loop {
            let slash = above.iter().rposition(|byte| *byte == b'/');
            above = above.get(..slash.unwrap_or_default()).unwrap_or_default();
            let opened = self.folder(if slash.is_some() { above } else { b"." });
            match opened {
                Err(Errno::ENOENT | Errno::ENOTDIR) if slash.is_some() => {}
                result => {
                    let folder = result.map_err(|errno| self.not_opened(entry, errno))?;
                    return Ok((folder, above.len()));
                }
            }
        }
    }

    fn not_opened(&self, entry: &[u8], errno: Errno) -> ExtractError {
        let why = match (errno, self.rules) {
            (Errno::EXDEV, Rules::Archive) => {
                "lies behind a symbolic link that leads out of the destination"
            }
            (Errno::ELOOP, Rules::Archive) => "lies behind symbolic links that form a loop",
            (Errno::EXDEV | Errno::ELOOP, Rules::Tree) => "would lie behind a symbolic link",
            (errno, _) => return ExtractError::entry(entry, errno),
        };
        ExtractError::refused(entry, why)
    }

    fn own(
        &self,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        (uid, gid): (u32, u32),
    ) -> Result<(), Errno> {
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        fchownat(
            folder,
            name,
            Some(Uid::from_raw(uid)),
            Some(Gid::from_raw(gid)),
            flags,
        )
    }

    /// Whom an entry is given to, even if that is who makes it: its folder may have given it its own group.
    fn owner_of(&self, meta: &Meta) -> Option<(u32, u32)> {
        match self.owner {
            Owner::Fixed(uid, gid) => Some((uid, gid)),
            Owner::Archived => meta.owner,
            Owner::Unpacking => None,
        }
    }

    /// Whether giving away must succeed.
    fn is_strict(&self) -> bool {
        matches!(self.owner, Owner::Fixed(..))
    }

    /// Makes a file for writing. What has its name goes.
    pub(super) fn file(&self, folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<File> {
        let name = OsStr::from_bytes(name);
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        // Nobody else's until it is whole.
        let mode = Mode::from_bits_truncate(0o600);
        Ok(File::from(over(folder, name, || {
            openat(folder, name, flags, mode)
        })?))
    }

    /// Gives a file that is written its owner, mode and time.
    pub(super) fn finish_file(&self, file: &File, meta: &Meta) -> io::Result<()> {
        if let Some((uid, gid)) = self.owner_of(meta) {
            match fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
                Err(errno) if self.is_strict() => return Err(errno.into()),
                _ => {}
            }
        }
        // After the owner: a new one takes the set-id bits away.
        fchmod(file, meta.mode())?;
        futimens(file, &TimeSpec::UTIME_NOW, &meta.time())?;
        Ok(())
    }

    /// Makes a symbolic link. What has its name goes, but no folder with something in it: that is answered by false.
    pub(super) fn symlink(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        target: &[u8],
        meta: &Meta,
    ) -> io::Result<bool> {
        let name = OsStr::from_bytes(name);
        match over(folder, name, || symlinkat(as_path(target), folder, name)) {
            Err(Errno::ENOTEMPTY) => return Ok(false),
            result => result?,
        }
        if let Some(owner) = self.owner_of(meta) {
            match self.own(folder, name, owner) {
                Err(errno) if self.is_strict() => return Err(errno.into()),
                _ => {}
            }
        }
        let flags = UtimensatFlags::NoFollowSymlink;
        utimensat(folder, name, &TimeSpec::UTIME_NOW, &meta.time(), flags)?;
        Ok(true)
    }

    /// Gives a file another name; both lie beneath the destination. What has the name goes.
    pub(super) fn hard_link(
        &self,
        of: (BorrowedFd<'_>, &[u8]),
        folder: BorrowedFd<'_>,
        name: &[u8],
    ) -> io::Result<()> {
        let name = OsStr::from_bytes(name);
        let target = OsStr::from_bytes(of.1);
        // Without AT_SYMLINK_FOLLOW the link itself gets the name, if it is one.
        let link = || linkat(of.0, target, folder, name, LinkatFlags::empty());
        over(folder, name, link)?;
        Ok(())
    }

    /// Gives a folder its owner, mode and time. Nothing is made in it afterwards. One that its path does not lead to any more,
    /// as a link took a place on the way, is left alone.
    pub(super) fn finish_folder(&self, path: &[u8], meta: &Meta, of: Identity) -> io::Result<()> {
        let folder = match self.folder(path) {
            Ok(folder) if Identity::of(folder.as_fd())? == of => folder,
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EXDEV | Errno::ELOOP) => {
                return Ok(());
            }
            Err(errno) => return Err(errno.into()),
        };
        let dot = OsStr::new(".");
        if let Some(owner) = self.owner_of(meta) {
            match self.own(folder.as_fd(), dot, owner) {
                Err(errno) if self.is_strict() => return Err(errno.into()),
                _ => {}
            }
        }
        fchmodat(&folder, dot, meta.mode(), FchmodatFlags::FollowSymlink)?;
        let flags = UtimensatFlags::FollowSymlink;
        utimensat(&folder, dot, &TimeSpec::UTIME_NOW, &meta.time(), flags)?;
        Ok(())
    }
}

/// Makes something named `name`. What has that name goes first, unless it is a folder with something in it.
fn over<T>(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    make: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    for _ in 1..ATTEMPTS {
        match make() {
            Err(Errno::EEXIST) => remove(folder, name)?,
            result => return result,
        }
    }
    make()
}

/// Removes a file or an empty folder, if it is there.
fn remove(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let removed = match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::EISDIR) => unlinkat(folder, name, UnlinkatFlags::RemoveDir),
        result => result,
    };
    match removed {
        Err(Errno::ENOENT) => Ok(()),
        result => result,
    }
}

/// Makes a folder named `name`, unless there is one by now; says whether it did. What has that name and is none goes
/// first.
fn make_folder(folder: BorrowedFd<'_>, name: &OsStr, mode: Mode) -> Result<bool, Errno> {
    for _ in 1..ATTEMPTS {
        match mkdirat(folder, name, mode) {
            Err(Errno::EEXIST) => {}
            result => return result.map(|()| true),
        }
        match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR) => return Ok(false),
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    mkdirat(folder, name, mode).map(|()| true)
}

/// The name of an entry within its folder, and the folder; the destination itself has none.
pub(super) fn parent(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        None => (b".", path),
        Some(slash) => {
            let (folder, name) = path.split_at(slash);
            (folder, name.get(1..).unwrap_or_default())
        }
    }
}
