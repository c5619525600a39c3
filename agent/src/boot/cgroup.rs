//! The cgroup of all jobs' commands, and the limits that keep the agent alive beside them.
//!
//! Commands live in a cgroup namespace that starts at their common cgroup, and `/sys/fs/cgroup` shows that one
//! as its root. So a job has a cgroup2 that looks and works like a machine's own: it may make cgroups and
//! enable controllers from the top, which container engines do. With `nsdelegate` the kernel moves nothing out
//! of the namespace and refuses writes to the limits at its top (the cgroup-v2 document, "Delegation"), whoever
//! mounts what where.
//!
//! Within it a process of root may move from its command's cgroup to another one, and root can enter the
//! agent's namespace: [`crate::agent::Agent::count_exec`] ends those.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use procfs_core::{FromRead, Meminfo};

use crate::cgroups::{self, Cgroups};
use crate::kernel_log::KernelLog;

/// Where cgroup2 is mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// As systemd mounts it, and so what containers have.
const OPTIONS: &str = "nsdelegate,memory_recursiveprot";

/// The cgroup of all commands.
const COMMANDS: &str = "/sys/fs/cgroup/vk";

/// Memory kept from commands, of what is available before the first of them, in bytes: for the agent (a few MiB, and up
/// to half a MiB for each command) and the kernel's own needs that no cgroup pays for. Commands must meet their limit
/// before the kernel meets its own: else it takes back pages of programs that run, the agent waits for memory with
/// everybody, and minutes pass before anything is killed.
const RESERVED: u64 = 32 << 20;

/// Threads kept from commands, for agent and kernel.
const RESERVED_THREADS: u64 = 512;

/// Memory for each process or thread that commands may have, in bytes: twice a shell's least. A guest that lets more
/// start than its memory holds spends its time evicting them, and needs as long to bury them.
const MEMORY_PER_THREAD: u64 = 512 << 10;

/// The calling thread's cgroup namespace.
const NAMESPACE: &str = "/proc/thread-self/ns/cgroup";

/// Makes the commands' cgroup with its limits, and mounts it for them. `pids` are the most processes and threads that they
/// may have, if the host asks for a number. No command may run yet.
///
/// # Errors
///
/// What the kernel says.
pub(super) fn set_up(pids: Option<u64>) -> io::Result<Cgroups> {
    mount_cgroup2()?;
    // The agent has no umask.
    fs::DirBuilder::new().mode(0o755).create(COMMANDS)?;
    let (all, commands) = (folder(MOUNT)?, folder(COMMANDS)?);
    let namespace = make_namespace(all.as_fd(), commands.as_fd())?;
    enable_all(all.as_fd())?;
    // Each command's own count of processes killed for want of memory. It also keeps processes out of this
    // cgroup itself.
    enable(commands.as_fd(), "+memory")?;
    let limit = |file, most: u64| cgroups::write(commands.as_fd(), file, &most.to_string());
    let memory = memory_max()?;
    limit("memory.max", memory)?;
    limit("pids.max", pids_max(memory, pids)?)?;
    // Without a log the killed are counted only.
    Ok(Cgroups::new(commands, Some(namespace)).with_log(KernelLog::open().ok()))
}

/// Shows the calling thread's cgroup namespace at [`MOUNT`].
fn mount_cgroup2() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let kind = Some("cgroup2");
    mount(kind, MOUNT, kind, flags, Some(OPTIONS))?;
    Ok(())
}

/// Makes a cgroup namespace that starts at `commands`, and mounts its view in place of the whole.
///
/// A namespace starts where its maker is: the agent goes there and back, which it can while no controller is
/// enabled.
fn make_namespace(all: BorrowedFd<'_>, commands: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let own = File::open(NAMESPACE)?;
    cgroups::write(commands, "cgroup.procs", "0")?;
    unshare(CloneFlags::CLONE_NEWCGROUP)?;
    let namespace = File::open(NAMESPACE)?;
    // What was opened of it stays usable.
    umount2(MOUNT, MntFlags::MNT_DETACH)?;
    mount_cgroup2()?;
    setns(own, CloneFlags::CLONE_NEWCGROUP)?;
    cgroups::write(all, "cgroup.procs", "0")?;
    Ok(namespace.into())
}

fn folder(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Enables what the kernel has, as Docker does for its containers.
fn enable_all(cgroup: BorrowedFd<'_>) -> io::Result<()> {
    let controllers = cgroups::read(cgroup, "cgroup.controllers")?;
    let words: Vec<String> = controllers
        .split_whitespace()
        .map(|name| format!("+{name}"))
        .collect();
    enable(cgroup, &words.join(" "))
}

fn enable(cgroup: BorrowedFd<'_>, controllers: &str) -> io::Result<()> {
    cgroups::write(cgroup, "cgroup.subtree_control", controllers)
}

fn memory_max() -> io::Result<u64> {
    let memory = Meminfo::from_file("/proc/meminfo").map_err(io::Error::other)?;
    let available = crate::stats::mem_available(&memory);
    // In a very small guest a fixed share would be most of it.
    Ok(available - RESERVED.min(available / 4))
}

/// What is asked for, or else what `memory` holds, as far as the kernel can have it.
fn pids_max(memory: u64, asked: Option<u64>) -> io::Result<u64> {
    let number = |path| -> io::Result<u64> {
        let text = fs::read_to_string(path)?;
        text.trim().parse().map_err(io::Error::other)
    };
    let most = number("/proc/sys/kernel/threads-max")?.min(number("/proc/sys/kernel/pid_max")?);
    let most = most - RESERVED_THREADS.min(most / 4);
    Ok(most.min(asked.unwrap_or(memory / MEMORY_PER_THREAD)))
}
