//! `prepare_executor`: refuses what cannot be run, boots the VM.

use std::sync::Arc;

use vk_hub_proto::job::{Failure, Image};

use super::io::{StageIo, StageOutput};
use crate::guest::{BootError, Guest, GuestSpec};
use crate::images::{DEFAULT_IMAGE, ImageError};
use crate::job::context::{JobContext, configuration, system};
use crate::job::machine::StageFailure;
use crate::report::chain;
use crate::size::VmSize;

/// Runs the stage.
pub(super) async fn run(context: &Arc<JobContext>, mut io: StageIo) -> Result<(), StageFailure> {
    refuse_services(context)?;
    refuse_image_options(context)?;
    let size = context
        .size_request()?
        .within(context.host.limits())
        .map_err(|error| configuration(error.to_string()))?;
    let image = image_name(context);
    let spec = GuestSpec {
        image: image.clone(),
        size,
        hostname: hostname(context),
    };
    let VmSize { cpus, memory_mib } = size;
    let line = format!(
        "Using vk executor with image {image}, {cpus} vCPUs, {memory_mib} MiB of memory ..."
    );
    io.out.send(StageOutput::Own(line)).await;
    let booted = tokio::select! {
        booted = Guest::boot(&context.host, spec) => booted,
        _ = io.stop.stopped() => return Err(system("the VM was stopped while it booted".to_owned())),
    };
    let guest = booted.map_err(|error| StageFailure::new(class_of(&error), chain(&error)))?;
    context.guest_is_up(Arc::new(guest));
    Ok(())
}

fn class_of(error: &BootError) -> Failure {
    match error {
        BootError::Image(ImageError::Registry { .. } | ImageError::Unknown { .. }) => {
            Failure::ImagePull
        }
        _ => Failure::System,
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

/// Nor may a job run as another user, on another platform or without its entry point and go green.
fn refuse_image_options(context: &JobContext) -> Result<(), StageFailure> {
    let Some(image) = &context.job.image else {
        return Ok(());
    };
    let entrypoint = image.entrypoint.iter().any(|word| !word.is_empty());
    let option = match image {
        Image { user: Some(_), .. } => "image:docker:user",
        Image {
            platform: Some(_), ..
        } => "image:docker:platform",
        _ if entrypoint => "image:entrypoint",
        _ => return Ok(()),
    };
    Err(configuration(format!(
        "the job sets {option}, which vk does not honour yet: take it out of the job"
    )))
}

/// The guest's host name: what GitLab Runner's Docker executor calls a job's container.
fn hostname(context: &JobContext) -> String {
    let job = &context.job.job;
    format!(
        "runner-{}-project-{}-job-{}",
        job.runner_id, job.project_id, job.id
    )
}
