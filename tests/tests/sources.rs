//! The checkout on the host, against real git over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "sources/kit.rs"]
mod kit;

#[path = "sources/bounds.rs"]
mod bounds;
#[path = "sources/cache.rs"]
mod cache;
#[path = "sources/faults.rs"]
mod faults;
#[path = "sources/golden.rs"]
mod golden;
#[path = "sources/hostile.rs"]
mod hostile;
#[path = "sources/lfs.rs"]
mod lfs;
#[path = "sources/local.rs"]
mod local;
#[path = "sources/secrets.rs"]
mod secrets;
#[path = "sources/tree.rs"]
mod tree;
