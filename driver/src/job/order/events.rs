//! What the stage machine is told, and what it asks for.

use std::time::Duration;

use super::failure::StageFailure;
use crate::job::cancel::CancelMode;
use crate::job::stage::Stage;

/// How long a stage that was told to stop may still take to end by itself before it is killed.
///
/// GitLab Runner waits ten minutes (gitlab-runner, build §1.7); Docker's own `stop` ten seconds, which is what jobs
/// under the Docker executor are used to.
pub(in crate::job) const STOP_GRACE: Duration = Duration::from_secs(10);

/// Something that happened to the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::job) enum Event {
    /// The running stage ended.
    Ended(Result<(), StageFailure>),
    /// Someone asked for the job's end.
    Cancel(CancelMode),
    /// The VM is gone; the text says how.
    MachineLost(String),
    /// Nothing but time went by; due at [`StageOrder::next_deadline`].
    Tick,
}

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::job) enum Effect {
    /// Write a line of the runner's own.
    Print(Notice),
    /// Run this stage and answer with [`Event::Ended`].
    Run(Stage),
    /// Stop the running stage; it still answers with [`Event::Ended`].
    Stop(StopMode),
    /// The job is over: end the VM, write the final line, report.
    Finish(JobEnd),
}

/// How the running stage is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) enum StopMode {
    /// Ask its processes to end, kill them after [`STOP_GRACE`].
    Graceful,
    /// Kill its processes.
    AtOnce,
}

/// A line of the runner's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::job) enum Notice {
    /// A `WARNING:` line.
    Warning(String),
    /// Any other line.
    Info(String),
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::job) struct JobEnd {
    /// Why it failed; `None` for success.
    pub(in crate::job) failure: Option<StageFailure>,
}
