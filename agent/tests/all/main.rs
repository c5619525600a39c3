//! The agent, in rehearsal and in guests.

#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests"
)]

mod archive;
mod exec;
mod guest;
mod kit;
mod protocol;
mod tree;
