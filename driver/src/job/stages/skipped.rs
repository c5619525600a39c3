//! Stages whose work vk cannot do yet: the trace says what was left out, so that no job goes green unnoticed.

use super::io::{StageIo, StageOutput};
use crate::job::context::JobContext;
use crate::job::machine::StageFailure;
use crate::job::stage::Stage;

/// Names what `stage` would have moved.
pub(super) async fn run(
    context: &JobContext,
    stage: &Stage,
    io: StageIo,
) -> Result<(), StageFailure> {
    for warning in warnings(context, stage) {
        io.out.send(StageOutput::Warning(warning)).await;
    }
    Ok(())
}

fn warnings(context: &JobContext, stage: &Stage) -> Vec<String> {
    let job = &context.job;
    let success = !matches!(
        stage,
        Stage::ArchiveCacheOnFailure | Stage::UploadArtifactsOnFailure
    );
    match stage {
        Stage::RestoreCache => job
            .caches
            .iter()
            .map(|cache| {
                format!(
                    "vk does not restore caches yet: skipped cache \"{}\"",
                    cache.key
                )
            })
            .collect(),
        Stage::ArchiveCache | Stage::ArchiveCacheOnFailure => job
            .caches
            .iter()
            .filter(|cache| cache.when.applies(success))
            .map(|cache| {
                format!(
                    "vk does not save caches yet: skipped cache \"{}\"",
                    cache.key
                )
            })
            .collect(),
        Stage::DownloadArtifacts => job
            .dependencies
            .iter()
            .filter(|dependency| !dependency.filename.is_empty())
            .map(|dependency| {
                format!(
                    "vk does not download artifacts yet: skipped those of {} ({})",
                    dependency.name, dependency.id
                )
            })
            .collect(),
        _ => job
            .artifacts
            .iter()
            .filter(|artifact| artifact.when.applies(success))
            .map(|artifact| {
                let name = if artifact.name.is_empty() {
                    "artifacts"
                } else {
                    &artifact.name
                };
                let paths = artifact.paths.join(", ");
                format!("vk does not upload artifacts yet: skipped \"{name}\" ({paths})")
            })
            .collect(),
    }
}
