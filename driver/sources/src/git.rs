//! One git at a time, shut off from the host's and the user's settings.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::error::{CheckoutError, GitFailure};
use super::group::Group;
use super::lines::{LineSplitter, Piece, Rewriter, SourceLine, Stream};
use super::watch::{Bound, Broken};

/// Transports that git may use, over all settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// HTTP and HTTPS.
    Http,
    /// A path on this host.
    File,
}

/// How long output may keep coming after git itself has ended, and how long a killed git may take to go.
const GRACE: Duration = Duration::from_secs(1);

/// Lines of standard error kept to tell what went wrong.
const KEPT_ERRORS: usize = 50;

/// Longest standard output of a command whose answer is read, in bytes: a listing of a local repository's
/// refs is the longest.
const MAX_ANSWER: usize = 64 << 20;

/// Runs git for one checkout.
pub(super) struct Git<'a> {
    /// Program folders and proxies.
    pub(super) environment: &'a [(OsString, OsString)],
    /// git's home: a private folder with the config file in it.
    pub(super) home: PathBuf,
    /// Where git runs, unless a command says otherwise.
    pub(super) project: PathBuf,
    /// Every process of the checkout.
    pub(super) group: Group,
    /// What is replaced in git's lines.
    pub(super) rewriter: Rewriter,
    /// Most bytes that git may allocate at once.
    pub(super) max_alloc_bytes: u64,
    /// How much of the disk the checkout may take.
    pub(super) bound: Bound,
    /// Where lines go.
    pub(super) lines: &'a mut (dyn FnMut(SourceLine) + Send),
    /// Resolves when the checkout is to end.
    pub(super) cancel: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
}

/// One git command.
pub(super) struct GitCommand {
    subcommand: &'static str,
    arguments: Vec<OsString>,
    settings: Vec<(OsString, OsString)>,
    transport: Transport,
    directory: Option<PathBuf>,
    input: Option<PathBuf>,
    is_bounded: bool,
    stall: Option<Duration>,
}

impl GitCommand {
    pub(super) fn new(subcommand: &'static str) -> Self {
        Self {
            subcommand,
            arguments: Vec::new(),
            settings: Vec::new(),
            transport: Transport::Http,
            directory: None,
            input: None,
            is_bounded: false,
            stall: None,
        }
    }

    pub(super) fn subcommand(&self) -> &'static str {
        self.subcommand
    }

    pub(super) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(super) fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// A setting for this command alone, over every config file.
    pub(super) fn setting(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.settings.push((key.into(), value.as_ref().to_owned()));
        self
    }

    /// Reads this file as its standard input.
    pub(super) fn input(mut self, file: &Path) -> Self {
        self.input = Some(file.to_path_buf());
        self
    }

    /// It may bring more than the disk is to take, and is watched.
    pub(super) fn bounded(mut self) -> Self {
        self.is_bounded = true;
        self
    }

    /// Ends a bounded command when nothing comes to the disk for so long.
    pub(super) fn stall_after(mut self, stall: Duration) -> Self {
        self.stall = Some(stall);
        self
    }

    pub(super) fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Runs in `directory` instead of the project.
    pub(super) fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_path_buf());
        self
    }
}

/// How a command that may fail ended.
pub(super) struct Ended {
    /// Its exit code; 128 plus the signal's number when a signal ended it.
    pub(super) exit_code: i32,
    /// What its standard error tells.
    pub(super) failure: GitFailure,
    /// Last line of its standard error.
    pub(super) last_error: String,
}

impl Git<'_> {
    /// Gives out a line of our own.
    pub(super) fn print(&mut self, line: SourceLine) {
        (self.lines)(line);
    }

    /// Runs a command, giving out its lines.
    ///
    /// # Errors
    ///
    /// When it cannot be run, fails, or is cancelled.
    pub(super) async fn run(&mut self, command: GitCommand) -> Result<(), CheckoutError> {
        let subcommand = command.subcommand;
        let ended = self.attempt(command).await?;
        match ended.exit_code {
            0 => Ok(()),
            exit_code => Err(CheckoutError::Git {
                command: subcommand,
                failure: ended.failure,
                exit_code,
            }),
        }
    }

    /// Runs a command that may fail, giving out its lines.
    pub(super) async fn attempt(&mut self, command: GitCommand) -> Result<Ended, CheckoutError> {
        let child = self.spawn(&command)?;
        let mut errors = VecDeque::new();
        let Self {
            group,
            rewriter,
            lines,
            cancel,
            bound,
            ..
        } = self;
        let mut splitters = [LineSplitter::default(), LineSplitter::default()];
        let ends = Ends {
            group,
            cancel: cancel.as_mut(),
            bound: command.is_bounded.then_some(&*bound),
            command: &command,
        };
        let status = follow(child, ends, |stream, bytes| {
            let [out, err] = &mut splitters;
            let splitter = match stream {
                Stream::Out => out,
                Stream::Err => err,
            };
            let each = |piece: Piece<'_>| {
                let text = rewriter.rewrite(piece.text);
                if stream == Stream::Err {
                    keep(&mut errors, &text);
                }
                let ends = piece.ends;
                lines(SourceLine { stream, text, ends });
            };
            match bytes {
                Some(bytes) => splitter.push(bytes, |piece| rewriter.tail(piece), each),
                None => splitter.finish(each),
            }
            Ok(())
        })
        .await?;
        Ok(ended(status, &errors))
    }

    /// Runs a command silently and gives its standard output.
    pub(super) async fn answer(
        &mut self,
        command: GitCommand,
    ) -> Result<(Ended, Vec<u8>), CheckoutError> {
        let mut answer = Vec::new();
        let ended = self
            .read(command, |bytes| {
                if answer.len() + bytes.len() > MAX_ANSWER {
                    return Err(io::Error::other("its answer is too long"));
                }
                answer.extend_from_slice(bytes);
                Ok(())
            })
            .await?;
        Ok((ended, answer))
    }

    /// Runs a command silently and hands its standard output over as it comes. An error of `take` ends the
    /// command, and the checkout.
    pub(super) async fn read(
        &mut self,
        command: GitCommand,
        mut take: impl FnMut(&[u8]) -> io::Result<()> + Send,
    ) -> Result<Ended, CheckoutError> {
        let child = self.spawn(&command)?;
        let mut errors = VecDeque::new();
        let mut splitter = LineSplitter::default();
        let ends = Ends {
            group: &self.group,
            cancel: self.cancel.as_mut(),
            bound: command.is_bounded.then_some(&self.bound),
            command: &command,
        };
        let status = follow(child, ends, |stream, bytes| {
            match (stream, bytes) {
                (Stream::Out, bytes) => take(bytes.unwrap_or_default())?,
                (Stream::Err, Some(bytes)) => {
                    splitter.push(bytes, |_| 0, |piece| keep(&mut errors, piece.text));
                }
                (Stream::Err, None) => splitter.finish(|piece| keep(&mut errors, piece.text)),
            }
            Ok(())
        })
        .await?;
        Ok(ended(status, &errors))
    }

    /// Makes the config file of a repository include another one.
    pub(super) async fn include(
        &mut self,
        config: &Path,
        included: &str,
    ) -> Result<(), CheckoutError> {
        let home = self.home.clone();
        let command = GitCommand::new("config")
            .arg("--file")
            .arg(config)
            .args(["--add", "include.path", included])
            .directory(&home);
        self.run(command).await
    }

    fn spawn(&self, command: &GitCommand) -> Result<Child, CheckoutError> {
        let directory = command.directory.as_deref().unwrap_or(&self.project);
        let input = match &command.input {
            Some(file) => File::open(file)
                .map_err(CheckoutError::io("open", file))?
                .into(),
            None => Stdio::null(),
        };
        let mut process = Command::new("git");
        process
            .arg(command.subcommand)
            .args(&command.arguments)
            .current_dir(directory)
            .env_clear()
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .envs(self.environment())
            .env(
                "GIT_ALLOW_PROTOCOL",
                match command.transport {
                    Transport::Http => "http:https",
                    Transport::File => "file",
                },
            )
            .env("GIT_CONFIG_COUNT", command.settings.len().to_string())
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(self.group.id())
            .kill_on_drop(true);
        for (index, (key, value)) in command.settings.iter().enumerate() {
            process.env(format!("GIT_CONFIG_KEY_{index}"), key);
            process.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        process.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if directory.is_dir() => CheckoutError::GitMissing,
            _ => CheckoutError::io("run git in", directory)(source),
        })
    }

    fn environment(&self) -> [(&'static str, OsString); 17] {
        let home = self.home.clone().into_os_string();
        let ceiling = self.home.parent().unwrap_or(&self.home);
        [
            // Messages are read, so they stay untranslated.
            ("LC_ALL", "C".into()),
            ("HOME", home),
            // The private folder may itself lie in somebody's repository.
            ("GIT_CEILING_DIRECTORIES", ceiling.into()),
            ("XDG_CONFIG_HOME", "/nonexistent".into()),
            ("GIT_CONFIG_GLOBAL", self.home.join(".gitconfig").into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_ATTR_NOSYSTEM", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GCM_INTERACTIVE", "Never".into()),
            ("GIT_LFS_SKIP_SMUDGE", "1".into()),
            // Tickets of this host's user are not for servers of a repository's choice.
            ("KRB5CCNAME", "FILE:/nonexistent".into()),
            ("GIT_PAGER", "cat".into()),
            ("GIT_ALLOC_LIMIT", self.max_alloc_bytes.to_string().into()),
            // The reflog would name this host's user otherwise.
            ("GIT_COMMITTER_NAME", REFLOG_NAME.into()),
            ("GIT_COMMITTER_EMAIL", REFLOG_EMAIL.into()),
            ("GIT_AUTHOR_NAME", REFLOG_NAME.into()),
            ("GIT_AUTHOR_EMAIL", REFLOG_EMAIL.into()),
        ]
    }
}

/// Who the reflog of a checkout names.
const REFLOG_NAME: &str = "vk";
const REFLOG_EMAIL: &str = "vk@localhost";

fn keep(errors: &mut VecDeque<Vec<u8>>, line: &[u8]) {
    if errors.len() == KEPT_ERRORS {
        errors.pop_front();
    }
    errors.push_back(line.to_vec());
}

fn ended(status: ExitStatus, errors: &VecDeque<Vec<u8>>) -> Ended {
    let by_signal = || 128 + status.signal().unwrap_or_default();
    Ended {
        exit_code: status.code().unwrap_or_else(by_signal),
        failure: GitFailure::of(&errors.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        last_error: errors
            .back()
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .unwrap_or_default(),
    }
}

/// What ends a command before its time.
struct Ends<'a> {
    group: &'a Group,
    cancel: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    bound: Option<&'a Bound>,
    command: &'a GitCommand,
}

impl Ends<'_> {
    async fn come(&mut self) -> CheckoutError {
        let broken = async {
            match self.bound {
                Some(bound) => bound.broken(self.command.stall).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancel.as_mut() => CheckoutError::Cancelled,
            broken = broken => match broken {
                Broken::Outgrown(error) => error,
                Broken::Stalled => CheckoutError::Git {
                    command: self.command.subcommand,
                    failure: GitFailure::Unreachable,
                    exit_code: 128 + Signal::SIGKILL as i32,
                },
            },
        }
    }
}

/// Hands a child's output to `take` (`None` at a stream's end) until the child has ended and its output too,
/// or the output of something it left behind has had its time.
async fn follow(
    mut child: Child,
    mut ends: Ends<'_>,
    mut take: impl FnMut(Stream, Option<&[u8]>) -> io::Result<()> + Send,
) -> Result<ExitStatus, CheckoutError> {
    let failed = CheckoutError::io("follow", Path::new("git"));
    let mut out = Source::new(Stream::Out, child.stdout.take());
    let mut err = Source::new(Stream::Err, child.stderr.take());
    let mut status = None;
    let mut last_call = Instant::now();
    let Ends { group, bound, .. } = ends;
    let mut end = pin!(ends.come());
    let result = loop {
        if let (Some(status), true, true) = (status, out.ended(), err.ended()) {
            break Ok(status);
        }
        let step = tokio::select! {
            biased;
            error = end.as_mut() => {
                group.kill();
                let gone = async {
                    let _ = child.wait().await;
                    while matches!(out.read().await, Ok(1..)) {}
                    while matches!(err.read().await, Ok(1..)) {}
                };
                let _ = tokio::time::timeout(GRACE, gone).await;
                return Err(error);
            }
            read = out.read(), if !out.ended() => read.and_then(|read| out.give(read, &mut take)),
            read = err.read(), if !err.ended() => read.and_then(|read| err.give(read, &mut take)),
            waited = child.wait(), if status.is_none() => {
                last_call = Instant::now() + GRACE;
                waited.map(|ended| status = Some(ended))
            }
            () = tokio::time::sleep_until(last_call), if status.is_some() => {
                out.close(&mut take).and_then(|()| err.close(&mut take))
            }
        };
        if let Err(source) = step {
            break Err(source);
        }
    };
    let status = result.map_err(|source| {
        group.kill();
        failed(source)
    })?;
    // What comes fast is there before anybody has looked.
    if let Some(bound) = bound {
        bound.check().await?;
    }
    Ok(status)
}

/// One of a child's two output pipes.
struct Source<R> {
    stream: Stream,
    pipe: Option<R>,
    buffer: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> Source<R> {
    fn new(stream: Stream, pipe: Option<R>) -> Self {
        Self {
            stream,
            pipe,
            buffer: vec![0; 16 << 10].into_boxed_slice(),
        }
    }

    fn ended(&self) -> bool {
        self.pipe.is_none()
    }

    async fn read(&mut self) -> io::Result<usize> {
        match &mut self.pipe {
            Some(pipe) => pipe.read(&mut self.buffer).await,
            None => Ok(0),
        }
    }

    /// Hands out what the last read brought.
    fn give(
        &mut self,
        read: usize,
        take: &mut impl FnMut(Stream, Option<&[u8]>) -> io::Result<()>,
    ) -> io::Result<()> {
        if read == 0 {
            return self.close(take);
        }
        take(self.stream, self.buffer.get(..read))
    }

    fn close(
        &mut self,
        take: &mut impl FnMut(Stream, Option<&[u8]>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.pipe.take() {
            Some(_) => take(self.stream, None),
            None => Ok(()),
        }
    }
}
