//! Archives made and unpacked.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod bounds;
mod hostile;
mod interop;
mod kit;
mod selection;
mod spill;
mod tree;
mod zip_peer;
