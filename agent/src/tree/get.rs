//! Sending a tree out.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat};
use tar::{Builder, EntryType, Header};
use vk_agent_proto::{FailureKind, GetTree, TreeSummary};

use super::stream::{FrameWriter, TREE};
use crate::failure::Failure;

/// Names of one folder that are held, and sent in order, at once. A job may put millions into a folder.
const BATCH: usize = 4096;

/// Bytes of folders' names that may wait for their turn.
const MOST_WAITING: usize = 8 << 20;

/// Bytes of what is remembered of files with several names.
const MOST_LINKED: usize = 4 << 20;

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
    let mut packer = Packer::new(FrameWriter::new(host, TREE));
    packer.pack(path).map_err(|(at, error)| {
        Failure::io(format_args!("cannot pack `{}`", at.display()), &error)
    })?;
    let summary = packer.summary;
    let sent = packer.tar.into_inner().and_then(FrameWriter::end);
    sent.map_err(|error| Failure::io("cannot send the tree", &error))?;
    Ok(summary)
}

struct Packer<W: Write> {
    tar: Builder<W>,
    /// First name of each file that has several, by device and inode.
    /// Once they hold [`MOST_LINKED`], the files behind go whole under each of their names.
    linked: HashMap<(u64, u64), PathBuf>,
    linked_bytes: usize,
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
            linked_bytes: 0,
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
        let mut waiting = Waiting::default();
        let mut at = PathBuf::new();
        loop {
            let here = |error: nix::Error| (path.join(&at), io::Error::from(error));
            let relative = if at.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &at
            };
            let folder = open_below(root, relative).map_err(here)?;
            let stat = fstat(&folder).map_err(here)?;
            if stat.st_dev == self.device {
                self.append(relative, EntryType::Directory, &stat, 0, io::empty())
                    .map_err(|error| (path.join(&at), error))?;
                self.folder(&at, &folder, &mut waiting)
                    .map_err(|(name, error)| (path.join(&at).join(name), error))?;
            }
            if !waiting.next(&mut at) {
                return Ok(());
            }
        }
    }

    /// What is in `folder`, but not below; the folders in it wait.
    fn folder(
        &mut self,
        at: &Path,
        folder: &OwnedFd,
        waiting: &mut Waiting,
    ) -> Result<(), PackError> {
        let here = |errno: nix::Error| (PathBuf::new(), io::Error::from(errno));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let listing = Dir::openat(folder, ".", flags, Mode::empty()).map_err(here)?;
        let mut entries = listing.into_iter();
        loop {
            let mut names = Vec::new();
            for entry in entries.by_ref().take(BATCH) {
                let entry = entry.map_err(here)?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push(OsString::from_vec(name.to_vec()));
                }
            }
            if names.is_empty() {
                return Ok(());
            }
            names.sort_unstable();
            let mut folders = Vec::new();
            for name in names {
                let is_folder = self
                    .member(folder.as_fd(), &name, &at.join(&name))
                    .map_err(|error| (PathBuf::from(&name), error))?;
                if is_folder {
                    folders.push(name);
                }
            }
            for name in folders.iter().rev() {
                waiting
                    .push(name)
                    .map_err(|error| (PathBuf::from(name), error))?;
            }
        }
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
            let held = size_of_val(&key) + size_of::<PathBuf>() + inner.as_os_str().len();
            if self.linked_bytes + held <= MOST_LINKED {
                self.linked_bytes += held;
                self.linked.insert(key, inner.to_owned());
            }
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

/// Folders that wait for their turn, the next one last: names that each end with a NUL. An empty name stands
/// where its folder is left again.
#[derive(Default)]
struct Waiting {
    names: Vec<u8>,
}

impl Waiting {
    fn push(&mut self, name: &OsStr) -> io::Result<()> {
        if self.names.len() + name.len() >= MOST_WAITING {
            return Err(io::Error::other(format!(
                "the names of the folders beside it and above make more than {MOST_WAITING} bytes"
            )));
        }
        self.names.extend(name.as_bytes());
        self.names.push(0);
        Ok(())
    }

    /// Changes `at` from the folder that was last to the next; false if there is none.
    fn next(&mut self, at: &mut PathBuf) -> bool {
        while self.names.pop().is_some() {
            let end = self.names.iter().rposition(|byte| *byte == 0);
            let start = end.map_or(0, |end| end + 1);
            let name = self.names.split_off(start);
            if !name.is_empty() {
                at.push(OsString::from_vec(name));
                self.names.push(0);
                return true;
            }
            at.pop();
        }
        false
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn packer() -> Packer<Vec<u8>> {
        Packer::new(Vec::new())
    }

    fn names(packer: Packer<Vec<u8>>) -> Vec<(PathBuf, EntryType)> {
        let tar = packer.tar.into_inner().unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let entries = archive.entries().unwrap();
        entries
            .map(|entry| {
                let entry = entry.unwrap();
                (
                    entry.path().unwrap().into_owned(),
                    entry.header().entry_type(),
                )
            })
            .collect()
    }

    #[test]
    fn folders_come_in_order_each_before_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["b", "a/y/1", "a/y/2", "a/x", "c/z"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        fs::write(folder.path().join("a/x/f"), "").unwrap();

        let mut packer = packer();
        packer.pack(folder.path()).unwrap();

        let names: Vec<String> = names(packer)
            .iter()
            .map(|(path, _)| path.to_string_lossy().trim_end_matches('/').to_owned())
            .collect();
        let wanted = [
            ".", "a", "a/x", "a/x/f", "a/y", "a/y/1", "a/y/2", "b", "c", "c/z",
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn a_folder_of_several_batches_is_sent_whole() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 * BATCH + 1 {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }

        let mut packer = packer();
        packer.pack(folder.path()).unwrap();

        let mut names = names(packer);
        names.sort_by(|(one, _), (other, _)| one.cmp(other));
        names.dedup();
        assert_eq!(names.len(), 2 * BATCH + 2);
    }

    #[test]
    fn folders_that_would_fill_the_memory_are_refused() {
        let mut waiting = Waiting::default();
        let name = OsString::from("n".repeat(255));

        let pushed = (0..).take_while(|_| waiting.push(&name).is_ok()).count();

        assert_eq!(pushed, MOST_WAITING / 256);
        assert!(waiting.names.len() <= MOST_WAITING);
    }

    #[test]
    fn a_file_of_several_names_goes_whole_once_too_many_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        let kinds = |linked_bytes| {
            let mut packer = packer();
            packer.linked_bytes = linked_bytes;
            packer.pack(folder.path()).unwrap();
            names(packer).last().unwrap().1
        };

        assert_eq!(kinds(0), EntryType::Link);
        assert_eq!(kinds(MOST_LINKED), EntryType::Regular);
    }
}
