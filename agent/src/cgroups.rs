//! One cgroup per exec, so that an exec ends whole (cgroups(7), the kernel's cgroup-v2 document).
//!
//! Everything is done relative to a folder opened at the start: a job may mount what it likes over the path.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::kernel_log::KernelLog;

/// How long killed processes may take to go. One that sits in the kernel longer is left behind.
const EMPTY_WITHIN: Duration = Duration::from_secs(2);

/// The cgroup that holds those of all execs.
#[derive(Clone)]
pub(crate) struct Cgroups {
    parent: Arc<OwnedFd>,
    namespace: Option<Arc<OwnedFd>>,
    log: Option<Arc<KernelLog>>,
    next: Arc<AtomicU64>,
}

impl Cgroups {
    /// Uses the existing cgroup folder `parent`. `namespace` is the cgroup namespace that execs get, if they
    /// do not stay in the agent's.
    pub(crate) fn new(parent: OwnedFd, namespace: Option<OwnedFd>) -> Self {
        Self {
            parent: Arc::new(parent),
            namespace: namespace.map(Arc::new),
            log: None,
            next: Arc::default(),
        }
    }

    /// The same with the kernel's log, which names the processes that it kills.
    pub(crate) fn with_log(self, log: Option<KernelLog>) -> Self {
        Self {
            log: log.map(Arc::new),
            ..self
        }
    }

    /// The cgroup namespace of execs.
    pub(crate) fn namespace(&self) -> Option<BorrowedFd<'_>> {
        self.namespace.as_ref().map(|namespace| namespace.as_fd())
    }

    /// A new, empty cgroup.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(crate) fn create(&self) -> io::Result<ExecCgroup> {
        let name = format!("exec-{}", self.next.fetch_add(1, Ordering::Relaxed));
        mkdirat(
            &*self.parent,
            name.as_str(),
            Mode::from_bits_truncate(0o755),
        )?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = openat(&*self.parent, name.as_str(), flags, Mode::empty())?;
        Ok(ExecCgroup {
            refused_before: refused_starts(self.parent.as_fd()),
            parent: Arc::clone(&self.parent),
            log: self.log.clone(),
            name,
            folder,
        })
    }
}

/// Writes `value` into the cgroup file `name` of `folder`.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn write(folder: BorrowedFd<'_>, name: &str, value: &str) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, Mode::empty())?);
    file.write_all(value.as_bytes())
}

/// The cgroup of one exec. Removed with everything in it when dropped.
pub(crate) struct ExecCgroup {
    parent: Arc<OwnedFd>,
    log: Option<Arc<KernelLog>>,
    name: String,
    folder: OwnedFd,
    /// Processes that the limit of all commands had kept from starting before this one.
    refused_before: u64,
}

/// The guest's limits that a command met.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// Processes that the kernel killed for want of memory.
    pub(crate) oom_kills: u64,
    /// Names of their programs, as far as they are known; each once.
    pub(crate) oom_killed: Vec<String>,
    /// The most processes and threads that all commands may have, if that kept one from starting.
    pub(crate) process_limit: Option<u64>,
}

impl ExecCgroup {
    /// Its folder.
    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Sends KILL to every process in it and below, forking ones included.
    pub(crate) fn kill(&self) {
        // Gone already, or a kernel without memory for it: `Drop` tries again.
        let _ = write(self.folder(), "cgroup.kill", "1");
    }

    /// Waits until no process is left in it, for a bounded time. If one still is then, a line that says which.
    #[must_use]
    pub(crate) fn await_empty(&self) -> Option<String> {
        let until = Instant::now() + EMPTY_WITHIN;
        let mut pause = Duration::from_micros(200);
        while self.field("cgroup.events", "populated") == Some(1) {
            if Instant::now() >= until {
                return Some(self.left());
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        None
    }

    fn left(&self) -> String {
        let pids = self.read("cgroup.procs").unwrap_or_default();
        let processes: Vec<String> = pids
            .lines()
            .map(|pid| {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
                // A job chooses it.
                format!("{pid} {:?}", name.unwrap_or_default().trim_end())
            })
            .collect();
        format!(
            "processes of {} live {} s after they were killed: {}",
            self.name,
            EMPTY_WITHIN.as_secs(),
            if processes.is_empty() {
                "in cgroups of its own".to_owned()
            } else {
                processes.join(", ")
            }
        )
    }

    /// The limits that its processes met. Those of all commands count for each that runs.
    pub(crate) fn met(&self) -> Met {
        let oom_kills = self.field("memory.events", "oom_kill").unwrap_or(0);
        let log = self.log.as_ref().filter(|_| oom_kills > 0);
        let refused = refused_starts(self.parent.as_fd()) > self.refused_before;
        let limit = || {
            let limit = read(self.parent.as_fd(), "pids.max").ok()?;
            limit.trim().parse().ok()
        };
        Met {
            oom_kills,
            oom_killed: log.map_or_else(Vec::new, |log| log.killed(&self.name, oom_kills)),
            process_limit: refused.then(limit).flatten(),
        }
    }

    fn field(&self, file: &str, key: &str) -> Option<u64> {
        field(self.folder(), file, key)
    }

    fn read(&self, file: &str) -> Option<String> {
        read(self.folder(), file).ok()
    }
}

/// Processes and threads that the limit of the cgroup `folder` kept from starting. Linux 6.1 counts them where they would
/// have been: in a cgroup of a job's own that has the controller, not here.
fn refused_starts(folder: BorrowedFd<'_>) -> u64 {
    field(folder, "pids.events", "max").unwrap_or(0)
}

/// The number after `key` in a file of `key number` lines of the cgroup `folder`.
fn field(folder: BorrowedFd<'_>, file: &str, key: &str) -> Option<u64> {
    read(folder, file)
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// The start of a file of the cgroup `folder`.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn read(folder: BorrowedFd<'_>, file: &str) -> io::Result<String> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let file = File::from(openat(folder, file, flags, Mode::empty())?);
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text)?;
    Ok(text)
}

impl Drop for ExecCgroup {
    fn drop(&mut self) {
        if self.remove_self().is_ok() {
            return;
        }
        self.kill();
        // Who ended the exec has told of it.
        let _ = self.await_empty();
        // What does not go now (a job's own cgroups, moved about while we look) ends with the guest.
        let _ = remove_below(self.folder(), MAX_DEPTH);
        let _ = self.remove_self();
    }
}

impl ExecCgroup {
    fn remove_self(&self) -> Result<(), Errno> {
        unlinkat(&*self.parent, self.name.as_str(), UnlinkatFlags::RemoveDir)
    }
}

/// How deep a job's own cgroups are followed: each level costs a descriptor and a stack frame.
const MAX_DEPTH: u32 = 32;

fn remove_below(folder: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
    if depth == 0 {
        return Err(Errno::ELOOP);
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listing = Dir::openat(folder, ".", flags, Mode::empty())?;
    for entry in listing.iter() {
        let entry = entry?;
        let name = entry.file_name();
        let dots = [c".", c".."].contains(&name);
        let stat = nix::sys::stat::fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if dots || stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
            continue;
        }
        let below = openat(folder, name, flags, Mode::empty())?;
        remove_below(below.as_fd(), depth - 1)?;
        unlinkat(folder, name, UnlinkatFlags::RemoveDir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder that reads like a cgroup.
    fn cgroup(populated: u8, processes: &str) -> (tempfile::TempDir, ExecCgroup) {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let parent = nix::fcntl::open(folder.path(), flags, Mode::empty()).unwrap();
        let cgroup = Cgroups::new(parent, None).create().unwrap();
        let file = |name| folder.path().join("exec-0").join(name);
        let events = format!("populated {populated}\nfrozen 0\n");
        fs::write(file("cgroup.events"), events).unwrap();
        fs::write(file("cgroup.procs"), processes).unwrap();
        (folder, cgroup)
    }

    #[test]
    fn a_process_that_survives_its_kill_is_named() {
        let own = std::process::id();
        let (_folder, cgroup) = cgroup(1, &format!("{own}\n"));

        let left = cgroup.await_empty().unwrap();

        assert!(left.contains("exec-0"), "{left}");
        assert!(left.contains(&format!("{own} \"vk_agent")), "{left}");
    }

    #[test]
    fn processes_further_below_count_too() {
        let (_folder, cgroup) = cgroup(1, "");

        let left = cgroup.await_empty().unwrap();

        assert!(left.contains("cgroups of its own"), "{left}");
    }

    #[test]
    fn the_limit_on_processes_is_met_by_the_command_that_it_keeps_from_starting_one() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |times: u32| {
            fs::write(folder.path().join("pids.events"), format!("max {times}\n")).unwrap();
        };
        fs::write(folder.path().join("pids.max"), "860\n").unwrap();
        refused(2);
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let parent = nix::fcntl::open(folder.path(), flags, Mode::empty()).unwrap();
        let cgroup = Cgroups::new(parent, None).create().unwrap();

        assert_eq!(cgroup.met(), Met::default());
        refused(3);
        assert_eq!(cgroup.met().process_limit, Some(860));
    }

    #[test]
    fn an_empty_cgroup_is_no_trouble() {
        let (_folder, cgroup) = cgroup(0, "");

        assert_eq!(cgroup.await_empty(), None);
    }
}
