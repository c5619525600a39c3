//! The stage machine: what a job does next, decided without clock, socket or task.
//!
//! The order of stages and what a failure, a time-out or a cancel leaves of it are GitLab Runner's (gitlab-runner,
//! build §1.2.1, build §1.3, build §1.5.1, build §1.5.3, build §1.6 and build §1.7). The shell around it runs one
//! stage at a time, tells the machine how it ended and what happened meanwhile, and does what the returned effects
//! say:
//!
//! ```text
//! prepare_executor → prepare_script → get_sources → restore_cache → download_artifacts
//!   → step_* → after_script → archive_cache → upload_artifacts → cleanup_file_variables
//! ```
//!
//! Times are durations since the job began, on any monotonic clock.

mod events;
mod failure;
mod stages;

pub(super) use events::{Effect, Event, JobEnd, Notice, STOP_GRACE, StopMode};
pub(super) use failure::StageFailure;
pub(super) use stages::StageOrder;

#[cfg(test)]
pub(super) mod tests;
