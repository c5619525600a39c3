//! vsock sockets (vsock(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, VsockAddr, accept4, bind, connect, getpeername,
    socket,
};

/// What the guest's kernel may hold of one stream before the host must wait, in bytes. The kernel's own
/// 256 KiB makes host and guest take turns; a multiple lets them overlap.
const BUFFER: u64 = 1 << 20;

// Options of the vsock level, from <linux/vm_sockets.h>.
const SO_VM_SOCKETS_BUFFER_SIZE: libc::c_int = 0;
const SO_VM_SOCKETS_BUFFER_MAX_SIZE: libc::c_int = 2;

fn stream() -> io::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Vsock,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    for option in [SO_VM_SOCKETS_BUFFER_MAX_SIZE, SO_VM_SOCKETS_BUFFER_SIZE] {
        set_option(socket.as_fd(), option, BUFFER)?;
    }
    Ok(socket)
}

fn set_option(socket: BorrowedFd<'_>, option: libc::c_int, value: u64) -> io::Result<()> {
    #[allow(clippy::cast_possible_truncation, reason = "eight bytes")]
    let len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the descriptor is open; the kernel reads `len` bytes at the pointer, which is a u64.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::AF_VSOCK,
            option,
            (&raw const value).cast(),
            len,
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
pub(crate) fn listen(port: u32) -> io::Result<OwnedFd> {
    let socket = stream()?;
    bind(
        socket.as_raw_fd(),
        &VsockAddr::new(libc::VMADDR_CID_ANY, port),
    )?;
    nix::sys::socket::listen(&socket, Backlog::new(512)?)?;
    Ok(socket)
}

/// The next connection from the host. Those of the guest's own programs are dropped: they could get root.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn accept_host(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    loop {
        let raw = match accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Ok(raw) => raw,
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::ECONNABORTED) => continue,
            Err(errno) => return Err(errno.into()),
        };
        // SAFETY: `accept4` just gave us this descriptor, nobody else has it.
        let connection = unsafe { OwnedFd::from_raw_fd(raw) };
        let peer: VsockAddr = getpeername(connection.as_raw_fd())?;
        if peer.cid() == libc::VMADDR_CID_HOST {
            return Ok(connection);
        }
    }
}

/// Connects to `port` of the host. The kernel waits at most two seconds for an answer.
///
/// # Errors
///
/// What the kernel says.
pub(crate) fn connect_host(port: u32) -> io::Result<OwnedFd> {
    let socket = stream()?;
    connect(
        socket.as_raw_fd(),
        &VsockAddr::new(libc::VMADDR_CID_HOST, port),
    )?;
    Ok(socket)
}
