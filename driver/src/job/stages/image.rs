//! The job's image: this host's or a registry's, and what the trace says of it (gitlab-runner, wire §5.2).

use tokio::sync::mpsc;

use super::io::{StageIo, StageOut, StageOutput};
use crate::guest::RootImage;
use crate::job::context::{JobContext, system};
use crate::job::order::StageFailure;
use vk_oci::{PullEvent, PullPolicy, PullRequest};
use vk_text::chain;

/// What a job gets that names no policy, where the operator names none (gitlab-runner, wire §5.2).
const DEFAULT_POLICY: PullPolicy = PullPolicy::Always;

/// Variable with logins of registries, in the form of Docker's `config.json`.
const AUTH_VARIABLE: &str = "DOCKER_AUTH_CONFIG";

/// The image called `name`, variables expanded.
pub(super) async fn find(
    context: &JobContext,
    name: &str,
    io: &mut StageIo,
) -> Result<RootImage, StageFailure> {
    let request = request(context, name);
    let (told, mut to_tell) = mpsc::unbounded_channel();
    let progress = |event: PullEvent<'_>| {
        if let Some(line) = line(name, &event) {
            // The other end outlives the pull.
            let _ = told.send(line);
        }
    };
    let find = RootImage::find(&context.host, &request, &progress);
    tokio::pin!(find);
    let found = loop {
        tokio::select! {
            biased;
            line = to_tell.recv() => {
                if let Some(line) = line {
                    io.out.send(line).await;
                }
            }
            found = &mut find => break found,
            _ = io.stop.stopped() => return Err(system("the image's pull was stopped".to_owned())),
        }
    };
    while let Ok(line) = to_tell.try_recv() {
        io.out.send(line).await;
    }
    let image = found.map_err(|error| StageFailure::new(error.failure(), chain(&error)))?;
    tell_digest(&image, &io.out).await;
    Ok(image)
}

fn request(context: &JobContext, name: &str) -> PullRequest {
    let variables = context.environment.variables();
    let image = context.job.image.as_ref();
    let logins = variables.value(AUTH_VARIABLE);
    PullRequest {
        policies: image.map_or_else(Vec::new, |image| image.pull_policy.clone()),
        platform: image
            .and_then(|image| image.platform.as_deref())
            .map(|platform| variables.expand(platform))
            .filter(|platform| !platform.is_empty()),
        docker_auth_config: (!logins.is_empty()).then(|| logins.into()),
        registry_credentials: context.job.registry_credentials.clone(),
        ..PullRequest::new(name, DEFAULT_POLICY)
    }
}

async fn tell_digest(image: &RootImage, out: &StageOut) {
    if let Some(digest) = image.digest() {
        let line = format!("Using image {} with digest {digest} ...", image.name());
        out.send(StageOutput::Own(line)).await;
    }
}

/// What the trace says of an event: GitLab Runner's words where it has some.
fn line(image: &str, event: &PullEvent<'_>) -> Option<StageOutput> {
    let own = |line: String| Some(StageOutput::Own(line));
    match event {
        PullEvent::Policies(policies) => {
            let names: Vec<_> = policies.iter().map(|policy| policy.name()).collect();
            let names = names.join(" ");
            own(format!(
                "Using effective pull policy of [{names}] for container {image}"
            ))
        }
        PullEvent::Attempt { number, policy } => own(format!(
            "Attempt #{number}: Trying \"{policy}\" pull policy"
        )),
        PullEvent::Login { source } => {
            own(format!("Authenticating with credentials from {source}"))
        }
        PullEvent::Warning(text) => Some(StageOutput::Warning((*text).to_owned())),
        PullEvent::Pulling { platform: None, .. } => {
            own(format!("Pulling docker image {image} ..."))
        }
        PullEvent::Pulling {
            platform: Some(platform),
            ..
        } => own(format!(
            "Pulling docker image {image} for platform {platform} ..."
        )),
        // Nothing is said of `never`, which leaves no choice.
        PullEvent::Found(policy @ PullPolicy::IfNotPresent) => own(format!(
            "Using locally found image version due to \"{policy}\" pull policy"
        )),
        PullEvent::Present => own(format!("Image {image} is up to date")),
        PullEvent::Waiting => own(format!("Waiting for another pull of {image} ...")),
        PullEvent::Layers(layers) => {
            let bytes: u64 = layers.iter().map(|(_, bytes)| bytes).sum();
            let (count, mib) = (layers.len(), bytes >> 20);
            own(format!("Downloading {count} layers, {mib} MiB ..."))
        }
        PullEvent::Failed { policy, cause } => Some(StageOutput::Warning(format!(
            "Failed to pull image with policy \"{policy}\": {}",
            chain(*cause)
        ))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §5.2.
    #[test]
    fn policies_and_attempts_read_as_gitlab_runners() {
        let policies = [PullPolicy::Always, PullPolicy::Never];
        let lines = [
            line("a:1", &PullEvent::Policies(&policies)),
            line(
                "a:1",
                &PullEvent::Attempt {
                    number: 2,
                    policy: PullPolicy::Never,
                },
            ),
            line("a:1", &PullEvent::Found(PullPolicy::IfNotPresent)),
        ];

        assert_eq!(
            lines.map(Option::unwrap),
            [
                StageOutput::Own(
                    "Using effective pull policy of [always never] for container a:1".into()
                ),
                StageOutput::Own("Attempt #2: Trying \"never\" pull policy".into()),
                StageOutput::Own(
                    "Using locally found image version due to \"if-not-present\" pull policy"
                        .into()
                ),
            ]
        );
    }
}
