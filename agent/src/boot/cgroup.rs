//! The cgroup of all jobs' commands, and the limits that keep the agent alive beside them.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;

use crate::cgroups::{self, Cgroups};

/// Where cgroup2 is mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// The cgroup of all commands.
const COMMANDS: &str = "/sys/fs/cgroup/vk";

/// Memory kept from commands, for the agent (a few MiB, and up to half a MiB for each command) and the kernel's
/// own needs that no cgroup pays for, in bytes.
const RESERVED: u64 = 32 << 20;

/// Threads kept from commands, for agent and kernel.
const RESERVED_THREADS: u64 = 512;

/// Mounts cgroup2 and makes the commands' cgroup with its limits.
///
/// # Errors
///
/// What the kernel says.
pub(super) fn set_up() -> io::Result<Cgroups> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(
        Some("cgroup2"),
        MOUNT,
        Some("cgroup2"),
        flags,
        Some("nsdelegate"),
    )?;
    enable(Path::new(MOUNT), "+cpu +memory +pids")?;
    fs::create_dir(COMMANDS)?;
    // Each command's own count of processes killed for want of memory.
    enable(Path::new(COMMANDS), "+memory")?;
    let commands = Path::new(COMMANDS);
    write(commands, "memory.max", &memory_max()?.to_string())?;
    write(commands, "pids.max", &pids_max()?.to_string())?;
    Cgroups::open(commands)
}

fn enable(cgroup: &Path, controllers: &str) -> io::Result<()> {
    write(cgroup, "cgroup.subtree_control", controllers)
}

fn write(cgroup: &Path, file: &str, value: &str) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let folder = open(cgroup, flags, Mode::empty())?;
    cgroups::write(folder.as_fd(), file, value)
}

fn memory_max() -> io::Result<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let total = crate::stats::mem_total(&meminfo);
    // In a very small guest a fixed share would be most of it.
    Ok(total - RESERVED.min(total / 4))
}

fn pids_max() -> io::Result<u64> {
    let number = |path| -> io::Result<u64> {
        let text = fs::read_to_string(path)?;
        text.trim().parse().map_err(io::Error::other)
    };
    let most = number("/proc/sys/kernel/threads-max")?.min(number("/proc/sys/kernel/pid_max")?);
    Ok(most - RESERVED_THREADS.min(most / 4))
}
