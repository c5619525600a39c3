//! Tests that boot VMs.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod artifact_jobs;
mod artifacts;
mod artifacts_cases;
mod c_project;
mod cache;
mod cancel;
mod container;
mod converted_images;
mod docker;
mod embed;
mod features;
mod golden;
mod golden_images;
mod hostile;
mod image_process;
mod jobs;
mod run;
mod secrets;
mod shells;
mod sources;
mod terminal;
