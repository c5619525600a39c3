//! What every backend's virtual machine can do.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use vk_process::Exit;

/// A future of an object-safe trait.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A running virtual machine. Dropping it kills it.
pub trait Machine: Send + Sync + fmt::Debug {
    /// The socket that leads to the guest: connect, write `CONNECT <port>\n`, read `OK <host port>\n` and the stream is
    /// that of the guest's vsock port. A guest that connects to the host's port P reaches the listener at this path
    /// with `_P` added.
    fn vsock_path(&self) -> &Path;

    /// How the machine ended, once it has: power-off, panic, halt, loss of the VMM, or [`Machine::kill`]. Its processes
    /// are gone by then. May be awaited any number of times.
    fn wait(&self) -> BoxFuture<'_, MachineEnd>;

    /// Ends the machine at once, whatever it does, and waits until it has ended.
    fn kill(&self) -> BoxFuture<'_, MachineEnd>;

    /// What the machine has used so far; none once it has ended.
    fn stats(&self) -> Option<MachineStats>;

    /// The last lines of the console, as in [`MachineEnd::console_tail`].
    fn console_tail(&self) -> String;
}

/// Host resources that a machine has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineStats {
    /// Processor time of all its threads, the guest's included, and of those of this process that serve its devices.
    pub cpu_time: Duration,
    /// Most memory that its process ever had resident, in bytes.
    pub peak_memory: u64,
}

/// How a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineEnd {
    /// Why.
    pub cause: EndCause,
    /// The console's last lines, up to 12 of up to 200 characters, none of them blank: fit for printing and for the end
    /// of an error's message. Empty if there are none.
    pub console_tail: String,
}

impl fmt::Display for MachineEnd {
    /// The cause alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// Why a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// The guest powered off.
    PoweredOff,
    /// The guest asked for a restart, which a machine does not have.
    Rebooted,
    /// The guest halted its processors.
    Halted,
    /// The guest's kernel panicked, with this message.
    Panicked(String),
    /// The guest reset the machine without a word: a triple fault, or a crash very early.
    Reset,
    /// [`Machine::kill`], or the machine was dropped.
    Killed,
    /// The VMM itself ended: killed from outside (the system out of memory, for one) or by an error of its own.
    VmmLost {
        /// How its process ended.
        exit: Exit,
        /// What it said last.
        message: String,
    },
    /// The VMM did not answer for so long, and was killed.
    VmmUnresponsive(Duration),
    /// The guest broke a device beyond use, and was ended.
    DeviceFault(String),
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PoweredOff => f.write_str("the VM powered off"),
            Self::Rebooted => f.write_str("the VM restarted"),
            Self::Halted => f.write_str("the VM halted"),
            Self::Panicked(message) => write!(f, "the VM's kernel panicked: {message}"),
            Self::Reset => f.write_str("the VM reset itself without a word"),
            Self::Killed => f.write_str("the VM was killed"),
            Self::VmmLost { exit, message } if message.is_empty() => {
                write!(f, "the VM was lost: its VMM ended ({exit})")
            }
            Self::VmmLost { exit, message } => {
                write!(f, "the VM was lost: its VMM ended ({exit}): {message}")
            }
            Self::VmmUnresponsive(time) => write!(
                f,
                "the VM was lost: its VMM did not answer for {} seconds",
                time.as_secs()
            ),
            Self::DeviceFault(message) => write!(f, "the VM was ended: {message}"),
        }
    }
}
