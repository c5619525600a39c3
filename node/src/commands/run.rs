//! `vk run`: one command in a fresh microVM.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use tokio::sync::mpsc;
use vk_driver::{Command, CommandEnd, CommandIo, Stdin, TerminalSize, run_command};
use vk_oci::{PullEvent, PullPolicy};
use vk_text::chain;

use crate::cli::HostArgs;
use crate::exit::{self, Status};
use crate::log::print_error;
use crate::progress::Progress;
use crate::pull_progress::PullProgress;
use crate::signals;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk run --cpus 1 --mem 512M --env NAME=vk local/default -- bash -c 'echo \"$NAME\"'
  vk run --shell local/default

Exit status: the command's own; 127 or 126 if it is not there or is no program, 125 if the VM could not run it,
5 if it was cancelled.")]
pub(crate) struct RunArgs {
    /// Image to boot
    #[arg(value_name = "IMAGE")]
    image: String,
    /// vCPUs [default: 2, or what the host has if less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Memory: <n>G or <n>M [default: 2G]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    mem: Option<u32>,
    /// Most processes and threads, at least 32 [default: one for each 512 KiB of the VM's memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pids: Option<u32>,
    /// Set a variable; may be given several times
    #[arg(long = "env", value_name = "K=V", value_parser = OsStringValueParser::new().try_map(parse_variable))]
    env: Vec<(OsString, OsString)>,
    /// When to look for the image in its registry: always, if-not-present or never [default: the configured
    /// pull_policy, or if-not-present]
    #[arg(long, value_name = "POLICY")]
    pull: Option<PullPolicy>,
    /// Platform of the image, such as linux/amd64 [default: the guest's]
    #[arg(long, value_name = "PLATFORM", value_parser = super::parse_platform)]
    platform: Option<String>,
    /// User, or user:group, instead of the image's
    #[arg(long, short = 'u', value_name = "USER")]
    user: Option<String>,
    /// Working folder instead of the image's; made if it is missing
    #[arg(long, short = 'w', value_name = "DIR", value_parser = OsStringValueParser::new().try_map(parse_folder))]
    workdir: Option<OsString>,
    /// Program instead of the image's entry point; an empty one for none
    #[arg(long, value_name = "PROGRAM")]
    entrypoint: Option<OsString>,
    /// Give the command this terminal; without a command, open the image's shell on it
    #[arg(long)]
    shell: bool,
    /// The command and its arguments: handed to the image's entry point, if it has one [default: the image's own]
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn parse_folder(path: OsString) -> Result<OsString, &'static str> {
    if Path::new(&path).is_absolute() {
        Ok(path)
    } else {
        Err("expected an absolute path")
    }
}

/// Reads `KEY=VALUE`, whatever bytes they are.
fn parse_variable(text: OsString) -> Result<(OsString, OsString), &'static str> {
    let mut key = text.into_vec();
    match key.iter().position(|byte| *byte == b'=') {
        Some(end @ 1..) => {
            let value = key.split_off(end + 1);
            key.truncate(end);
            Ok((OsString::from_vec(key), OsString::from_vec(value)))
        }
        _ => Err("expected KEY=VALUE"),
    }
}

fn parse_memory(text: &str) -> Result<u32, String> {
    vk_text::memory_mib(text)
        .ok_or_else(|| "expected a whole number followed by G or M, such as 2G or 512M".to_owned())
}

/// Runs the command.
pub(crate) async fn run(host: &HostArgs, mut args: RunArgs) -> Status {
    let terminal = match args.shell.then(Terminal::of_this_process).transpose() {
        Ok(terminal) => terminal,
        Err(error) => {
            print_error(&format!("--shell: {error}"));
            return exit::USAGE;
        }
    };
    if terminal.is_some()
        && let Some(kind) = std::env::var_os("TERM")
    {
        // One that was asked for counts.
        args.env.insert(0, ("TERM".into(), kind));
    }
    let host = match host.open() {
        Ok(host) => host,
        Err(status) => return status,
    };
    let cancel = match signals::cancel() {
        Ok(cancel) => cancel,
        Err(error) => {
            print_error(&format!("cannot catch signals: {error}"));
            return exit::NOT_RUN;
        }
    };
    let mut command = Command::new(&args.image, args.command);
    command.image.platform = args.platform;
    command.image.own_policies = args.pull.into_iter().collect();
    command.entrypoint = args.entrypoint;
    command.env = args.env;
    command.user = args.user;
    command.working_dir = args.workdir;
    command.shell = args.shell;
    command.terminal = terminal.as_ref().and_then(Terminal::size);
    command.size.cpus = args.cpus;
    command.size.memory_mib = args.mem;
    command.size.pids = args.pids;
    let progress = StartProgress::new();
    let resized = terminal.as_ref().map_or_else(no_sizes, Terminal::sizes);
    let mut raw = None;
    let mut limits = Vec::new();
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let io = CommandIo {
        stdin: stdin(args.shell),
        stdout: &mut stdout,
        stderr: &mut stderr,
        cancel: &cancel,
        resized,
        pulling: &|event| progress.show(&event),
        booted: &mut || {
            progress.clear();
            // Not before the VM is up: until then Ctrl-C ends vk.
            raw = terminal.as_ref().and_then(|terminal| terminal.raw().ok());
        },
        limited: &mut |limit| limits.push(limit),
    };
    let end = run_command(&host, command, io).await;
    drop(raw);
    progress.clear();
    for limit in limits {
        print_error(&limit.line("the option --mem", "the option --pids"));
    }
    match end {
        Ok(CommandEnd::Exited(code)) => Status(u8::try_from(code).unwrap_or(u8::MAX)),
        Ok(CommandEnd::Canceled) => exit::CANCELED,
        Ok(CommandEnd::OutputClosed) => exit::OUTPUT_CLOSED,
        Err(error) => {
            print_error(&chain(&error));
            let code = error.shell_code().and_then(|code| u8::try_from(code).ok());
            code.map_or(exit::NOT_RUN, Status)
        }
    }
}

/// What is seen until the VM is up: a pull, if there is one, and the boot.
struct StartProgress {
    boot: Mutex<Option<Progress>>,
    pull: PullProgress,
    is_pulling: AtomicBool,
}

impl StartProgress {
    fn new() -> Self {
        Self {
            boot: Mutex::new(Some(Progress::start("booting the VM"))),
            pull: PullProgress::new(),
            is_pulling: AtomicBool::new(false),
        }
    }

    /// Nothing is shown for an image that is there.
    fn show(&self, event: &PullEvent<'_>) {
        if matches!(event, PullEvent::Pulling { .. } | PullEvent::Waiting) {
            self.is_pulling.store(true, Ordering::Relaxed);
            self.end_boot();
        }
        if self.is_pulling.load(Ordering::Relaxed) || matches!(event, PullEvent::Warning(_)) {
            self.pull.show(event);
        }
    }

    fn end_boot(&self) {
        let mut boot = self.boot.lock().unwrap_or_else(PoisonError::into_inner);
        boot.take();
    }

    fn clear(&self) {
        self.end_boot();
        self.pull.clear();
    }
}

fn no_sizes() -> mpsc::Receiver<TerminalSize> {
    mpsc::channel(1).1
}

/// Standard input, unless it is a terminal: without a terminal in the guest, a line typed here would only be taken
/// away from the shell around vk.
fn stdin(on_terminal: bool) -> Stdin {
    if !on_terminal && io::stdin().is_terminal() {
        Stdin::None
    } else {
        Stdin::Reader(Box::new(tokio::io::stdin()))
    }
}
