//! Layers to images.

#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

mod attributes;
mod contents;
mod hostile;
mod layers;
mod model;
mod support;
