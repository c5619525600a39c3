//! Layers to images.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests"
)]

mod attributes;
mod contents;
mod hostile;
mod layers;
mod model;
mod support;
mod umoci;
