//! The job's view: what is mounted into the image, and the switch into it.
//!
//! The image may be anyone's. Its links stay, and are followed within its root alone: what has to be there is made where they
//! lead, as a container's runtime does, and mounts go onto the opened folders. Where that cannot be, the image is at fault.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use vk_agent_proto::boot::BUILDS_DIR;

use super::disks;
use super::error::{BootError, During};

/// What the kernel's file systems are mounted on, and hide; the last one is what descriptors' paths lead through.
const KERNEL_FOLDERS: [&str; 3] = ["dev", "sys", "proc"];

/// Links to what is missing that one path may lead through, as for the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// An image that cannot have a folder that it must have.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImageFault {
    #[error("/{} is no folder", .0.display())]
    NoFolder(PathBuf),
    #[error("/{} is a link of a loop", .0.display())]
    Loop(PathBuf),
    #[error("/{} leads to /{}, which a file system of the kernel hides", .0.display(), .1.display())]
    Hidden(PathBuf, PathBuf),
}

/// Why there is no folder.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error(transparent)]
    Image(#[from] ImageFault),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for FolderError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// The root folder of a job, before the switch.
pub(super) struct Root {
    folder: OwnedFd,
}

impl Root {
    /// The one that [`disks::mount_all`] made.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub(super) fn open() -> Result<Self, BootError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(disks::ROOT, flags, Mode::empty()).during("opening the job's root")?;
        Ok(Self { folder })
    }

    /// The image's folder `path` (no leading slash), made where it is missing.
    ///
    /// # Errors
    ///
    /// [`ImageFault`], or what the kernel says.
    fn folder(&self, path: &str) -> Result<OwnedFd, FolderError> {
        self.resolve(Path::new(path), &mut 0)
    }

    fn resolve(&self, path: &Path, links: &mut usize) -> Result<OwnedFd, FolderError> {
        let mut folder = self.folder.try_clone()?;
        let mut so_far = PathBuf::new();
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            let above = so_far.clone();
            so_far.push(part);
            match self.open_folder(&so_far) {
                Ok(found) => {
                    folder = found;
                    continue;
                }
                Err(Errno::ENOENT) => {}
                Err(Errno::ENOTDIR) => return Err(ImageFault::NoFolder(so_far).into()),
                Err(Errno::ELOOP) => return Err(ImageFault::Loop(so_far).into()),
                Err(errno) => return Err(errno.into()),
            }
            let name = Path::new(part.as_os_str());
            match mkdirat(&folder, name, Mode::from_bits_truncate(0o755)) {
                Ok(()) => folder = self.open_folder(&so_far)?,
                // A link to what is not there.
                Err(Errno::EEXIST) => {
                    *links += 1;
                    if *links > MOST_LINKS {
                        return Err(ImageFault::Loop(so_far).into());
                    }
                    let target = PathBuf::from(readlinkat(&folder, name)?);
                    let target = match target.strip_prefix("/") {
                        Ok(target) => target.to_owned(),
                        Err(_) => above.join(&target),
                    };
                    return self.resolve(&target.join(parts.as_path()), links);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(folder)
    }

    /// Opens a folder below the image's root, which no link leads out of.
    fn open_folder(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        openat2(&self.folder, path, how)
    }

    /// As [`Root::folder`], for a file system of the kernel. Container runtimes take no link in the place of `/proc` and `/sys`
    /// either.
    fn kernel_folder(&self, name: &str) -> Result<OwnedFd, FolderError> {
        if name == "dev" {
            return self.visible_folder(name);
        }
        if readlinkat(&self.folder, name).is_ok() {
            return Err(ImageFault::NoFolder(name.into()).into());
        }
        self.folder(name)
    }

    /// As [`Root::folder`], of one that no other file system of the kernel hides.
    fn visible_folder(&self, path: &str) -> Result<OwnedFd, FolderError> {
        let folder = self.folder(path)?;
        let place = fs::read_link(by_descriptor(&folder))?;
        let place = place.strip_prefix(disks::ROOT).unwrap_or(&place);
        let mut others = KERNEL_FOLDERS.iter().filter(|hidden| **hidden != path);
        if others.any(|hidden| place.starts_with(hidden)) {
            return Err(ImageFault::Hidden(path.into(), place.to_owned()).into());
        }
        Ok(folder)
    }

    /// Writes a file into the image's `/etc`, in the place of whatever has its name.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn write_etc(&self, name: &str, content: &str) -> Result<(), FolderError> {
        let etc = self.folder("etc")?;
        clear(etc.as_fd(), name)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o644);
        let mut file = File::from(openat(&etc, name, flags, mode)?);
        Ok(file.write_all(content.as_bytes())?)
    }

    /// Leaves the signs by which programs know a container: Docker's mark, which scripts look for, and a link to the list of mounts.
    /// What the image has as the mark stays; a list of mounts of its own would be wrong.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn mark_container(&self) -> Result<(), FolderError> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o755);
        match openat(&self.folder, ".dockerenv", flags, mode) {
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let etc = self.folder("etc")?;
        // A folder with something in it is nobody's list of mounts.
        let _ = clear(etc.as_fd(), "mtab");
        match symlinkat("/proc/mounts", &etc, "mtab") {
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Mounts what a job expects to find, moving the initramfs' own `/dev`, `/sys` and `/proc`; `builds`: the builds folder, too.
    ///
    /// # Errors
    ///
    /// [`BootError`] that names the folder.
    pub(super) fn mount_all(&self, builds: bool) -> Result<(), BootError> {
        devices().during("filling /dev")?;
        let during = |path: &str| format!("making /{path}");
        if builds {
            let name = BUILDS_DIR.trim_start_matches('/');
            let folder = self.visible_folder(name).during(during(name))?;
            mount(
                Some(disks::SCRATCH_BUILDS),
                by_descriptor(&folder).as_str(),
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )
            .during(format_args!("mounting {BUILDS_DIR}"))?;
        }
        for name in KERNEL_FOLDERS {
            let place = self.kernel_folder(name).during(during(name))?;
            mount(
                Some(format!("/{name}").as_str()),
                by_descriptor(&place).as_str(),
                None::<&str>,
                MsFlags::MS_MOVE,
                None::<&str>,
            )
            .during(format_args!("moving /{name}"))?;
        }
        Ok(())
    }

    /// Makes it `/`. What the initramfs held is given back to the kernel first.
    ///
    /// # Errors
    ///
    /// [`BootError`].
    pub(super) fn switch(self) -> Result<(), BootError> {
        let what = "switching to the job's root";
        // Only memory is lost if something stays.
        let _ = fs::remove_dir_all(vk_agent_proto::boot::MODULES_DIR);
        let _ = fs::remove_file("/init");
        std::env::set_current_dir(disks::ROOT).during(what)?;
        mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).during(what)?;
        nix::unistd::chroot(".").during(what)?;
        std::env::set_current_dir("/").during(what)
    }
}

/// The folder `name` of `parent`, made or put in the place of what is none.
fn sub_folder(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Ok(folder) => return Ok(folder),
        Err(Errno::ENOENT) => {}
        Err(Errno::ENOTDIR | Errno::ELOOP) => clear(parent, name)?,
        Err(errno) => return Err(errno.into()),
    }
    mkdirat(parent, name, Mode::from_bits_truncate(0o755))?;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Removes what is named `name`, be it there or not. A folder must be empty.
fn clear(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(Errno::EISDIR) => Ok(unlinkat(parent, name, UnlinkatFlags::RemoveDir)?),
        Err(errno) => Err(errno.into()),
    }
}

/// A path to an open folder, for mount(2), which takes no descriptors.
fn by_descriptor(folder: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", folder.as_raw_fd())
}

fn mount_at(folder: &OwnedFd, kind: &str, flags: MsFlags, options: &str) -> io::Result<()> {
    mount(
        Some(kind),
        by_descriptor(folder).as_str(),
        Some(kind),
        flags,
        Some(options),
    )?;
    Ok(())
}

/// What devtmpfs lacks, or has and a container has not: a console is that of a container's terminal, and a new
/// terminal is one of the container's own.
fn devices() -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let dev = open("/dev", flags, Mode::empty())?;
    for name in ["console", "ptmx"] {
        clear(dev.as_fd(), name)?;
    }
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("core", "/proc/kcore"),
    ] {
        match symlinkat(Path::new(target), &dev, name) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let shielded = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let pts = sub_folder(dev.as_fd(), "pts")?;
    // Group 5 is `tty` wherever there is one.
    let options = "newinstance,ptmxmode=0666,mode=0620,gid=5";
    mount_at(
        &pts,
        "devpts",
        MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
        options,
    )?;
    let shm = sub_folder(dev.as_fd(), "shm")?;
    mount_at(&shm, "tmpfs", shielded | MsFlags::MS_NOEXEC, "mode=1777")?;
    let queues = sub_folder(dev.as_fd(), "mqueue")?;
    // Not every kernel has them.
    let _ = mount_at(&queues, "mqueue", shielded | MsFlags::MS_NOEXEC, "");
    Ok(())
}
