//! vk-driver: runs one CI job or command in a fresh microVM.

pub mod agent;
pub mod job;
pub mod output;
pub mod process;
pub mod sources;
pub mod state;
mod sys;
pub mod vm;
