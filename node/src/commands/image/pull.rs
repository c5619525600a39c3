//! `vk image pull`

use clap::Args;
use serde_json::json;
use vk_oci::{ImageStore, PullPolicy, PullRequest, StoredImage};

use super::store::{failed, open, print};
use crate::cli::HostArgs;
use crate::exit::{self, Status};
use crate::log::print_error;
use crate::pull_progress::PullProgress;
use crate::signals;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk image pull debian:12 registry.example.com/team/build:1.2

Logins come from Docker's configuration ($DOCKER_CONFIG or ~/.docker/config.json, with its credential helpers).
Standard output names each image with its digest.

Exit status: 0 if all images are there, 2 bad usage or configuration, 3 if one could not be had, 5 if it was
cancelled.")]
pub(crate) struct PullArgs {
    /// Images, as Docker names them
    #[arg(value_name = "IMAGE", required = true)]
    names: Vec<String>,
    /// Platform of the image [default: the guest's, linux/amd64]
    #[arg(long, value_name = "OS/ARCH", value_parser = crate::commands::parse_platform)]
    platform: Option<String>,
    /// When the registry is asked: always, if-not-present or never; several are tried in order
    #[arg(long = "policy", value_name = "POLICY", default_value = "always")]
    policies: Vec<PullPolicy>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) async fn run(host: &HostArgs, args: &PullArgs) -> Status {
    let cancel = match signals::cancel() {
        Ok(cancel) => cancel,
        Err(error) => {
            print_error(&format!("cannot catch signals: {error}"));
            return exit::SYSTEM;
        }
    };
    let store = match open(host) {
        Ok(store) => store,
        Err(status) => return status,
    };
    tokio::select! {
        status = pull(&store, args) => status,
        _ = cancel.requested() => exit::CANCELED,
    }
}

async fn pull(store: &ImageStore, args: &PullArgs) -> Status {
    let mut status = exit::SUCCESS;
    let mut pulled = Vec::new();
    for name in &args.names {
        let request = PullRequest {
            own_policies: args.policies.clone(),
            platform: args.platform.clone(),
            ..PullRequest::new(name, PullPolicy::Always)
        };
        let progress = PullProgress::new();
        let image = store.ensure(&request, &|event| progress.show(&event)).await;
        progress.clear();
        match image {
            Ok(image) if args.json => pulled.push(to_json(&image)),
            Ok(image) => print(&format!("{} {}\n", image.reference(), image.digest())),
            Err(error) => status = failed(&error),
        }
    }
    if args.json {
        print(&format!("{:#}\n", serde_json::Value::Array(pulled)));
    }
    status
}

fn to_json(image: &StoredImage) -> serde_json::Value {
    json!({
        "reference": image.reference().to_string(),
        "digest": image.digest().to_string(),
        "platform": image.platform(),
        "rootfs": image.rootfs().display().to_string(),
    })
}
