//! Settings of the kernel that containers have, and a kernel by itself has not.

use std::fs;

use super::error::{BootError, During};

/// What Docker sets in a container that has a network of its own (since 20.10): any user may listen on all ports, and send ICMP
/// echo requests without a raw socket. And what its host has set: packets are forwarded, which containers in containers
/// need (dockerd), and there is no end of open files and process numbers (systemd).
const SETTINGS: [(&str, &str); 5] = [
    ("net/ipv4/ip_unprivileged_port_start", "0"),
    ("net/ipv4/ping_group_range", "0 2147483647"),
    ("net/ipv4/ip_forward", "1"),
    ("fs/file-max", "9223372036854775807"),
    ("kernel/pid_max", "4194304"),
];

/// Sets them.
///
/// # Errors
///
/// [`BootError`] that names the setting.
pub(super) fn write() -> Result<(), BootError> {
    for (name, value) in SETTINGS {
        fs::write(format!("/proc/sys/{name}"), value).during(format_args!("setting {name}"))?;
    }
    Ok(())
}
