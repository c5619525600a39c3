//! The QEMU backend: `qemu-system-x86_64 -M microvm`, emulated (TCG) or on KVM.

mod command;
mod error;
mod machine;
mod qmp;
mod tsc;

pub(super) use command::Accelerator;
pub use error::QemuError;
pub(super) use machine::start;
