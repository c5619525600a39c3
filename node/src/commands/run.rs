//! `vk run`: one command in a fresh microVM.

use std::io::{self, IsTerminal};

use clap::Args;
use vk_driver::agent::Stdin;
use vk_driver::command::{CommandEnd, CommandIo, CommandSpec, run_command};
use vk_driver::report::chain;
use vk_driver::size::SizeRequest;

use crate::cli::HostArgs;
use crate::exit::{self, Status};
use crate::log::complain;
use crate::progress::Progress;
use crate::signals;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk run --cpus 1 --mem 512M --env NAME=vk local/default -- bash -c 'echo \"$NAME\"'

Exit status: the command's own; 127 or 126 if it is not there or is no program, 125 if the VM could not run it,
5 if it was cancelled.")]
pub(crate) struct RunArgs {
    /// Image to boot; `local/default` so far
    #[arg(value_name = "IMAGE")]
    image: String,
    /// vCPUs [default: 2, or what the host has if less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Memory: <n>G or <n>M [default: 2G]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    mem: Option<u32>,
    /// Set a variable; may be given several times
    #[arg(long = "env", value_name = "K=V", value_parser = super::parse_variable)]
    env: Vec<(String, String)>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

fn parse_memory(text: &str) -> Result<u32, String> {
    vk_driver::job::settings::memory_mib(text)
        .ok_or_else(|| "expected a whole number followed by G or M, such as 2G or 512M".to_owned())
}

/// Runs the command.
pub(crate) async fn run(host: &HostArgs, args: RunArgs) -> Status {
    let cancel = match signals::cancels() {
        Ok(cancel) => cancel,
        Err(error) => {
            complain(&format!("cannot catch signals: {error}"));
            return exit::NOT_RUN;
        }
    };
    let spec = CommandSpec {
        image: args.image,
        argv: args.command,
        env: args.env,
        size: SizeRequest {
            cpus: args.cpus,
            memory_mib: args.mem,
        },
    };
    let mut progress = Progress::start("booting the VM");
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let io = CommandIo {
        stdin: stdin(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        cancel,
        booted: &mut || progress.clear(),
    };
    let end = run_command(&host.open(), spec, io).await;
    progress.clear();
    match end {
        Ok(CommandEnd::Exited(code)) => Status(u8::try_from(code).unwrap_or(u8::MAX)),
        Ok(CommandEnd::Canceled) => exit::CANCELED,
        Err(error) => {
            complain(&chain(&error));
            let code = error.shell_code().and_then(|code| u8::try_from(code).ok());
            code.map_or(exit::NOT_RUN, Status)
        }
    }
}

/// Standard input, unless it is a terminal: without a terminal in the guest, a line typed here would only be taken
/// away from the shell around vk.
fn stdin() -> Stdin {
    if io::stdin().is_terminal() {
        Stdin::None
    } else {
        Stdin::Reader(Box::new(tokio::io::stdin()))
    }
}
