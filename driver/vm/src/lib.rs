//! Virtual machines: what a job runs in.
//!
//! [`start`] boots a [`MachineConfig`] on the [`Backend`] asked for and returns a [`Machine`]. What talks to the guest
//! connects to [`Machine::vsock_path`]; what waits for its end, whatever the cause, awaits [`Machine::wait`].
//!
//! # Limits
//!
//! - The host is Linux on x86-64, with QEMU's `microvm`; without KVM the guest is emulated, and slow.
//! - A machine and what serves it end when its [`Machine`] is dropped, and when this process dies, however it does.
//! - The guest has no network. It reaches the host through its vsock only.
//!
//! # What embedders need
//!
//! A tokio runtime, a QEMU on the host, kernel and initramfs, and a folder of this run alone whose path is short enough
//! for Unix sockets.

mod backend;
mod config;
mod console;
mod kvm;
mod machine;
mod qemu;
pub mod scratch;
mod stats;
mod sys;

pub use backend::{Backend, StartError, boot_limit, is_emulated, start};
pub use config::{Disk, DiskAccess, MachineConfig};
pub use kvm::{KvmProbe, probe_kvm};
pub use machine::{BoxFuture, EndCause, Machine, MachineEnd, MachineStats};
pub use qemu::QemuError;
pub use vk_vsock::VsockError;
