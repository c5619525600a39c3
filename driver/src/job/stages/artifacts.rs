//! `download_artifacts` and `upload_artifacts_on_success` or `…_on_failure` (gitlab-runner, wire §3.1, wire §3.2 and
//! wire §3.5).

use vk_agent_client::ArchiveRequest;
use vk_hub_proto::job::{ArchiveFormat, Artifact, ArtifactOutcome, Dependency};
use vk_trace::Output;
use vk_trace::helper::Level;
use vk_transfer::{
    Download, DownloadError, Spooled, Unmade, Upload, UploadError, file_name, format_name,
};

use super::io::StageIo;
use super::pack_error::PackError;
use super::transfer::{Transfer, Unpacked, failure, fatal, transferring};
use super::{Made, Moment, StageEnd, uploads_of};
use crate::job::context::{JobContext, configuration, system};
use crate::job::feature_flags::FeatureFlag;
use crate::job::order::StageFailure;
use crate::job::session::Session;
use crate::job::stage::Stage;

/// Downloads and unpacks what earlier jobs left for this one.
pub(super) async fn download(
    context: &JobContext,
    session: &Session,
    moment: Moment,
    io: StageIo,
) -> Result<(), StageFailure> {
    transferring(context, session, moment, io, |transfer| async move {
        for dependency in &context.job.dependencies {
            if dependency.filename.is_empty() {
                continue;
            }
            let (name, id) = (&dependency.name, dependency.id);
            let text = format!("Downloading artifacts for {name} ({id})...");
            transfer.output.notice(&text).await;
            one_download(&transfer, dependency).await?;
        }
        Ok(())
    })
    .await
}

async fn one_download(
    transfer: &Transfer<'_>,
    dependency: &Dependency,
) -> Result<(), StageFailure> {
    let (environment, output) = (&transfer.environment, &transfer.output);
    let download = Download {
        job_id: dependency.id,
        token: dependency.token.expose(),
        direct: environment.job().is_on(FeatureFlag::DirectDownload),
        folder: transfer.session.guest.work_dir(),
        meter: environment.meter(),
    };
    let archive = match transfer.context.artifacts.download(download, output).await {
        Ok(archive) => archive,
        Err(DownloadError::Spool(error)) => return Err(failure(output, &error.into()).await),
        Err(error) => return Err(fatal(output, &error.to_string()).await),
    };
    let file = match archive.open().await {
        Ok(file) => file,
        Err(error) => return Err(system(format!("cannot read the archive again: {error}"))),
    };
    match transfer.unpack(file, None).await {
        Ok(Unpacked::Whole) => Ok(()),
        Ok(Unpacked::Obstructed(text)) => Err(fatal(output, &text).await),
        Err(error) => Err(failure(output, &error).await),
    }
}

/// Packs and uploads the artifacts that `stage` is for.
pub(super) async fn upload(
    context: &JobContext,
    session: &Session,
    stage: &Stage,
    moment: Moment,
    io: StageIo,
) -> StageEnd {
    if !context.has_artifact_store() {
        let text = "artifacts are not uploaded: the job names no GitLab server; \
                    give --server-url, or keep them with --artifacts-dir";
        io.output.send(Output::Warning(text.to_owned())).await;
        return Ok(()).into();
    }
    let mut outcomes = Vec::new();
    let ended = &mut outcomes;
    let result = transferring(context, session, moment, io, |transfer| async move {
        for position in uploads_of(stage, &context.job) {
            let Some(artifact) = context.job.artifacts.get(position) else {
                continue;
            };
            transfer.output.notice("Uploading artifacts...").await;
            // A stage that is told to stop ends here, anywhere below.
            ended.push((position, ArtifactOutcome::Failed));
            let (outcome, result) = match pack_and_send(&transfer, artifact).await {
                Ok(true) => (ArtifactOutcome::Uploaded, Ok(())),
                Ok(false) => (ArtifactOutcome::Skipped, Ok(())),
                Err((outcome, failure)) => (outcome, Err(failure)),
            };
            ended.push((position, outcome));
            result?;
        }
        Ok(())
    })
    .await;
    StageEnd {
        result,
        made: Made::Nothing,
        artifacts: outcomes,
    }
}

/// Answers whether there was anything to upload.
async fn pack_and_send(
    transfer: &Transfer<'_>,
    artifact: &Artifact,
) -> Result<bool, (ArtifactOutcome, StageFailure)> {
    let Transfer {
        environment,
        output,
        ..
    } = transfer;
    let format = artifact.artifact_format.known().map_err(|unknown| {
        let failure = configuration(unknown.to_string());
        (ArtifactOutcome::Failed, failure)
    })?;
    if environment
        .job()
        .variables()
        .is_true("RUNNER_GENERATE_ARTIFACTS_METADATA")
        && format == ArchiveFormat::Zip
    {
        output
            .warning("vk does not make artifacts statements")
            .await;
    }
    let what = "invalid artifact name";
    let name = environment.expanded(&artifact.name, what, output).await;
    let request = ArchiveRequest {
        root: environment.job().dirs().project.clone(),
        paths: environment.expanded_paths(&artifact.paths, output).await,
        exclude: environment.expanded_paths(&artifact.exclude, output).await,
        untracked: artifact.untracked,
        format,
        level: environment.compression("ARTIFACT_COMPRESSION_LEVEL"),
    };
    let archive = match transfer.pack(request).await {
        Ok(Some(archive)) => archive,
        Ok(None) => {
            output.log(Level::Error, "No files to upload", &[]).await;
            return Ok(false);
        }
        Err(PackError::Unmade(reason)) => {
            let unmade = Unmade {
                job_id: transfer.context.job.job.id,
                format: format_name(format),
                artifact_type: &artifact.artifact_type,
                expire_in: &artifact.expire_in,
                meter: environment.meter(),
                reason: &reason,
            };
            let error = transfer.context.artifacts.unmade(unmade, output).await;
            let failure = fatal(output, &error.to_string()).await;
            return Err((ArtifactOutcome::Failed, failure));
        }
        Err(error) => {
            let outcome = match error {
                PackError::TooLarge(_) => ArtifactOutcome::TooLarge,
                _ => ArtifactOutcome::Failed,
            };
            return Err((outcome, failure(output, &error).await));
        }
    };
    // As `--name`, which the helper gets where the job has a name (gitlab-runner, wire §3.1).
    let name = (!artifact.name.is_empty()).then_some(name.as_str());
    let file_name = file_name(name, format);
    send(transfer, artifact, format, &file_name, &archive).await?;
    Ok(true)
}

async fn send(
    transfer: &Transfer<'_>,
    artifact: &Artifact,
    format: ArchiveFormat,
    file_name: &str,
    archive: &Spooled,
) -> Result<(), (ArtifactOutcome, StageFailure)> {
    let (context, output) = (transfer.context, &transfer.output);
    let job = &context.job;
    let upload = Upload {
        job_id: job.job.id,
        token: job.token.expose(),
        file: archive,
        file_name,
        format: format_name(format),
        artifact_type: &artifact.artifact_type,
        expire_in: &artifact.expire_in,
        meter: transfer.environment.meter(),
    };
    let Err(error) = context.artifacts.upload(upload, output).await else {
        return Ok(());
    };
    Err(match error {
        UploadError::TooLarge => (
            ArtifactOutcome::TooLarge,
            fatal(output, &error.to_string()).await,
        ),
        UploadError::Host(text) => (ArtifactOutcome::Failed, system(text)),
        error => (
            ArtifactOutcome::Failed,
            fatal(output, &error.to_string()).await,
        ),
    })
}
