//! The job's image: this host's or a registry's, and what the trace says of it (gitlab-runner, wire §5.2).

use super::io::StageIo;
use crate::guest::RootImage;
use crate::job::context::{JobContext, system};
use crate::job::order::StageFailure;
use vk_oci::{PullEvent, PullPolicy, PullRequest};
use vk_text::chain;
use vk_trace::Output;

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
    let progress = |event: PullEvent<'_>| {
        if let Some(line) = line(name, &event) {
            io.output.send_now(line);
        }
    };
    let image = tokio::select! {
        found = RootImage::find(&context.host, &request, &progress) => found,
        _ = io.stop.stopped() => return Err(system("the image's pull was stopped".to_owned())),
    };
    let image = image.map_err(|error| StageFailure::new(error.failure(), chain(&error)))?;
    if let Some(digest) = image.digest() {
        let line = format!("Using image {} with digest {digest} ...", image.name());
        io.output.send(Output::Own(line)).await;
    }
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

/// What the trace says of an event: GitLab Runner's words where it has some.
fn line(image: &str, event: &PullEvent<'_>) -> Option<Output> {
    let own = |line: String| Some(Output::Own(line));
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
        PullEvent::Warning(text) => Some(Output::Warning((*text).to_owned())),
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
        PullEvent::Failed { policy, cause } => Some(Output::Warning(format!(
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
                Output::Own(
                    "Using effective pull policy of [always never] for container a:1".into()
                ),
                Output::Own("Attempt #2: Trying \"never\" pull policy".into()),
                Output::Own(
                    "Using locally found image version due to \"if-not-present\" pull policy"
                        .into()
                ),
            ]
        );
    }
}
