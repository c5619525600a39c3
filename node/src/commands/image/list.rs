//! `vk image ls`

use clap::Args;
use indicatif::{HumanBytes, HumanDuration};
use vk_oci::StoredSummary;

use super::store::{failed, name, open, print, short, to_json};
use crate::cli::HostArgs;
use crate::exit::{self, Status};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk image ls --json

Exit status: 0, 2 bad usage or configuration, 3 if the images cannot be listed.")]
pub(crate) struct ListArgs {
    /// Print JSON; `last_used` is in seconds since 1970
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(host: &HostArgs, args: &ListArgs) -> Status {
    let store = match open(host) {
        Ok(store) => store,
        Err(status) => return status,
    };
    let images = match store.list() {
        Ok(images) => images,
        Err(error) => return failed(&error),
    };
    if args.json {
        let images = images.iter().map(to_json).collect();
        print(&format!("{:#}\n", serde_json::Value::Array(images)));
    } else {
        print(&table(&images));
    }
    exit::SUCCESS
}

fn table(images: &[StoredSummary]) -> String {
    let width = images
        .iter()
        .map(|image| name(image).len())
        .max()
        .unwrap_or(0);
    let width = width.max("IMAGE".len());
    let mut text = format!(
        "{:12}  {:width$}  {:14}  {:>10}  LAST USED\n",
        "ID", "IMAGE", "PLATFORM", "SIZE"
    );
    for image in images {
        let size = HumanBytes(image.disk_bytes).to_string();
        let used = if image.in_use {
            "now".to_owned()
        } else {
            let age = image.last_used.elapsed().unwrap_or_default();
            format!("{} ago", HumanDuration(age))
        };
        text += &format!(
            "{:12}  {:width$}  {:14}  {size:>10}  {used}\n",
            short(&image.id),
            name(image),
            image.platform
        );
    }
    text
}
