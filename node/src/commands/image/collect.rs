//! `vk image gc`

use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use vk_text::parse_size;

use super::store::{failed, name, open, print, short, to_json};
use crate::cli::HostArgs;
use crate::exit::{self, Status};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk image gc --max-size 10G

The image that was used longest ago goes first; one that a VM uses stays. This also happens after each pull, with
the configured size.

Exit status: 0, 2 bad usage or configuration, 3 if the images cannot be removed.")]
pub(crate) struct CollectArgs {
    /// What all images together may take, such as 10G; 0 removes all [default: the configured store_size, or 50G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "expected a size such as 10G or 512M".to_owned())
}

/// Runs the command.
pub(super) fn run(host: &HostArgs, args: &CollectArgs) -> Status {
    let store = match open(host) {
        Ok(store) => store,
        Err(status) => return status,
    };
    let collected = match store.collect(args.max_size) {
        Ok(collected) => collected,
        Err(error) => return failed(&error),
    };
    if args.json {
        let removed: Vec<_> = collected.removed.iter().map(to_json).collect();
        let left = collected.left_bytes;
        print(&format!(
            "{:#}\n",
            json!({"removed": removed, "left_bytes": left})
        ));
        return exit::SUCCESS;
    }
    let mut freed = 0;
    for image in &collected.removed {
        freed += image.disk_bytes;
        let size = HumanBytes(image.disk_bytes);
        print(&format!(
            "removed {} {}, {size}\n",
            short(&image.id),
            name(image)
        ));
    }
    print(&format!(
        "freed {}; {} are left\n",
        HumanBytes(freed),
        HumanBytes(collected.left_bytes)
    ));
    exit::SUCCESS
}
