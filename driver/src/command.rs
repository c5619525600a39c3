//! One command in a fresh microVM: what `vk run` does.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::guest::{BootError, Guest, GuestSpec};
use crate::guest::{FIND_SHELL, RootImage, RootImageError, from_root};
use crate::guest::{LimitMet, SizeRequest, TooSmall};
use crate::host::Host;
use crate::job::{Cancel, CancelMode, CancelRequests};
use vk_agent_client::{AgentError, ExecEvent, ExecRequest, Stdin, TerminalSize};
use vk_oci::{Progress, PullPolicy, PullRequest};

/// How long a cancelled command may take to end by itself; Docker's own grace.
const GRACE: Duration = Duration::from_secs(10);

/// A command and the VM it runs in. Its words, variables and folder may be any bytes without NUL.
///
/// ```
/// use vk_driver::{Command, SizeRequest};
///
/// let mut command = Command::new("local/default", ["uname", "-a"]);
/// command.size.memory_mib = Some(512);
/// assert_eq!(command.size, SizeRequest { cpus: None, memory_mib: Some(512), ..Default::default() });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Command {
    /// The image.
    pub image: PullRequest,
    /// What is handed to the image's entry point, or else the program and its arguments; the image's own command if
    /// empty.
    pub argv: Vec<OsString>,
    /// Program instead of the image's entry point; an empty one leaves none.
    pub entrypoint: Option<OsString>,
    /// Variables over those of a login and of the image.
    pub env: Vec<(OsString, OsString)>,
    /// User, with an optional group, instead of the image's.
    pub user: Option<String>,
    /// Working folder instead of the image's; made if it is missing.
    pub working_dir: Option<OsString>,
    /// Whether an empty `argv` means a shell of the image rather than its command.
    pub shell: bool,
    /// Size of the terminal that the command gets; none if its streams are pipes.
    pub terminal: Option<TerminalSize>,
    /// Size of the VM.
    pub size: SizeRequest,
}

impl Command {
    /// `argv` in `image`, looked for in its registry if it is not here; nothing else is asked for.
    pub fn new(image: &str, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            image: PullRequest::new(image, PullPolicy::IfNotPresent),
            argv: argv.into_iter().map(Into::into).collect(),
            entrypoint: None,
            env: Vec::new(),
            user: None,
            working_dir: None,
            shell: false,
            terminal: None,
            size: SizeRequest::default(),
        }
    }
}

/// The command's streams, and how it is cancelled.
pub struct CommandIo<'a> {
    /// Standard input.
    pub stdin: Stdin,
    /// Takes standard output.
    pub stdout: &'a mut (dyn AsyncWrite + Send + Unpin),
    /// Takes standard error.
    pub stderr: &'a mut (dyn AsyncWrite + Send + Unpin),
    /// Cancels the command.
    pub cancel: &'a Cancel,
    /// Brings new sizes of the terminal.
    pub resized: mpsc::Receiver<TerminalSize>,
    /// Is told how the image comes.
    pub pulling: Progress<'a>,
    /// Is called when the VM is up.
    pub booted: &'a mut (dyn FnMut() + Send),
    /// Is told of limits of the VM that the command met, when it has ended.
    pub limited: &'a mut (dyn FnMut(LimitMet) + Send),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// By itself, or by a signal in the guest: the code a shell would report.
    Exited(i32),
    /// It was cancelled before it ended.
    Canceled,
    /// Nobody reads its output any more: it was ended.
    OutputClosed,
}

/// Why a command could not be run to its end, in words; its sources say more.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CommandError(#[from] Cause);

#[derive(Debug, thiserror::Error)]
enum Cause {
    /// The VM would be too small.
    #[error(transparent)]
    Size(#[from] TooSmall),
    /// The image cannot be had.
    #[error(transparent)]
    Image(#[from] RootImageError),
    /// The VM could not be made.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// Neither the caller nor the image names a command.
    #[error("the image \"{image}\" names no command to run: give one behind `--`")]
    NoCommand {
        /// The image.
        image: String,
    },
    /// The agent refused, or its answer made no sense.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The VM ended under the command.
    #[error("{cause}")]
    MachineLost {
        /// How it ended.
        cause: String,
    },
    /// The command's output could not be passed on.
    #[error("cannot write the command's output")]
    Output(#[source] io::Error),
}

impl CommandError {
    /// The code that a shell would answer, if the command is at fault and not the VM.
    #[must_use]
    pub fn shell_code(&self) -> Option<i32> {
        match &self.0 {
            Cause::Agent(error) => error.shell_code(),
            _ => None,
        }
    }
}

/// Runs a command to its end. The VM is gone when this returns.
///
/// # Errors
///
/// [`CommandError`]. A command that fails is no error.
pub async fn run_command(
    host: &Host,
    spec: Command,
    io: CommandIo<'_>,
) -> Result<CommandEnd, CommandError> {
    Ok(boot_and_run(host, spec, io).await?)
}

async fn boot_and_run(
    host: &Host,
    spec: Command,
    mut io: CommandIo<'_>,
) -> Result<CommandEnd, Cause> {
    let mut cancel = io.cancel.requests();
    let size = spec.size.within(host.limits())?;
    let image = tokio::select! {
        image = RootImage::find(host, &spec.image, io.pulling) => image?,
        _ = cancel.next() => return Ok(CommandEnd::Canceled),
    };
    let request = request(&image, spec)?;
    let volumes = image.defaults().volumes.clone();
    let guest_spec = GuestSpec {
        image,
        size,
        hostname: "vk".to_owned(),
        builds: false,
    };
    let guest = tokio::select! {
        booted = Guest::boot(host, guest_spec) => booted?,
        _ = cancel.next() => return Ok(CommandEnd::Canceled),
    };
    (io.booted)();
    let end = tokio::select! {
        end = run_in(&guest, &volumes, request, &mut io, &mut cancel) => end,
        cause = guest.lost() => Err(Cause::MachineLost { cause }),
    };
    let end = match end {
        // The agent stopped answering because its VM ended: that is the cause to report.
        Err(Cause::Agent(error)) => match guest.lost_within_moments().await {
            Some(cause) => Err(Cause::MachineLost { cause }),
            None => Err(Cause::Agent(error)),
        },
        end => end,
    };
    guest.end().await;
    end
}

async fn run_in(
    guest: &Guest,
    volumes: &[String],
    request: ExecRequest,
    io: &mut CommandIo<'_>,
    cancel: &mut CancelRequests,
) -> Result<CommandEnd, Cause> {
    let volumes = volumes.iter().map(OsString::from);
    for folder in volumes.chain(request.cwd.clone()) {
        guest.make_folder(folder, None).await?;
    }
    let stdin = std::mem::replace(&mut io.stdin, Stdin::None);
    let mut exec = tokio::select! {
        exec = guest.agent().exec(request, stdin) => exec?,
        _ = cancel.next() => return Ok(CommandEnd::Canceled),
    };
    let control = exec.control();
    // Output that waits for its reader. No more is read meanwhile: the command is what has to wait.
    let mut held = Held::default();
    let mut canceled = false;
    loop {
        let event = tokio::select! {
            biased;
            mode = cancel.next() => {
                canceled = true;
                match mode {
                    CancelMode::Graceful => control.cancel(),
                    CancelMode::Immediate => return Ok(CommandEnd::Canceled),
                }
                continue;
            }
            Some(size) = io.resized.recv() => {
                control.resize(size);
                continue;
            }
            written = held.write_some(if held.is_error { &mut *io.stderr } else { &mut *io.stdout }),
                if !held.is_empty() =>
            {
                match written {
                    Ok(()) => continue,
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        return Ok(CommandEnd::OutputClosed);
                    }
                    Err(error) => return Err(Cause::Output(error)),
                }
            }
            event = exec.next_event(), if held.is_empty() => event?,
        };
        match event {
            ExecEvent::Stdout(bytes) => {
                held = Held {
                    bytes,
                    is_error: false,
                }
            }
            ExecEvent::Stderr(bytes) => {
                held = Held {
                    bytes,
                    is_error: true,
                }
            }
            ExecEvent::Exited(exited) => {
                LimitMet::of(&exited, guest.size())
                    .into_iter()
                    .for_each(&mut *io.limited);
                return Ok(if canceled {
                    CommandEnd::Canceled
                } else {
                    CommandEnd::Exited(exited.status.shell_code())
                });
            }
        }
    }
}

/// The command as the image and the caller want it, as `docker run` would put it together.
fn request(image: &RootImage, spec: Command) -> Result<ExecRequest, Cause> {
    let defaults = image.defaults();
    let mut argv = Vec::new();
    if spec.shell && spec.argv.is_empty() {
        argv.extend(["sh", "-c", FIND_SHELL].map(OsString::from));
    } else {
        let own_command = spec.argv.is_empty() && spec.entrypoint.is_none();
        match spec.entrypoint {
            Some(program) if program.is_empty() => {}
            Some(program) => argv.push(program),
            None => argv.extend(defaults.entrypoint.iter().map(OsString::from)),
        }
        if own_command {
            argv.extend(defaults.cmd.iter().map(OsString::from));
        } else {
            argv.extend(spec.argv);
        }
    }
    if argv.is_empty() {
        return Err(Cause::NoCommand {
            image: image.name().to_owned(),
        });
    }
    let env = defaults.env.iter();
    let env = env.map(|(name, value)| (name.into(), value.into()));
    Ok(ExecRequest {
        argv,
        env: env.chain(spec.env).collect(),
        cwd: spec
            .working_dir
            .map(|folder| from_root(Path::new(&folder)).into_os_string())
            .or_else(|| defaults.working_dir.as_ref().map(Into::into)),
        user: spec.user.or_else(|| defaults.user.clone()),
        kill_grace_ms: GRACE.as_secs() * 1000,
        terminal: spec.terminal,
        stdin: false,
    })
}

/// Output on its way to one of the two streams.
#[derive(Default)]
struct Held {
    bytes: Bytes,
    is_error: bool,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes some of it. Dropped before it resolves, it has written nothing.
    async fn write_some(&mut self, out: &mut (dyn AsyncWrite + Send + Unpin)) -> io::Result<()> {
        let count = out.write(&self.bytes).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.advance(count);
        if self.bytes.is_empty() {
            out.flush().await
        } else {
            Ok(())
        }
    }
}
