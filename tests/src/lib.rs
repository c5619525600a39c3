//! The kit that the end-to-end tests are made with: real parts, no mocks.

#![allow(clippy::indexing_slicing, reason = "a test kit fails by panicking")]

pub mod container_images;
pub mod debian;
pub mod fault_proxy;
pub mod fuzz;
pub mod git_http;
pub mod git_lfs;
pub mod gitlab;
pub mod golden;
mod http;
pub mod image_maker;
pub mod job;
pub mod noise;
pub mod processes;
pub mod registry;
pub mod sight;
pub mod small_disk;
pub mod vk;
