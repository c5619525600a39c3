//! Tests that boot no VM.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod artifacts;
mod artifacts_cases;
mod bad_input;
mod cache;
mod differences;
mod facts;
mod fuzz_corpus;
mod image_command;
mod images;
mod registry;
mod rooms;
mod side_by_side;
mod sources;
