//! Artifacts to and from a GitLab that keeps to the recordings of a real one's clients, or misbehaves.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod download;
mod kit;
mod upload;
mod wire;
