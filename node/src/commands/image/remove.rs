//! `vk image rm`

use clap::Args;
use indicatif::HumanBytes;

use super::store::{failed, name, open, print, short, to_json};
use crate::cli::HostArgs;
use crate::exit::{self, Status};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk image rm registry.example.com/team/build:1.2 3f9a0c1d2e4b

An image that a VM uses stays.

Exit status: 0 if all images were removed, 2 bad usage or configuration, 3 if one was not.")]
pub(crate) struct RemoveArgs {
    /// Images by name, or by the first digits of the id that `vk image ls` shows
    #[arg(value_name = "IMAGE", required = true)]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(host: &HostArgs, args: &RemoveArgs) -> Status {
    let store = match open(host) {
        Ok(store) => store,
        Err(status) => return status,
    };
    let mut status = exit::SUCCESS;
    let mut gone = Vec::new();
    for wanted in &args.names {
        match store.remove(wanted) {
            Ok(removed) => gone.extend(removed),
            Err(error) => status = failed(&error),
        }
    }
    if args.json {
        let images = gone.iter().map(to_json).collect();
        print(&format!("{:#}\n", serde_json::Value::Array(images)));
    } else {
        for image in &gone {
            let size = HumanBytes(image.disk_bytes);
            print(&format!(
                "removed {} {}, {size}\n",
                short(&image.id),
                name(image)
            ));
        }
    }
    status
}
