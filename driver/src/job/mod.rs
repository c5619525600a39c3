//! One job: its stages, its scripts, its variables.

mod context;
mod expand;
pub mod feature_flags;
mod image_process;
mod machine;
mod options;
mod plan;
mod printer;
mod runner;
pub mod script;
pub mod settings;
pub mod stage;
mod stages;
mod trace_writer;
mod usage;
pub mod variables;

pub use machine::{CancelMode, StageFailure};
pub use options::JobOptions;
pub use runner::{JobEvent, JobRun, RefusedJob, refuse_job, run_job};

#[cfg(test)]
pub(crate) mod testing;
