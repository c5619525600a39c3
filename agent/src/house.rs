//! The agent's own standard output and error. Programs of images made for containers write to `/proc/1/fd/1` and `/2`, for PID 1's
//! output is what a container says: here it is that of the command that runs.
//!
//! Between commands nothing lives that could write. What was written last is sent before its command's end.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, TryLockError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{dup2_stderr, dup2_stdout};
use vk_agent_proto::Kind;

/// Where what is written to the agent's standard streams is read.
pub(crate) struct House(Mutex<[Stream; 2]>);

/// One of them.
pub(crate) struct Stream {
    /// What it is to the host.
    pub(crate) kind: Kind,
    /// Never blocks.
    pub(crate) pipe: File,
}

impl House {
    /// Puts pipes in the place of the agent's standard output and error.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(crate) fn open() -> io::Result<Self> {
        let (out, our_out) = io::pipe()?;
        let (err, our_err) = io::pipe()?;
        for ours in [&our_out, &our_err] {
            // Nothing of the agent's own may ever wait for a reader. Whoever else opens it has flags of its own.
            fcntl(ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        dup2_stdout(&our_out)?;
        dup2_stderr(&our_err)?;
        let stream = |kind, pipe: io::PipeReader| {
            fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            let pipe = File::from(OwnedFd::from(pipe));
            io::Result::Ok(Stream { kind, pipe })
        };
        let streams = [stream(Kind::Stdout, out)?, stream(Kind::Stderr, err)?];
        Ok(Self(Mutex::new(streams)))
    }

    /// Lends them to a command, unless another one has them.
    pub(crate) fn lend(&self) -> Option<MutexGuard<'_, [Stream; 2]>> {
        match self.0.try_lock() {
            Ok(streams) => Some(streams),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
