//! One exec from request to reply.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::fchown;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use vk_agent_proto::{Exec, Exited, FailureKind, MAX_DATA, Reply, TerminalSize};

use super::containment::Containment;
use super::input::Input;
use super::lifecycle::Lifecycle;
use super::pump::{Outputs, Pump};
use super::request::Command;
use crate::agent::Agent;
use crate::cgroups::Cgroups;
use crate::failure::Failure;
use crate::house::{House, Stream};
use crate::processes::Process;
use crate::sys::{ChildError, ChildSpec, Step, Terminal, await_exec, open_terminal};
use crate::users::User;

/// Open files a command may have, as Docker gives its containers.
const MAX_FILES: u64 = 1 << 20;

/// Runs `exec` for the host at the other end of `host`, and says how it ended; none if the host went away.
///
/// # Errors
///
/// [`Failure`] if it could not start or the host sent what it may not.
pub(crate) fn run(agent: &Agent, host: &File, exec: &Exec) -> Result<Option<Reply>, Failure> {
    let _counted = agent.count_exec();
    let command = Command::new(exec, Path::new("/etc"))?;
    let containment = Containment::new(agent.cgroups.as_ref())
        .map_err(|error| Failure::io("cannot make a cgroup for the command", &error))?;
    let Started {
        process,
        input,
        outputs,
    } = start(agent, exec, command, &containment)?;
    let lifecycle = Lifecycle::new(Duration::from_millis(exec.kill_grace_ms));
    let mut house = agent.house.as_ref().and_then(House::lend);
    let house = house.as_deref_mut().map(<[Stream; 2]>::as_mut_slice);
    let mut pump = Pump::new(
        host,
        process,
        &containment,
        lifecycle,
        input,
        outputs,
        house,
    );
    let ended = pump
        .run()
        .map_err(|error| Failure::io("cannot follow the command", &error))?;
    let violation = pump.into_violation();
    let met = containment.finish();
    match (ended, violation) {
        (_, Some(violation)) => Err(Failure::new(
            FailureKind::BadRequest,
            format!("the command was killed: {violation}"),
        )),
        (None, None) => Ok(None),
        (Some(status), None) => Ok(Some(Reply::Exited(Exited {
            status,
            oom_kills: met.oom_kills,
            oom_killed: met.oom_killed,
            process_limit: met.process_limit,
        }))),
    }
}

struct Started {
    process: Process,
    input: Input,
    outputs: Outputs,
}

/// A command's streams: its own ends, and the agent's.
struct Streams {
    theirs: [OwnedFd; 3],
    input: Input,
    outputs: Outputs,
}

fn start(
    agent: &Agent,
    exec: &Exec,
    command: Command,
    containment: &Containment,
) -> Result<Started, Failure> {
    let Streams {
        theirs,
        input,
        outputs,
    } = match exec.terminal {
        Some(size) => on_terminal(size, command.user.ids.uid)
            .map_err(|error| Failure::io("cannot make a terminal for the command", &error))?,
        None => piped(agent, exec.stdin, &command.user)
            .map_err(|error| Failure::io("cannot make a pipe for the command", &error))?,
    };
    let spec = ChildSpec {
        programs: command.programs,
        argv: command.argv,
        envp: command.envp,
        cwd: command.cwd,
        ids: agent.ids_to_become(command.user.ids),
        streams: theirs,
        terminal: exec.terminal.is_some(),
        cgroup: containment.folder(),
        cgroup_namespace: agent.cgroups.as_ref().and_then(Cgroups::namespace),
        proc: agent.protected.then_some(agent.proc()),
        max_files: MAX_FILES.min(agent.max_files),
    };
    let (process, report) = agent
        .processes
        .spawn(&spec)
        .map_err(|error| Failure::io("cannot start a process", &error))?;
    await_exec(report).map_err(|error| refused(exec, &error))?;
    Ok(Started {
        process,
        input,
        outputs,
    })
}

/// Streams that are pipes, which belong to who runs the command: programs open `/dev/stdout` and `/proc/self/fd/1` by name.
/// `/dev/null` stays root's.
fn piped(agent: &Agent, wants_input: bool, user: &User) -> io::Result<Streams> {
    let owner = agent.ids_to_become(user.ids.clone()).map(|ids| ids.uid);
    let (stdout, their_stdout) = wide_pipe()?;
    let (stderr, their_stderr) = wide_pipe()?;
    fchown(&their_stdout, owner, None)?;
    fchown(&their_stderr, owner, None)?;
    let (their_stdin, input) = if wants_input {
        let (theirs, ours) = wide_pipe()?;
        fchown(&theirs, owner, None)?;
        (
            OwnedFd::from(theirs),
            Input::new(OwnedFd::from(ours).into())?,
        )
    } else {
        (OwnedFd::from(agent.null.try_clone()?), Input::none())
    };
    Ok(Streams {
        theirs: [their_stdin, their_stdout.into(), their_stderr.into()],
        input,
        outputs: Outputs {
            stdout: OwnedFd::from(stdout).into(),
            stderr: Some(OwnedFd::from(stderr).into()),
            terminal: None,
        },
    })
}

/// Streams that are one terminal, which belongs to `uid`: programs open `/dev/tty` and `/dev/pts/…` again.
fn on_terminal(size: TerminalSize, uid: u32) -> io::Result<Streams> {
    let Terminal { master, slave } = open_terminal(size.columns, size.rows)?;
    fchown(&slave, Some(uid), None)?;
    Ok(Streams {
        input: Input::terminal(master.try_clone()?)?,
        outputs: Outputs {
            stdout: master.try_clone()?,
            stderr: None,
            terminal: Some(master),
        },
        theirs: [slave.try_clone()?, slave.try_clone()?, slave],
    })
}

/// A pipe that holds a whole data frame, so that the command and we take turns less often.
fn wide_pipe() -> io::Result<(io::PipeReader, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    // A kernel that gives us less room is only slower.
    let _ = i32::try_from(MAX_DATA).map(|size| fcntl(&reader, FcntlArg::F_SETPIPE_SZ(size)));
    Ok((reader, writer))
}

fn refused(exec: &Exec, ChildError { step, error }: &ChildError) -> Failure {
    let program = exec
        .argv
        .first()
        .map_or_else(Default::default, |program| program.to_string_lossy());
    match (step, error.raw_os_error()) {
        (Step::Folder, _) => {
            let cwd = exec.cwd.as_deref().unwrap_or("/".as_ref()).display();
            Failure::new(
                FailureKind::NoSuchPath,
                format!("cannot enter the working folder `{cwd}`: {error}"),
            )
        }
        (Step::Exec, Some(libc::ENOENT)) if program.contains('/') => Failure::new(
            FailureKind::CommandNotFound,
            format!("`{program}`, or the interpreter it names, does not exist in the image"),
        ),
        (Step::Exec, Some(libc::ENOENT)) => Failure::new(
            FailureKind::CommandNotFound,
            format!("no `{program}` in the image's PATH"),
        ),
        (Step::Exec, Some(libc::E2BIG)) => Failure::new(
            FailureKind::BadRequest,
            format!("the arguments and variables of `{program}` are too long for the kernel"),
        ),
        (Step::Exec, _) => Failure::new(
            FailureKind::NotExecutable,
            format!("cannot execute `{program}`: {error}"),
        ),
        (Step::User, _) => {
            let user = exec.user.as_deref().unwrap_or("root");
            Failure::io(format_args!("cannot become user `{user}`"), error)
        }
        (Step::Setup, _) => Failure::io("cannot prepare the new process", error),
    }
}
