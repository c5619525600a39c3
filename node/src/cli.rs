//! What can be typed, and which command it means.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use vk_driver::{Config, ConfigError, Host};
use vk_text::chain;

use crate::exit::Status;
use crate::{commands, exit, log, places};

/// Runs GitLab CI jobs and commands in fresh microVMs.
#[derive(Debug, Parser)]
#[command(name = "vk", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    host: HostArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a GitLab job
    #[command(subcommand)]
    Gitlab(GitlabCommand),
    /// Runs a command in a fresh microVM
    Run(commands::run::RunArgs),
    /// Pulls, lists and removes images of registries
    #[command(subcommand)]
    Image(commands::image::ImageCommand),
    /// Tells what this host can do
    Check(commands::check::CheckArgs),
}

#[derive(Debug, Subcommand)]
enum GitlabCommand {
    /// Runs the job of a GitLab job response
    Run(commands::gitlab_run::GitlabRunArgs),
}

/// What every command knows of the host.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// Folder for run files and caches [default: $VK_STATE_DIR, $XDG_STATE_HOME/vk or ~/.local/state/vk]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) state_dir: Option<PathBuf>,
    /// Folder that holds the guest images [default: $VK_IMAGES_DIR, or found beside the vk command]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) images: Option<PathBuf>,
    /// Configuration [default: $XDG_CONFIG_HOME/vk/config.toml or ~/.config/vk/config.toml, if there is one]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// What runs the VM
    #[arg(long, value_enum, default_value_t = Backend::Auto, global = true)]
    pub(crate) backend: Backend,
    /// Say more about what vk does; twice for even more
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

impl HostArgs {
    /// The host that they describe; an exit status, once the error is printed, if the configuration is wrong.
    ///
    /// # Errors
    ///
    /// The status of bad usage.
    pub(crate) fn open(&self) -> Result<Host, Status> {
        let config = self.configuration().map_err(|error| {
            log::print_error(&chain(&error));
            exit::USAGE
        })?;
        let state_dir = self.state_dir.clone().unwrap_or_else(places::state_dir);
        let images_dir = self.images.clone().unwrap_or_else(places::images_dir);
        let host = Host::builder(state_dir, images_dir)
            .backend(self.backend.into())
            .config(config)
            .proxies(places::proxies());
        Ok(match std::env::var_os("PATH") {
            Some(path) => host.search_path(path).build(),
            None => host.build(),
        })
    }

    /// What the operator's configuration says: the file that was named, else the usual one, which need not be there.
    fn configuration(&self) -> Result<Config, ConfigError> {
        let config = match &self.config {
            Some(path) => Config::read(path)?,
            None => match places::config_file().map(|path| Config::read(&path)) {
                Some(Err(error)) if !error.is_missing() => return Err(error),
                Some(Ok(config)) => config,
                Some(Err(_)) | None => Config::default(),
            },
        };
        Ok(match places::docker_config() {
            Some(path) => config.with_docker_config(path),
            None => config,
        })
    }
}

/// `--backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// KVM where it runs guests at full speed, else QEMU's software emulation
    Auto,
    /// KVM, or an error
    Kvm,
    /// QEMU's software emulation
    Qemu,
}

impl From<Backend> for vk_driver::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Auto,
            Backend::Kvm => Self::Kvm,
            Backend::Qemu => Self::Qemu,
        }
    }
}

/// Parses the command line, runs the command, answers its exit status.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors: clap prints them to stdout.
            let status = if error.use_stderr() {
                exit::USAGE
            } else {
                exit::SUCCESS
            };
            return match error.print() {
                Ok(()) => status.into(),
                Err(_) => exit::SYSTEM.into(),
            };
        }
    };
    log::init(cli.host.verbose);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            log::print_error(&format!("cannot start the runtime: {error}"));
            return exit::SYSTEM.into();
        }
    };
    let status = runtime.block_on(async {
        match cli.command {
            Command::Gitlab(GitlabCommand::Run(args)) => {
                commands::gitlab_run::run(&cli.host, args).await
            }
            Command::Image(command) => commands::image::run(&cli.host, command).await,
            Command::Run(args) => commands::run::run(&cli.host, args).await,
            Command::Check(args) => commands::check::run(&cli.host, &args).await,
        }
    });
    // A read of standard input that never ends must not hold the process.
    runtime.shutdown_background();
    status.into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
