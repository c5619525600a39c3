//! vk-gitlab: the relay between GitLab and vk.
//!
//! So far it is the library that reads a GitLab job response ([`response::parse`]) and translates it into the job
//! spec of the dispatch protocol ([`translate::translate`]).

// What comes from outside reaches all of this.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod response;
pub mod translate;
