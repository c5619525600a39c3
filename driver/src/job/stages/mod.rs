//! The stages' work: each is a task that sends output and ends with success or a failure.

mod artifacts;
mod cache;
mod helper;
mod image;
mod io;
mod prepare;
mod probe;
mod script;
mod sources;
mod transfer;

pub(super) use io::{StageIo, StageOutput};

use std::sync::Arc;

use super::context::JobContext;
use super::order::StageFailure;
use super::stage::Stage;
use super::variables::JobStatus;

/// When in the job a stage runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// What `CI_JOB_STATUS` says.
    pub(super) status: JobStatus,
    /// Which attempt at the stage this is, from 1.
    pub(super) attempt: u32,
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
        Stage::RestoreCache => cache::restore(&context, moment, io).await,
        Stage::DownloadArtifacts => artifacts::download(&context, moment, io).await,
        Stage::ArchiveCache => cache::save(&context, true, moment, io).await,
        Stage::ArchiveCacheOnFailure => cache::save(&context, false, moment, io).await,
        Stage::UploadArtifactsOnSuccess => artifacts::upload(&context, true, moment, io).await,
        Stage::UploadArtifactsOnFailure => artifacts::upload(&context, false, moment, io).await,
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
