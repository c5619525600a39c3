//! What holds all processes of a command together.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs_core::FromRead;
use procfs_core::process::Stat;

use crate::cgroups::{Cgroups, ExecCgroup, Met};
use crate::console;
use crate::processes::Process;

/// How the processes of a command are found again when it must end.
pub(super) enum Containment {
    /// By their cgroup: nothing escapes. The way of a guest.
    Cgroup(ExecCgroup),
    /// By their session: what makes itself a new one escapes. For rehearsals on hosts without cgroup2.
    Session,
}

impl Containment {
    /// A cgroup below `cgroups`, or none.
    ///
    /// # Errors
    ///
    /// What the kernel says to a new cgroup.
    pub(super) fn new(cgroups: Option<&Cgroups>) -> io::Result<Self> {
        cgroups.map_or(Ok(Self::Session), |cgroups| {
            cgroups.create().map(Self::Cgroup)
        })
    }

    /// Where the process must be started.
    pub(super) fn folder(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Cgroup(cgroup) => Some(cgroup.folder()),
            Self::Session => None,
        }
    }

    /// Sends KILL to everything that `main` started, and to itself.
    pub(super) fn kill(&self, main: &Process) {
        match self {
            Self::Cgroup(cgroup) => cgroup.kill(),
            Self::Session => kill_session(main.pid()),
        }
    }

    /// Waits until what was killed is gone, and says so if it does not go; the limits of the guest that it met.
    pub(super) fn finish(self) -> Met {
        match self {
            Self::Cgroup(cgroup) => {
                if let Some(left) = cgroup.await_empty() {
                    console::line(&format!("vk-agent: {left}"));
                }
                cgroup.met()
            }
            Self::Session => Met::default(),
        }
    }
}

/// Sends KILL to all of a session, again until none is left that is not dying: they may be forking.
fn kill_session(session: Pid) {
    for _ in 0..100 {
        let Ok(processes) = fs::read_dir("/proc") else {
            return;
        };
        let members: Vec<Pid> = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
            .filter(|pid| lives_in(*pid, session))
            .collect();
        if members.is_empty() {
            return;
        }
        for pid in members {
            let _ = kill(pid, Signal::SIGKILL);
        }
        std::thread::yield_now();
    }
}

/// Whether `pid` is of `session` and no zombie.
fn lives_in(pid: Pid, session: Pid) -> bool {
    Stat::from_file(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.session == session.as_raw() && !matches!(stat.state, 'Z' | 'X'))
}
