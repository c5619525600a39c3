//! Taking in ended children.

use nix::errno::Errno;
use nix::unistd::Pid;
use vk_agent_proto::ExitStatus;

/// One child that has ended, and how; none if there is none now.
///
/// By hand rather than with nix, whose `waitpid` loses the status of a child that a real-time signal ended.
pub(crate) fn reap() -> Option<(Pid, ExitStatus)> {
    let mut status = 0;
    loop {
        // SAFETY: writes one integer to `status`, which outlives the call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid > 0 {
            let status = if libc::WIFSIGNALED(status) {
                ExitStatus::Signal(libc::WTERMSIG(status))
            } else {
                ExitStatus::Code(libc::WEXITSTATUS(status))
            };
            return Some((Pid::from_raw(pid), status));
        }
        if pid == 0 || Errno::last() != Errno::EINTR {
            return None;
        }
    }
}
