//! One job: its stages, its scripts, its variables.

mod context;
mod expand;
pub(crate) mod feature_flags;
mod image_process;
mod options;
mod order;
mod plan;
mod printer;
mod runner;
pub(crate) mod script;
pub(crate) mod settings;
pub(crate) mod stage;
mod stages;
mod trace_writer;
mod usage;
pub(crate) mod variables;

pub use options::JobOptions;
pub use order::{CancelMode, StageFailure};
pub use runner::{JobEvent, JobRun, RefusedJob, refuse_job, run_job};

#[cfg(test)]
pub(crate) mod testing;
