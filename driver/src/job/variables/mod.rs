//! The variables of a job as its scripts see them, and the folders they name.

mod dirs;
mod environment;

pub(crate) use environment::{HostContext, JobEnvironment, JobStatus, secrets_of_refused};
