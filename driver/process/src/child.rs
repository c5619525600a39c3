//! A running child: its end, its streams, its killing.

use std::fmt;
use std::io;
use std::process::{self, ChildStderr, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::sync::watch;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// Somebody else reaped it (a program that ignores `SIGCHLD`).
    Unknown,
}

impl Exit {
    /// Whether it exited with status 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "killed by {signal}"),
                Err(_) => write!(f, "killed by signal {number}"),
            },
            Self::Unknown => f.write_str("ended, status unknown"),
        }
    }
}

/// The child's process group, for as long as its id is certain to be the child's.
#[derive(Debug)]
struct Group {
    leader: Pid,
    /// Once the leader is reaped the system may give its number to someone else.
    reaped: Mutex<bool>,
}

impl Group {
    fn reaped(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill(&self) {
        let reaped = self.reaped();
        if !*reaped {
            // Fails only for a group whose members are all dead already.
            let _ = killpg(self.leader, Signal::SIGKILL);
        }
    }

    /// Blocks until the leader ends, then kills what it left behind and reaps it.
    fn wait(&self) -> Exit {
        let ended = self.waitid(WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let mut reaped = self.reaped();
        if ended.is_ok() {
            let _ = killpg(self.leader, Signal::SIGKILL);
        }
        let status = self.waitid(WaitPidFlag::WEXITED);
        *reaped = true;
        match status {
            Ok(WaitStatus::Exited(_, code)) => Exit::Code(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => Exit::Signal(signal as i32),
            _ => Exit::Unknown,
        }
    }

    fn waitid(&self, flags: WaitPidFlag) -> nix::Result<WaitStatus> {
        loop {
            match waitid(Id::Pid(self.leader), flags) {
                Err(Errno::EINTR) => {}
                result => return result,
            }
        }
    }
}

/// A child of this process. Dropping it kills it with its process group.
#[derive(Debug)]
pub struct Child {
    group: Arc<Group>,
    end: watch::Receiver<Option<Exit>>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Child {
    /// Takes over a process that leads its own group; a thread of its own waits for it.
    pub(super) fn watch(mut child: process::Child) -> io::Result<Self> {
        let group = Arc::new(Group {
            leader: Pid::from_raw(child.id().cast_signed()),
            reaped: Mutex::new(false),
        });
        let (ended, end) = watch::channel(None);
        let waiter = Arc::clone(&group);
        let thread = thread::Builder::new()
            .name("vk-waiter".into())
            .stack_size(64 * 1024)
            .spawn(move || {
                let _ = ended.send(Some(waiter.wait()));
            });
        if let Err(error) = thread {
            group.kill();
            group.wait();
            return Err(error);
        }
        Ok(Self {
            group,
            end,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        })
    }

    /// The process id. It may be someone else's once the child has ended: do not signal it, use [`Child::kill`].
    pub fn id(&self) -> u32 {
        self.group.leader.as_raw().cast_unsigned()
    }

    /// The reading end of a piped standard output, once. tokio's `ChildStdout::from_std` makes it asynchronous.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// The reading end of a piped standard error, once. tokio's `ChildStderr::from_std` makes it asynchronous.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// How the child ended; waits until it has, and is reaped. May be called any number of times, and dropped.
    pub async fn wait(&self) -> Exit {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Unknown),
            Err(_) => Exit::Unknown,
        }
    }

    /// Kills the child and its process group, and waits until the child is reaped.
    pub async fn kill(&self) -> Exit {
        self.group.kill();
        self.wait().await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.group.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::spawn;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    fn is_running(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[tokio::test]
    async fn exit_status_reaches_every_waiter() {
        let child = spawn(shell("exit 7")).await.unwrap();

        let ends = tokio::join!(child.wait(), child.wait());

        assert_eq!(ends, (Exit::Code(7), Exit::Code(7)));
    }

    #[tokio::test]
    async fn killed_child_reports_the_signal_and_may_be_killed_again() {
        let child = spawn(shell("sleep 60")).await.unwrap();

        let end = child.kill().await;

        assert_eq!(end, Exit::Signal(9));
        assert_eq!(child.kill().await, end);
        assert_eq!(end.to_string(), "killed by SIGKILL");
    }

    #[tokio::test]
    async fn dropped_child_is_reaped() {
        let child = spawn(shell("sleep 60")).await.unwrap();
        let mut end = child.end.clone();

        drop(child);

        end.wait_for(|end| *end == Some(Exit::Signal(9)))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn what_a_child_leaves_in_its_group_ends_with_it() {
        let mut command = shell("sleep 60 >/dev/null 2>&1 & echo $!");
        command.stdout(Stdio::piped());
        let mut child = spawn(command).await.unwrap();
        let mut left = String::new();
        let mut stdout = child.take_stdout().unwrap();
        stdout.read_to_string(&mut left).unwrap();

        assert_eq!(child.wait().await, Exit::Code(0));

        let left = left.trim().parse().unwrap();
        while is_running(left) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn missing_program_is_named() {
        let error = spawn(Command::new("no-such-program")).await.unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "cannot start `no-such-program`");
    }

    #[tokio::test]
    async fn inherited_descriptors_are_closed() {
        let leaked = std::fs::File::open("/dev/null").unwrap();
        let leaked = nix::unistd::dup(&leaked).unwrap(); // dup(2) drops the close-on-exec mark
        let mut command = shell("ls /proc/self/fd");
        command.stdout(Stdio::piped());
        let mut child = spawn(command).await.unwrap();
        let mut open = String::new();
        let mut stdout = child.take_stdout().unwrap();

        stdout.read_to_string(&mut open).unwrap();

        drop(leaked);
        // `ls` itself opens the folder as 3.
        assert_eq!(open, "0\n1\n2\n3\n");
    }
}
