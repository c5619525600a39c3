//! The one system call that needs `unsafe`: everything outside this file is safe code.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

/// Arranges that `command`'s process is killed when the thread that forks it ends, and that it inherits no file
/// descriptor beyond its standard three.
///
/// `parent` is the calling process: a child that finds itself adopted by another one before it could ask for the
/// signal refuses to start (`PR_SET_PDEATHSIG` of prctl(2) tells only of deaths to come).
pub(crate) fn tie_to_parent(command: &mut Command, parent: Pid) {
    let hook = move || {
        // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory of ours.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, Signal::SIGKILL as libc::c_ulong) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // Descriptors are only marked: std's own pipe, which reports a failed exec, must live until then. The result
        // is not looked at: before Linux 5.11 the flag does not exist, and our own descriptors are marked anyway.
        // SAFETY: close_range(2) takes three integers; marking descriptors invalidates none.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3 as libc::c_uint,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
            );
        }
        Ok(())
    };
    // SAFETY: the hook runs between fork and exec, where only async-signal-safe calls are allowed: it makes system
    // calls only, allocates nothing (`from_raw_os_error` stores the number) and takes no lock.
    unsafe { command.pre_exec(hook) };
}
