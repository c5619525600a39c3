//! The checkout on the host, against real git over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

pub(crate) mod kit;

mod bounds;
mod cache;
mod faults;
mod golden;
mod hostile;
mod lfs;
mod local;
mod secrets;
mod tree;
