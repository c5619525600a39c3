//! What travels between host and guest.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

mod decoder;
mod wire;
