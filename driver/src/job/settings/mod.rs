//! What a job sets through variables: the settings of GitLab Runner and the size of its VM.

mod job;
mod parse;
mod size;
mod timeouts;

pub(crate) use job::{Settings, SubmoduleStrategy};
pub(crate) use size::{limit_line, requested_size};
pub(crate) use timeouts::StageTimeouts;
pub(crate) use vk_sources::Strategy;
