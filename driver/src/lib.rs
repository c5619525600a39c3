//! vk-driver: runs one CI job or one command in a fresh microVM.

#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::indexing_slicing
    )
)]

mod command;
mod guest;
mod host;
mod job;

pub use command::{CommandEnd, CommandError, CommandIo, CommandSpec, run_command};
pub use guest::SizeRequest;
pub use host::{Check, Config, ConfigError, Host, HostBuilder, HostLimits, Verdict, check};
pub use job::feature_flags::{FeatureFlag, FeatureFlags};
pub use job::{
    CancelMode, JobEvent, JobOptions, JobRun, RefusedJob, StageFailure, refuse_job, run_job,
};
pub use vk_vm::Backend;
