//! Virtual machines, each a real one: Debian's kernel with `init.rs` as PID 1.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod disks;
mod end;
mod lifetime;
mod support;
mod vsock;
mod without_qemu;
