//! Sending a tree out.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat};
use tar::{Builder, EntryType, Header};
use vk_agent_proto::frame::write_frame;
use vk_agent_proto::{FailureKind, GetTree, Kind, TreeSummary};

use super::stream::TreeWriter;
use crate::failure::Failure;

/// Sends the tree at the request's path, `TreeEnd` included.
///
/// Files, folders and links go, all of one file system; sockets, FIFOs and devices stay.
///
/// # Errors
///
/// [`Failure`] that names the path; the stream has no end then.
pub(crate) fn get(host: &File, request: &GetTree) -> Result<TreeSummary, Failure> {
    let path = Path::new(&request.path);
    if !path.is_absolute() {
        return Err(Failure::new(
            FailureKind::BadRequest,
            format!("the path `{}` is not absolute", request.path),
        ));
    }
    let mut packer = Packer::new(TreeWriter::new(host));
    packer.pack(path).map_err(|(at, error)| {
        Failure::io(format_args!("cannot pack `{}`", at.display()), &error)
    })?;
    let summary = packer.summary;
    let sent = packer
        .tar
        .into_inner()
        .and_then(|mut writer| writer.flush())
        .and_then(|()| write_frame(&mut &*host, Kind::TreeEnd, b"").map_err(io::Error::other));
    sent.map_err(|error| Failure::io("cannot send the tree", &error))?;
    Ok(summary)
}

struct Packer<W: Write> {
    tar: Builder<W>,
    /// First name of each file that has several, by device and inode.
    linked: HashMap<(u64, u64), PathBuf>,
    device: u64,
    summary: TreeSummary,
}

/// Where it failed, and how.
type PackError = (PathBuf, io::Error);

impl<W: Write> Packer<W> {
    fn new(out: W) -> Self {
        Self {
            tar: Builder::new(out),
            linked: HashMap::new(),
            device: 0,
            summary: TreeSummary::default(),
        }
    }

    fn pack(&mut self, path: &Path) -> Result<(), PackError> {
        let here = |error: io::Error| (path.to_owned(), error);
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let root = open(path, flags, Mode::empty()).map_err(|errno| here(errno.into()))?;
        let stat = fstat(&root).map_err(|errno| here(errno.into()))?;
        self.device = stat.st_dev;
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => self.folders(path, &root),
            libc::S_IFREG => {
                let name = path.file_name().map_or(Path::new("file"), Path::new);
                self.file(name, File::from(root), &stat).map_err(here)
            }
            _ => Err(here(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is neither file nor folder",
            ))),
        }
    }

    /// All below `root`. Folders wait in a list rather than on the stack: a job makes them as deep as it
    /// likes.
    fn folders(&mut self, path: &Path, root: &OwnedFd) -> Result<(), PackError> {
        let mut waiting = vec![PathBuf::from(".")];
        while let Some(relative) = waiting.pop() {
            let here = |error: nix::Error| (path.join(&relative), io::Error::from(error));
            let folder = open_below(root, &relative).map_err(here)?;
            let stat = fstat(&folder).map_err(here)?;
            if stat.st_dev != self.device {
                continue;
            }
            self.append(&relative, EntryType::Directory, &stat, 0, io::empty())
                .map_err(|error| (path.join(&relative), error))?;
            let below = self
                .folder(&relative, folder)
                .map_err(|(name, error)| (path.join(&relative).join(name), error))?;
            waiting.extend(below.into_iter().rev());
        }
        Ok(())
    }

    /// What is in `folder`, but not below; the folders in it.
    fn folder(&mut self, relative: &Path, folder: OwnedFd) -> Result<Vec<PathBuf>, PackError> {
        let at = |name: &OsString| PathBuf::from(name);
        let none = OsString::new();
        let mut listing = Dir::from_fd(folder).map_err(|errno| (at(&none), errno.into()))?;
        let mut names = Vec::new();
        for entry in listing.iter() {
            let entry = entry.map_err(|errno| (at(&none), errno.into()))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort_unstable();
        let mut folders = Vec::new();
        for name in names {
            let inner = if relative == Path::new(".") {
                PathBuf::from(&name)
            } else {
                relative.join(&name)
            };
            let is_folder = self
                .member(listing.as_fd(), &name, &inner)
                .map_err(|error| (at(&name), error))?;
            if is_folder {
                folders.push(inner);
            }
        }
        Ok(folders)
    }

    /// One name in a folder; true if it is a folder itself.
    fn member(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &OsString,
        inner: &Path,
    ) -> io::Result<bool> {
        // Looked at before it is opened: opening a device or FIFO can do things.
        let look = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let seen = openat(folder, name.as_os_str(), look, Mode::empty())?;
        let stat = fstat(&seen)?;
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Ok(true),
            libc::S_IFLNK => {
                let target = readlinkat(&seen, "")?;
                let mut header = header(EntryType::Symlink, &stat, 0);
                self.summary.entries += 1;
                self.tar.append_link(&mut header, inner, target)?;
                Ok(false)
            }
            libc::S_IFREG => {
                let flags = OFlag::O_RDONLY
                    | OFlag::O_NOFOLLOW
                    | OFlag::O_NONBLOCK
                    | OFlag::O_NOCTTY
                    | OFlag::O_CLOEXEC;
                let file = openat(folder, name.as_os_str(), flags, Mode::empty())?;
                let stat = fstat(&file)?;
                if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
                    return Err(io::Error::other("it changed its kind while it was packed"));
                }
                self.file(inner, File::from(file), &stat)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    fn file(&mut self, inner: &Path, file: File, stat: &FileStat) -> io::Result<()> {
        if stat.st_nlink > 1 {
            let key = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.linked.get(&key) {
                let mut header = header(EntryType::Link, stat, 0);
                self.summary.entries += 1;
                return self.tar.append_link(&mut header, inner, first);
            }
            self.linked.insert(key, inner.to_owned());
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let mut exact = Exact { file, left: size };
        self.append(inner, EntryType::Regular, stat, size, &mut exact)?;
        self.summary.bytes += size;
        Ok(())
    }

    fn append(
        &mut self,
        inner: &Path,
        kind: EntryType,
        stat: &FileStat,
        size: u64,
        content: impl Read,
    ) -> io::Result<()> {
        self.summary.entries += 1;
        let mut header = header(kind, stat, size);
        self.tar.append_data(&mut header, inner, content)
    }
}

fn open_below(root: &OwnedFd, relative: &Path) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(root, relative, how)
}

fn header(kind: EntryType, stat: &FileStat, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(stat.st_uid.into());
    header.set_gid(stat.st_gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
    header
}

/// Exactly so many bytes of a file that a job may be writing to.
struct Exact {
    file: File,
    left: u64,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let Some(buffer) = buffer.get_mut(..want).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let got = self.file.read(buffer)?;
        if got == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter while it was packed",
            ));
        }
        self.left -= got as u64;
        Ok(got)
    }
}
