//! What all operations share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{OFlag, open};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::Mode;

use crate::cgroups::Cgroups;
use crate::processes::Processes;
use crate::sys::Ids;

/// How the agent ends when it is asked to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is a guest's PID 1: power off.
    PowerOff,
    /// It is a rehearsal: end the process.
    Exit,
}

/// The agent's state.
pub(crate) struct Agent {
    /// Started and orphaned processes.
    pub(crate) processes: Processes,
    /// Where execs get their cgroups; none in a rehearsal without cgroup2.
    pub(crate) cgroups: Option<Cgroups>,
    /// Whether the agent is protected from the out-of-memory killer, which its children must not inherit.
    pub(crate) protected: bool,
    /// `/dev/null`, opened before any job could replace it.
    pub(crate) null: File,
    /// Most open files the agent may allow.
    pub(crate) max_files: u64,
    /// A path on the file system that fills up as jobs write.
    pub(crate) scratch: PathBuf,
    /// How it ends.
    pub(crate) ending: Ending,
    proc: OwnedFd,
    execs: Arc<AtomicU64>,
}

impl Agent {
    /// Of a running system whose `/proc` and `/dev/null` are there.
    ///
    /// # Errors
    ///
    /// They are not.
    pub(crate) fn new(
        processes: Processes,
        cgroups: Option<Cgroups>,
        scratch: PathBuf,
        ending: Ending,
    ) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self {
            processes,
            cgroups,
            protected: ending == Ending::PowerOff,
            null: File::open("/dev/null")?,
            max_files: getrlimit(Resource::RLIMIT_NOFILE)?.1,
            scratch,
            ending,
            proc: open("/proc", flags, Mode::empty())?,
            execs: Arc::default(),
        })
    }

    /// proc(5), whatever a job mounts over it.
    pub(crate) fn proc(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }

    /// Whom a child or file must become: none if that is who the agent is already, so that a rehearsal needs
    /// no root.
    pub(crate) fn ids_to_become(&self, ids: Ids) -> Option<Ids> {
        let ours = nix::unistd::geteuid();
        let same = ours.as_raw() == ids.uid && nix::unistd::getegid().as_raw() == ids.gid;
        (ours.is_root() || !same).then_some(ids)
    }

    /// Counts an exec for as long as the result lives.
    pub(crate) fn count_exec(&self) -> Counted {
        self.execs.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.execs))
    }

    /// Execs that run now.
    pub(crate) fn execs(&self) -> u64 {
        self.execs.load(Ordering::Relaxed)
    }
}

/// One running exec.
pub(crate) struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
