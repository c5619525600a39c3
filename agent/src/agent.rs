//! What all operations share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::{OFlag, open};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use crate::cgroups::Cgroups;
use crate::house::House;
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
    /// The agent's own standard streams, which are the running command's; none in a rehearsal.
    pub(crate) house: Option<House>,
    proc: OwnedFd,
    execs: Arc<Mutex<u64>>,
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
        house: Option<House>,
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
            house,
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

    /// Counts an exec for as long as the result lives, which must be longer than its processes: in a guest, the
    /// end of the last one that runs is the end of every process but the agent. So nothing outlives the
    /// commands of its stage, wherever it went; a root job can leave every cgroup and namespace.
    pub(crate) fn count_exec(&self) -> Counted {
        *lock(&self.execs) += 1;
        Counted {
            execs: Arc::clone(&self.execs),
            in_guest: self.ending == Ending::PowerOff,
        }
    }

    /// Execs that run now.
    pub(crate) fn execs(&self) -> u64 {
        *lock(&self.execs)
    }
}

fn lock(execs: &Mutex<u64>) -> MutexGuard<'_, u64> {
    execs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One running exec.
pub(crate) struct Counted {
    execs: Arc<Mutex<u64>>,
    /// The agent is PID 1, and all other processes come from execs.
    in_guest: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Held until the end: no other exec may start its process between the count and the kill.
        let mut execs = lock(&self.execs);
        *execs -= 1;
        if *execs == 0 && self.in_guest {
            // kill(2): all but the caller and PID 1, forking ones included. None left is no trouble.
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        }
    }
}
