//! The stages' work: each is a task that sends output and ends with success or a failure.

mod io;
mod prepare;
mod probe;
mod script;
mod skipped;
mod sources;

pub(super) use io::{StageIo, StageOutput};

use std::sync::Arc;

use super::context::JobContext;
use super::machine::StageFailure;
use super::stage::Stage;
use super::variables::JobStatus;

/// When in the job a stage runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// What `CI_JOB_STATUS` says.
    pub(super) status: JobStatus,
    /// Which attempt at the sources this is, from 1.
    pub(super) sources_attempt: u32,
}

/// Runs `stage` to its end.
pub(super) async fn run(
    context: Arc<JobContext>,
    stage: Stage,
    moment: Moment,
    io: StageIo,
) -> Result<(), StageFailure> {
    match &stage {
        Stage::PrepareExecutor => prepare::run(&context, io).await,
        Stage::GetSources => sources::run(&context, moment, io).await,
        Stage::RestoreCache
        | Stage::DownloadArtifacts
        | Stage::ArchiveCache
        | Stage::ArchiveCacheOnFailure
        | Stage::UploadArtifactsOnSuccess
        | Stage::UploadArtifactsOnFailure => skipped::run(&context, &stage, io).await,
        Stage::PrepareScript => {
            let mut io = io;
            probe::run(&context, &mut io).await?;
            script::run_stage(&context, &stage, moment, io).await
        }
        Stage::ClearWorktree
        | Stage::Step(_)
        | Stage::AfterScript
        | Stage::CleanupFileVariables => script::run_stage(&context, &stage, moment, io).await,
    }
}
