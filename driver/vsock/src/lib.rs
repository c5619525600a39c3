//! The vsock device: streams between guest and host programs, multiplexed over a pair of virtqueues.
//!
//! From the inside out, each layer knows only the one before it:
//!
//! - `packet`: the header on the wire;
//! - `connection` and `muxer`: the rules, as state machines that see headers and counts but neither bytes nor sockets;
//! - `stream`, `sockets` and `device`: the host's Unix sockets, as Firecracker lays them out;
//! - `queues`: virtqueues of a hostile guest;
//! - `backend` and `service`: the device served to QEMU over vhost-user.
//!
//! [`Service`] serves one VM's device until the VMM hangs up, on threads of its own: it needs no async runtime.
//! Everything a guest can make it remember is bounded.

mod backend;
mod connection;
mod cpu;
mod device;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod model;
mod muxer;
mod packet;
mod queues;
#[cfg(test)]
mod queues_tests;
mod service;
mod sockets;
mod stream;

pub use cpu::CpuTime;
pub use queues::QueueError;
pub use service::{Service, ServiceEnd, VsockError};
