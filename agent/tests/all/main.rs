//! The agent, in rehearsal and in guests.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod archive;
mod exec;
mod guest;
mod kit;
mod protocol;
mod tree;
