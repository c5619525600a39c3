//! vk-driver: runs one CI job or one command in a fresh microVM.
//!
//! A [`host::Host`] says where images and run files are. [`job::run_job`] takes a job spec to its result,
//! [`command::run_command`] a command to its exit code; both end their VM before they return. Everything needs a
//! tokio runtime.

pub mod agent;
pub mod artifacts;
pub mod cache;
pub mod check;
pub mod command;
pub mod config;
pub mod guest;
pub mod host;
pub mod image;
pub mod images;
pub mod job;
mod memory_limit;
mod meter;
pub mod notes;
pub mod output;
pub mod process;
mod random;
pub mod registry;
pub mod report;
pub mod root_image;
pub mod size;
pub mod sources;
pub mod spool;
pub mod state;
mod sys;
mod tls;
pub mod vm;
