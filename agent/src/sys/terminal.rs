//! A pseudo-terminal for a command (pty(7), ioctl_tty(2)).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::pty::{OpenptyResult, Winsize, openpty};

/// Both ends of a pseudo-terminal.
pub(crate) struct Terminal {
    /// Where the agent reads and writes.
    pub(crate) master: File,
    /// What becomes the command's terminal.
    pub(crate) slave: OwnedFd,
}

/// Makes a pseudo-terminal of this size, in characters.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn open_terminal(columns: u16, rows: u16) -> io::Result<Terminal> {
    let OpenptyResult { master, slave } = openpty(&size(columns, rows), None)?;
    for end in [&master, &slave] {
        let close = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
        nix::fcntl::fcntl(end, close)?;
    }
    Ok(Terminal {
        master: master.into(),
        slave,
    })
}

/// Gives a pseudo-terminal a new size: its foreground processes hear of it by SIGWINCH.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn resize(master: &File, columns: u16, rows: u16) -> io::Result<()> {
    let size = size(columns, rows);
    // SAFETY: reads one `winsize` that lives on this stack; the descriptor is open as long as `master`.
    let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
