//! What a virtual machine is made of.

use std::ffi::OsString;
use std::path::PathBuf;

/// A virtual machine to start.
#[derive(Debug, Clone)]
pub struct MachineConfig {
    /// Names the machine's sockets in `run_dir` and its process in listings: 1 to 16 letters, digits and dashes.
    pub name: String,
    /// Virtual processors, 1 to 255.
    pub cpus: u8,
    /// Memory in MiB, at least 64.
    pub memory_mib: u32,
    /// The guest's kernel: a bzImage, or an ELF image with a PVH entry.
    pub kernel: PathBuf,
    /// Its initial file system, a cpio archive.
    pub initramfs: PathBuf,
    /// What the kernel command line carries beyond what the machine itself needs.
    pub cmdline: Vec<String>,
    /// Disks, in order: the guest's `/dev/vda`, `/dev/vdb` and so on.
    pub disks: Vec<Disk>,
    /// An existing folder for the machine's sockets, with a path short enough for them
    /// (`sun_path` of unix(7)).
    pub run_dir: PathBuf,
    /// Where the VMM's program is looked for, in the form of `PATH`.
    pub search_path: OsString,
}

impl MachineConfig {
    /// Where the machine's vsock socket will be ([`super::Machine::vsock_path`]): who expects the guest's call listens
    /// beside it before the machine starts.
    #[must_use]
    pub fn vsock_path(&self) -> PathBuf {
        self.run_dir.join(format!("{}.vsock", self.name))
    }
}

/// A disk: a raw image in a host file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The image.
    pub path: PathBuf,
    /// What the guest may do with it.
    pub access: DiskAccess,
}

/// What a guest may do with a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskAccess {
    /// Read. Any number of machines may share the image.
    ReadOnly,
    /// Read and write, for the life of this machine: the host may forget what it wrote when the *host* crashes.
    Scratch,
}
