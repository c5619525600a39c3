//! Why QEMU did not start.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use vk_process::SpawnError;
use vk_vsock::VsockError;

/// A machine could not be started with QEMU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QemuError {
    /// There is no `qemu-system-x86_64` on the `PATH`.
    #[error("QEMU is not installed: install the package `qemu-system-x86`")]
    NotInstalled,
    /// It could not be started.
    #[error("cannot start QEMU")]
    Spawn(#[source] SpawnError),
    /// A socket between vk and QEMU could not be made.
    #[error("cannot make the VM's socket {}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What it writes could not be read.
    #[error("cannot read what QEMU writes")]
    Output(#[source] io::Error),
    /// The vsock device could not be set up.
    #[error(transparent)]
    Vsock(#[from] VsockError),
    /// QEMU started and ended before it ran the guest.
    #[error("QEMU refused to run the VM: {message}")]
    Refused {
        /// How it ended and what it said.
        message: String,
    },
    /// QEMU neither set up the machine nor ended in time, and was killed.
    #[error(
        "QEMU did not set up the VM within {} seconds, the host may be overloaded{}",
        limit.as_secs(),
        said(message)
    )]
    Unresponsive {
        /// How long it was waited for.
        limit: Duration,
        /// What it said.
        message: String,
    },
    /// The connection to QEMU's monitor failed while QEMU lived on; it was killed.
    #[error("cannot talk to QEMU's monitor{}", said(message))]
    Monitor {
        /// What QEMU said.
        message: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A kernel, initramfs or disk is not there, or not readable.
    #[error("cannot read the VM's {what} {}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The configuration asks for something no machine has.
    #[error("a VM cannot have {0}")]
    Config(String),
}

/// QEMU's output as the end of a message.
fn said(message: &str) -> String {
    if message.is_empty() {
        return String::new();
    }
    format!("; it said: {message}")
}
