//! Virtual machines, each a real one: Debian's kernel with `init.rs` as PID 1.
#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
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
