//! Network interfaces.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Brings `lo` up; the kernel gives it 127.0.0.1 and ::1 then (netdevice(7)).
///
/// # Errors
///
/// What the kernel says, above all when it has no network at all.
pub(crate) fn loopback_up() -> io::Result<()> {
    let any = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: `ifreq` is plain data of integers and addresses; all zeros is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(*b"lo\0") {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the flags are 0x41")]
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: the descriptor is open, and SIOCSIFFLAGS reads one `ifreq`, which outlives the call.
    let result =
        unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
