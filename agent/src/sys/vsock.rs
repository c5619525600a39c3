//! vsock sockets (vsock(7)), as this guest needs them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::Backlog;
use vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST, VsockListener, VsockStream};

/// What the guest's kernel may hold of one stream before the host must wait, in bytes. The kernel's own
/// 256 KiB makes host and guest take turns; a multiple lets them overlap.
const BUFFER: u64 = 1 << 20;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 512;

// From <linux/vm_sockets.h>.
const SO_VM_SOCKETS_BUFFER_SIZE: libc::c_int = 0;
const SO_VM_SOCKETS_BUFFER_MAX_SIZE: libc::c_int = 2;

/// Neither the crate nor nix knows options of the vsock level.
fn set_option(socket: BorrowedFd<'_>, option: libc::c_int, value: u64) -> io::Result<()> {
    const LEN: libc::socklen_t = 8;
    // SAFETY: the descriptor is open; the kernel reads `LEN` bytes at the pointer, which is a u64.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::AF_VSOCK,
            option,
            (&raw const value).cast(),
            LEN,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Listens on `port` of this guest.
///
/// # Errors
///
/// What the kernel says, above all when it has no vsock.
pub(crate) fn listen(port: u32) -> io::Result<VsockListener> {
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, port)?;
    // Connections have their listener's buffers. Nobody connects before the host is told to.
    for option in [SO_VM_SOCKETS_BUFFER_MAX_SIZE, SO_VM_SOCKETS_BUFFER_SIZE] {
        set_option(listener.as_fd(), option, BUFFER)?;
    }
    // Again, for more than the crate's own 128.
    nix::sys::socket::listen(&listener, Backlog::new(BACKLOG)?)?;
    Ok(listener)
}

/// The next connection from the host. Those of the guest's own programs are dropped: they could get root.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn accept_host(listener: &VsockListener) -> io::Result<OwnedFd> {
    loop {
        match listener.accept() {
            Ok((connection, peer)) if peer.cid() == VMADDR_CID_HOST => return Ok(connection.into()),
            Ok(_) => {}
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ECONNABORTED)) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Connects to `port` of the host. The kernel waits at most two seconds for an answer.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn connect_host(port: u32) -> io::Result<OwnedFd> {
    VsockStream::connect_with_cid_port(VMADDR_CID_HOST, port).map(OwnedFd::from)
}
