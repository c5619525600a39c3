//! Archives made and unpacked.

#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests"
)]

mod bounds;
mod hostile;
mod interop;
mod kit;
mod links;
mod round_trip;
mod selection;
mod spill;
mod tree;
mod untracked;
mod zip_peer;
