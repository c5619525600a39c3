//! `vk-agent serve`: the agent without a guest.
//!
//! It runs commands as the calling user on the calling system, so it is a tool for tests, best in namespaces
//! of their own. Where root starts it, its clients are root.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use vk_agent_proto::{AGENT_PORT, READY_PORT, Ready, bridge};

use crate::agent::{Agent, Ending};
use crate::cgroups::Cgroups;
use crate::processes::Processes;
use crate::server;

const USAGE: &str = "usage: vk-agent serve --listen-unix PATH [--cgroup DIR|none]

Serves the guest agent's protocol on the unix socket PATH, each connection opened with the line
`CONNECT 1025` as through a microVM's vsock. If something listens on PATH_1024, it is told when the agent is
ready. --cgroup names a cgroup2 folder below which commands get their cgroups; with none (the default) a
command's processes are found by their session.

  vk-agent serve --listen-unix /tmp/agent.sock";

/// Why a rehearsal ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RehearsalError {
    #[error("{USAGE}")]
    Usage,
    #[error("cannot serve on {}", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("cannot use the cgroup folder {}", path.display())]
    Cgroup { path: PathBuf, source: io::Error },
    #[error("cannot start")]
    Start(#[source] io::Error),
    #[error("the listener on the ready port does not fit")]
    Ready(#[source] server::ConnectionError),
}

/// Serves until it is told to shut down.
///
/// # Errors
///
/// [`RehearsalError`].
pub(crate) fn run(args: impl Iterator<Item = OsString>) -> Result<(), RehearsalError> {
    let options = Options::parse(args).ok_or(RehearsalError::Usage)?;
    let processes = Processes::start().map_err(RehearsalError::Start)?;
    // Orphans of commands come to us, as they do to PID 1.
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|errno| RehearsalError::Start(errno.into()))?;
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let cgroups = match options.cgroup {
        None => None,
        Some(path) => {
            Some(open_cgroups(&path).map_err(|source| RehearsalError::Cgroup { path, source })?)
        }
    };
    let agent = Agent::new(processes, cgroups, PathBuf::from("/"), None, Ending::Exit)
        .map_err(RehearsalError::Start)?;
    let path = options.listen;
    let failed = |source| RehearsalError::Socket {
        path: path.clone(),
        source,
    };
    let listener = UnixListener::bind(&path).map_err(failed)?;
    tell_ready(&path)?;
    server::serve(&Arc::new(agent), || accept(&listener)).map_err(failed)
}

fn open_cgroups(path: &Path) -> io::Result<Cgroups> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let folder = nix::fcntl::open(path, flags, Mode::empty())?;
    Ok(Cgroups::new(folder, None))
}

struct Options {
    listen: PathBuf,
    cgroup: Option<PathBuf>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        args.next().filter(|word| word == "serve")?;
        let mut listen = None;
        let mut cgroup = None;
        while let Some(flag) = args.next() {
            let value = PathBuf::from(args.next()?);
            match flag.to_str() {
                Some("--listen-unix") => listen = Some(value),
                Some("--cgroup") => cgroup = Some(value),
                _ => return None,
            }
        }
        Some(Self {
            listen: listen?,
            cgroup: cgroup.filter(|path| path != Path::new("none")),
        })
    }
}

fn tell_ready(path: &Path) -> Result<(), RehearsalError> {
    let Ok(host) = UnixStream::connect(bridge::listener_path(path, READY_PORT)) else {
        return Ok(());
    };
    let host = File::from(OwnedFd::from(host));
    // The clock of this machine is not ours to set.
    server::report_ready(&host, &Ready::default(), |_| Ok(())).map_err(RehearsalError::Ready)
}

/// The next connection whose first line asks for the agent's port; others are dropped.
fn accept(listener: &UnixListener) -> io::Result<OwnedFd> {
    loop {
        let (mut stream, _) = listener.accept()?;
        if read_connect(&mut stream) == Some(AGENT_PORT)
            && stream
                .write_all(bridge::ok_line(AGENT_PORT).as_bytes())
                .is_ok()
        {
            return Ok(stream.into());
        }
    }
}

fn read_connect(stream: &mut UnixStream) -> Option<u32> {
    let mut line = Vec::new();
    while line.len() < bridge::MAX_LINE && line.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        line.extend(byte);
    }
    bridge::parse_connect(&line)
}
