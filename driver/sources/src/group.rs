//! A process group that ends with us, whatever ends us.

use std::io;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, Command};

/// Waits for its standard input to end, then kills its whole process group, itself included.
const WATCHDOG: &str = "read -r line; kill -KILL 0";

/// A process group for git and the helpers it starts.
///
/// git starts processes of its own (`git-remote-https`, `index-pack`, shells), which a parent-death signal to
/// git alone would leave behind. The group's leader is a watchdog that holds the other end of a pipe of ours:
/// when we die, by whatever signal, the pipe ends and the watchdog kills the group. A child that is between
/// fork and exec at that moment still holds a copy of our end, and joins the group before it closes it, so
/// none is missed. The leader is reaped only when this value is dropped: the group's number cannot be reused
/// before.
pub(super) struct Group {
    leader: Child,
    id: Pid,
    _lifeline: ChildStdin,
}

impl Group {
    pub(super) fn start() -> io::Result<Self> {
        let mut leader = Command::new("/bin/sh")
            .args(["-c", WATCHDOG])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok());
        match (id, leader.stdin.take()) {
            (Some(id), Some(lifeline)) => Ok(Self {
                leader,
                id: Pid::from_raw(id),
                _lifeline: lifeline,
            }),
            _ => Err(io::Error::other("the watchdog has no process id or input")),
        }
    }

    /// Number of the group, for [`Command::process_group`].
    pub(super) fn id(&self) -> i32 {
        self.id.as_raw()
    }

    /// Kills every process of the group at once.
    pub(super) fn kill(&self) {
        // Fails only when no process of the group is left.
        let _ = killpg(self.id, Signal::SIGKILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        // Reaps the leader if it is dead already; tokio reaps it later if not.
        let _ = self.leader.try_wait();
    }
}
