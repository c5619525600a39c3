//! `prepare_executor`: refuses what cannot be run, boots the VM.

use std::sync::Arc;

use super::image;
use super::io::StageIo;
use super::{Made, StageEnd};
use crate::guest::{BootError, Guest, GuestSpec};
use crate::host::DEFAULT_IMAGE;
use crate::job::context::{JobContext, configuration, system};
use crate::job::image_process::ImageProcess;
use crate::job::order::StageFailure;
use crate::job::session::Booted;
use vk_agent_client::{AgentError, FailureKind};
use vk_text::chain;
use vk_trace::Output;

/// Runs the stage. The guest is there even if what follows its boot fails: it ends with the job.
pub(super) async fn run(context: &JobContext, mut io: StageIo) -> StageEnd {
    let booted = match boot(context, &mut io).await {
        Ok(booted) => booted,
        Err(failure) => return Err(failure).into(),
    };
    StageEnd {
        result: make_folders(context, &booted.guest, &booted.process).await,
        made: Made::Guest(booted),
        artifacts: Vec::new(),
    }
}

async fn boot(context: &JobContext, io: &mut StageIo) -> Result<Booted, StageFailure> {
    refuse_services(context)?;
    refuse_formats(context)?;
    let size = context.size()?;
    let name = image_name(context);
    let line = format!(
        "Using {} executor with image {name}, {} vCPUs, {} MiB of memory ...",
        context.host.texts().executor,
        size.cpus,
        size.memory_mib
    );
    io.output.send(Output::Own(line)).await;
    let image = image::find(context, &name, io).await?;
    let process = ImageProcess::new(
        image.defaults().clone(),
        context.job.image.as_ref(),
        context.environment.variables(),
    );
    let spec = GuestSpec {
        image,
        size,
        hostname: hostname(context),
        builds: true,
    };
    let guest = tokio::select! {
        booted = Guest::boot(&context.host, spec) => booted,
        _ = io.stop.stopped() => return Err(system("the VM was stopped while it booted".to_owned())),
    };
    let guest = guest.map_err(|error| match error {
        BootError::Image { .. } => configuration(chain(&error)),
        error => system(chain(&error)),
    })?;
    let guest = Arc::new(guest);
    Ok(Booted { guest, process })
}

/// Makes the folders that must be there before the first script: the job's, for a user who could not make them, and
/// the image's working folder and volumes, as Docker does.
async fn make_folders(
    context: &JobContext,
    guest: &Guest,
    process: &ImageProcess,
) -> Result<(), StageFailure> {
    let dirs = context.environment.dirs();
    let of_job = process
        .user()
        .map_or([None, None], |_| [Some(&dirs.project), Some(&dirs.tmp)]);
    for folder in of_job.into_iter().flatten() {
        let made = guest.make_folder(folder, process.user()).await;
        made.map_err(|error| unmade(&error, chain(&error)))?;
    }
    let image = image_name(context);
    let volumes = process.volumes().iter();
    let volumes = volumes.map(|folder| ("VOLUME", folder.as_str()));
    let working_dir = process.working_dir().map(|folder| ("WORKDIR", folder));
    for (setting, folder) in volumes.chain(working_dir) {
        let made = guest.make_folder(folder, None).await;
        made.map_err(|error| {
            let why = chain(&error);
            let text = format!("image \"{image}\" cannot have its {setting} {folder}: {why}");
            unmade(&error, text)
        })?;
    }
    Ok(())
}

/// A folder that cannot be made, with what is said of it: it is the job's or its image's fault if there is no such user, or if
/// none can be made at that place.
fn unmade(error: &AgentError, text: String) -> StageFailure {
    match error.kind() {
        Some(FailureKind::UnknownUser | FailureKind::BadRequest) => configuration(text),
        _ => system(text),
    }
}

/// A job whose services do not run would go green falsely.
fn refuse_services(context: &JobContext) -> Result<(), StageFailure> {
    let Some(service) = context.job.services.first() else {
        return Ok(());
    };
    Err(configuration(format!(
        "the job has services (\"{}\"), which vk does not run yet: take them out of the job",
        service.name
    )))
}

/// Else the job would run to its end before it fails.
fn refuse_formats(context: &JobContext) -> Result<(), StageFailure> {
    let formats = context.job.artifacts.iter();
    formats
        .map(|artifact| artifact.artifact_format.known())
        .try_for_each(|format| format.map(drop))
        .map_err(|unknown| configuration(unknown.to_string()))
}

/// Expanded at the job's start (gitlab-runner, wire §5.1).
fn image_name(context: &JobContext) -> String {
    let name = context
        .job
        .image
        .as_ref()
        .map_or("", |image| image.name.as_str());
    let name = context.environment.variables().expand(name);
    if name.trim().is_empty() {
        DEFAULT_IMAGE.to_owned()
    } else {
        name
    }
}

/// The guest's host name: what GitLab Runner's Docker executor calls a job's container.
pub(super) fn hostname(context: &JobContext) -> String {
    let job = &context.job.job;
    format!(
        "runner-{}-project-{}-job-{}",
        job.runner_id, job.project_id, job.id
    )
}
