//! The variables of a job as its scripts see them, and the folders they name.

mod dirs;
mod environment;

pub use environment::Slot;
pub(crate) use environment::{JobEnvironment, JobStatus, secrets_of_refused};
