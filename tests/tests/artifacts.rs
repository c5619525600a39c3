//! Artifacts to and from a GitLab that keeps to the recordings of a real one's clients, or misbehaves.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "artifacts/download.rs"]
mod download;
#[path = "artifacts/kit.rs"]
mod kit;
#[path = "artifacts/upload.rs"]
mod upload;
#[path = "artifacts/wire.rs"]
mod wire;
