//! The stages' work: each is a task that sends output and ends with success or a failure.

mod artifacts;
mod cache;
mod helper;
mod image;
mod io;
mod pack_error;
mod prepare;
mod probe;
mod script;
mod sources;
mod transfer;

use std::sync::Arc;

use vk_hub_proto::job::{ArtifactOutcome, CiJob};

pub(super) use io::StageIo;

use super::context::{JobContext, has_artifacts, system};
use super::order::StageFailure;
use super::session::{Booted, Prepared, Session};
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

/// How a stage ended.
#[derive(Debug)]
pub(super) struct StageEnd {
    /// Whether it failed.
    pub(super) result: Result<(), StageFailure>,
    /// What it made for the stages behind it, failed or not.
    pub(super) made: Made,
    /// What became of artifacts, by their position in the job.
    pub(super) artifacts: Vec<(usize, ArtifactOutcome)>,
}

/// What a stage made.
#[derive(Debug)]
pub(super) enum Made {
    /// Nothing that stays.
    Nothing,
    /// A guest.
    Guest(Booted),
    /// All that scripts need.
    Session(Session),
}

impl From<Result<(), StageFailure>> for StageEnd {
    fn from(result: Result<(), StageFailure>) -> Self {
        Self {
            result,
            made: Made::Nothing,
            artifacts: Vec::new(),
        }
    }
}

/// Runs `stage` to its end.
pub(super) async fn run(
    context: Arc<JobContext>,
    prepared: Prepared,
    stage: Stage,
    moment: Moment,
    io: StageIo,
) -> StageEnd {
    match (&stage, prepared) {
        (Stage::PrepareExecutor, _) => prepare::run(&context, io).await,
        (Stage::PrepareScript, Prepared::Booted(booted)) => {
            probe::run(&context, &booted, moment, io).await
        }
        (_, Prepared::Ready(session)) => in_session(&context, &session, &stage, moment, io).await,
        // The order of stages does not allow it.
        (_, Prepared::Nothing | Prepared::Booted(_)) => {
            let text = format!("{} began before there was a VM", stage.name());
            Err(system(text)).into()
        }
    }
}

async fn in_session(
    context: &JobContext,
    session: &Session,
    stage: &Stage,
    moment: Moment,
    io: StageIo,
) -> StageEnd {
    match stage {
        Stage::GetSources => sources::run(context, session, moment, io).await.into(),
        Stage::RestoreCache => cache::restore(context, session, moment, io).await.into(),
        Stage::DownloadArtifacts => artifacts::download(context, session, moment, io)
            .await
            .into(),
        Stage::ArchiveCache => cache::save(context, session, true, moment, io).await.into(),
        Stage::ArchiveCacheOnFailure => cache::save(context, session, false, moment, io)
            .await
            .into(),
        Stage::UploadArtifactsOnSuccess | Stage::UploadArtifactsOnFailure => {
            artifacts::upload(context, session, stage, moment, io).await
        }
        Stage::PrepareExecutor
        | Stage::PrepareScript
        | Stage::ClearWorktree
        | Stage::Step(_)
        | Stage::AfterScript
        | Stage::CleanupFileVariables => script::run_stage(context, session, stage, moment, io)
            .await
            .into(),
    }
}

/// The positions of the artifacts that `stage` uploads.
pub(super) fn uploads_of(stage: &Stage, job: &CiJob) -> impl Iterator<Item = usize> {
    let success = match stage {
        Stage::UploadArtifactsOnSuccess => Some(true),
        Stage::UploadArtifactsOnFailure => Some(false),
        _ => None,
    };
    let artifacts = job.artifacts.iter().enumerate();
    artifacts
        .filter(move |(_, artifact)| {
            success.is_some_and(|success| artifact.when.applies(success) && has_artifacts(artifact))
        })
        .map(|(position, _)| position)
}
