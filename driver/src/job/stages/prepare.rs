//! `prepare_executor`: refuses what cannot be run, boots the VM.

use std::sync::Arc;

use vk_hub_proto::job::Failure;

use super::io::{StageIo, StageOutput};
use crate::agent::FailureKind;
use crate::guest::{Guest, GuestSpec};
use crate::images::DEFAULT_IMAGE;
use crate::job::context::{JobContext, configuration, system};
use crate::job::image_process::ImageProcess;
use crate::job::machine::StageFailure;
use crate::report::chain;
use crate::root_image::RootImage;
use crate::size::VmSize;

/// Runs the stage.
pub(super) async fn run(context: &Arc<JobContext>, mut io: StageIo) -> Result<(), StageFailure> {
    refuse_services(context)?;
    refuse_platform(context)?;
    let size = context
        .size_request()?
        .within(context.host.limits())
        .map_err(|error| configuration(error.to_string()))?;
    let name = image_name(context);
    let VmSize { cpus, memory_mib } = size;
    let line = format!(
        "Using vk executor with image {name}, {cpus} vCPUs, {memory_mib} MiB of memory ..."
    );
    io.out.send(StageOutput::Own(line)).await;
    let image = find_image(context, &name)?;
    let process = ImageProcess::new(
        image.defaults().clone(),
        context.job.image.as_ref(),
        context.environment.variables(),
    );
    let spec = GuestSpec {
        image,
        size,
        hostname: hostname(context),
    };
    let booted = tokio::select! {
        booted = Guest::boot(&context.host, spec) => booted,
        _ = io.stop.stopped() => return Err(system("the VM was stopped while it booted".to_owned())),
    };
    let guest = Arc::new(booted.map_err(|error| system(chain(&error)))?);
    context.guest_is_up(Arc::clone(&guest));
    make_folders(context, &guest, &process).await?;
    context.process_is(process);
    Ok(())
}

fn find_image(context: &JobContext, name: &str) -> Result<RootImage, StageFailure> {
    let images = context
        .host
        .images()
        .map_err(|error| system(chain(&error)))?;
    RootImage::local(&images, name)
        .map_err(|error| StageFailure::new(Failure::ImagePull, chain(&error)))
}

/// Makes the folders that must be there before the first script: the job's, for a user who could not make them, and
/// the image's working folder, as Docker does.
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
        make_folder(guest, folder, process.user()).await?;
    }
    match process.working_dir() {
        Some(folder) => make_folder(guest, folder, None).await,
        None => Ok(()),
    }
}

async fn make_folder(guest: &Guest, path: &str, owner: Option<&str>) -> Result<(), StageFailure> {
    guest
        .make_folder(path, owner)
        .await
        .map_err(|error| match error.kind() {
            Some(FailureKind::UnknownUser | FailureKind::BadRequest) => {
                configuration(chain(&error))
            }
            _ => system(chain(&error)),
        })
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

/// Nor may a job run on another platform and go green.
fn refuse_platform(context: &JobContext) -> Result<(), StageFailure> {
    let image = context.job.image.as_ref();
    if image.is_none_or(|image| image.platform.is_none()) {
        return Ok(());
    }
    Err(configuration(
        "the job sets image:docker:platform, which vk does not honour yet: take it out of the job"
            .to_owned(),
    ))
}

/// The guest's host name: what GitLab Runner's Docker executor calls a job's container.
pub(super) fn hostname(context: &JobContext) -> String {
    let job = &context.job.job;
    format!(
        "runner-{}-project-{}-job-{}",
        job.runner_id, job.project_id, job.id
    )
}
