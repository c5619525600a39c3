//! The job's view: what is mounted into the image, and the switch into it.
//!
//! The image may be anyone's. Its folders are opened below its root without following symbolic links, what
//! stands in the way is replaced, and mounts go onto the opened folders: no link of the image can lead a mount
//! elsewhere.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use vk_agent_proto::boot::BUILDS_DIR;

use super::disks;
use super::error::{BootError, During};

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

    /// Gives the image a folder `path` (no leading slash), made or put in the place of what is none.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        let mut at = self.folder.try_clone()?;
        for part in path.split('/') {
            at = sub_folder(at.as_fd(), part)?;
        }
        Ok(at)
    }

    /// The image's `/etc`, which may be a link inside the image.
    fn etc(&self) -> io::Result<OwnedFd> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        match openat2(&self.folder, "etc", how) {
            Ok(folder) => Ok(folder),
            Err(_) => self.folder("etc"),
        }
    }

    /// Writes a file into the image's `/etc`, in the place of whatever has its name.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn write_etc(&self, name: &str, content: &str) -> io::Result<()> {
        let etc = self.etc()?;
        clear(etc.as_fd(), name)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o644);
        let mut file = File::from(openat(&etc, name, flags, mode)?);
        file.write_all(content.as_bytes())
    }

    /// Mounts what a job expects to find, moving the initramfs' own `/dev`, `/sys` and `/proc`.
    ///
    /// # Errors
    ///
    /// [`BootError`] that names the folder.
    pub(super) fn mount_all(&self) -> Result<(), BootError> {
        devices().during("filling /dev")?;
        let at = |path: &str| self.folder(path).during(format_args!("making /{path}"));
        let run = at("run")?;
        mount_at(
            &run,
            "tmpfs",
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            "mode=755",
        )
        .during("mounting /run")?;
        let tmp = at("tmp")?;
        let tmp = openat(&tmp, ".", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        tmp.and_then(|tmp| fchmod(&tmp, Mode::from_bits_truncate(0o1777)))
            .during("opening /tmp to all")?;
        let builds = at(BUILDS_DIR.trim_start_matches('/'))?;
        mount(
            Some(disks::SCRATCH_BUILDS),
            by_descriptor(&builds).as_str(),
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )
        .during(format_args!("mounting {BUILDS_DIR}"))?;
        // The last one is what the descriptors' paths lead through.
        for name in ["dev", "sys", "proc"] {
            let place = at(name)?;
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

/// What devtmpfs lacks.
fn devices() -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let dev = open("/dev", flags, Mode::empty())?;
    for (name, target) in [
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
    mount_at(&shm, "tmpfs", shielded, "mode=1777")?;
    let queues = sub_folder(dev.as_fd(), "mqueue")?;
    // Not every kernel has them.
    let _ = mount_at(&queues, "mqueue", shielded | MsFlags::MS_NOEXEC, "");
    Ok(())
}
