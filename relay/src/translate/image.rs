//! Images of the job and its services (gitlab-runner, wire §1.8.2; aliases: wire §5.3).

use vk_hub_proto::job::Image;

use super::error::Refusal;
use super::variables::variable;
use crate::response::{self, ExecutorOptions};

/// Ports out of their range are left out: [`check_ports`] refuses them.
pub(super) fn image(image: response::Image) -> Image {
    let ports = image.ports.iter().filter_map(port).collect();
    let ExecutorOptions {
        docker, kubernetes, ..
    } = image.executor_opts;
    Image {
        name: image.name,
        aliases: image
            .alias
            .split(|character: char| character == ',' || character.is_whitespace())
            .filter(|alias| !alias.is_empty())
            .map(str::to_owned)
            .collect(),
        command: image.command,
        entrypoint: image.entrypoint,
        ports,
        variables: image.variables.into_iter().map(variable).collect(),
        pull_policy: image.pull_policy,
        platform: docker.platform.filter(|platform| !platform.is_empty()),
        user: docker
            .user
            .filter(|user| !user.is_empty())
            .or(kubernetes.user)
            .filter(|user| !user.is_empty()),
    }
}

/// `path` is where the image stands in the response.
pub(super) fn check_ports(image: &response::Image, path: &str) -> Result<(), Refusal> {
    let bad = image
        .ports
        .iter()
        .enumerate()
        .find(|(_, entry)| port(entry).is_none());
    match bad {
        None => Ok(()),
        Some((position, port)) => Err(Refusal::Port {
            path: format!("{path}.ports[{position}].number"),
            number: port.number,
        }),
    }
}

fn port(port: &response::Port) -> Option<u16> {
    u16::try_from(port.number).ok().filter(|number| *number > 0)
}

/// Refuses options that are not known, in GitLab Runner's words (gitlab-runner, wire §1.8.2 and wire §5.7), the job's
/// image first.
pub(super) fn check_executor_options<'i>(
    images: impl IntoIterator<Item = &'i response::Image>,
) -> Result<(), Refusal> {
    let problems: Vec<String> = images
        .into_iter()
        .flat_map(|image| unsupported(&image.executor_opts))
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Refusal::ExecutorOptions(problems.join("\n")))
    }
}

fn unsupported(options: &ExecutorOptions) -> Vec<String> {
    let lists = [
        (&options.unknown, "executor_opts", "docker kubernetes"),
        (&options.docker.unknown, "docker executor", "platform user"),
        (&options.kubernetes.unknown, "kubernetes executor", "user"),
    ];
    lists
        .into_iter()
        .filter(|(unknown, ..)| !unknown.is_empty())
        .map(|(unknown, place, supported)| {
            format!(
                "Unsupported \"image\" options [{}] for \"{place}\"; supported options are [{supported}]",
                unknown.join(" ")
            )
        })
        .collect()
}
