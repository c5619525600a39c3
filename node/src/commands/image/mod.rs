//! `vk image`: the images from registries that this host keeps.

mod collect;
mod list;
mod pull;
mod remove;
mod store;

use clap::Subcommand;

use crate::cli::HostArgs;
use crate::exit::Status;

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Pulls images
    Pull(pull::PullArgs),
    /// Lists this host's images
    Ls(list::ListArgs),
    /// Removes images
    Rm(remove::RemoveArgs),
    /// Removes images that were not used for long, until the others fit
    Gc(collect::CollectArgs),
}

/// Runs the command.
pub(crate) async fn run(host: &HostArgs, command: ImageCommand) -> Status {
    match command {
        ImageCommand::Pull(args) => pull::run(host, &args).await,
        ImageCommand::Ls(args) => list::run(host, &args),
        ImageCommand::Rm(args) => remove::run(host, &args),
        ImageCommand::Gc(args) => collect::run(host, &args),
    }
}
