//! Connections: hello, request, operation, reply.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use vk_agent_proto::frame::{read_frame, write_json};
use vk_agent_proto::{
    FailureKind, FrameError, Hello, HelloError, Kind, Ready, Reply, Request, TreeSummary,
};

use crate::agent::{Agent, Ending};
use crate::failure::Failure;
use crate::{archive, exec, power, stats, tree};

/// How long the host may take over its hello and request.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// How long the host may take to hang up on a guest that is to power off.
const HANG_UP: Duration = Duration::from_secs(2);

/// Serves each connection that `accept` gives on its own thread, for ever.
///
/// # Errors
///
/// What `accept` says when it fails for good.
pub(crate) fn serve(
    agent: &Arc<Agent>,
    mut accept: impl FnMut() -> io::Result<OwnedFd>,
) -> io::Result<()> {
    loop {
        let connection = match accept() {
            Ok(connection) => File::from(connection),
            Err(error) if is_passing(&error) => {
                // Descriptors or memory ran short; what runs now will give some back.
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Err(error) => return Err(error),
        };
        let agent = Arc::clone(agent);
        let thread = thread::Builder::new().stack_size(crate::STACK);
        // No thread, no service: the host sees the connection close.
        let _ = thread.spawn(move || serve_one(&agent, &connection));
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::EINTR)
    )
}

/// Why a connection came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("cannot speak with the host")]
    Frame(#[from] FrameError),
    #[error("the host does not fit this guest")]
    Hello(#[from] HelloError),
    #[error("the host closed the connection before it said anything")]
    Closed,
}

fn serve_one(agent: &Agent, host: &File) {
    let request = match handshake(host, &Hello::ours(), HANDSHAKE)
        .and_then(|_| receive::<Request>(host, Kind::Request))
    {
        Ok(request) => request,
        Err(ConnectionError::Frame(
            error @ (FrameError::Json { .. }
            | FrameError::Unexpected { .. }
            | FrameError::TooLong { .. }
            | FrameError::UnknownKind(_)),
        )) => {
            let failure = Failure::new(FailureKind::BadRequest, error_line(&error));
            // It may be gone.
            let _ = reply(host, &Reply::Failed(failure.into()));
            return;
        }
        Err(_) => return,
    };
    if set_timeout(host, None).is_err() {
        return;
    }
    let answer = match request {
        Request::Exec(request) => match exec::run(agent, host, &request) {
            Ok(Some(answer)) => answer,
            Ok(None) => return,
            Err(failure) => Reply::Failed(failure.into()),
        },
        Request::PutTree(request) => match tree::put(agent, host, &request) {
            Ok(summary) => Reply::Done(summary),
            Err(failure) => return refuse(host, failure),
        },
        Request::GetTree(request) => match tree::get(host, &request) {
            Ok(summary) => Reply::Done(summary),
            Err(failure) => Reply::Failed(failure.into()),
        },
        Request::Archive(request) => match archive::make(agent, host, &request) {
            Ok(summary) => Reply::Archived(summary),
            Err(failure) => Reply::Failed(failure.into()),
        },
        Request::Extract(request) => match archive::open(agent, host, &request) {
            Ok(summary) => Reply::Extracted(summary),
            Err(failure) => return refuse(host, failure),
        },
        Request::Stats => match stats::read(agent) {
            Ok(stats) => Reply::Stats(stats),
            Err(failure) => Reply::Failed(failure.into()),
        },
        Request::Shutdown => {
            let told = reply(host, &Reply::Done(TreeSummary::default()));
            // What is under way when the machine stops is lost: the host hangs up once it has the reply.
            if told.is_ok() && set_timeout(host, Some(HANG_UP)).is_ok() {
                drain(host);
            }
            match agent.ending {
                Ending::PowerOff => power::off(),
                Ending::Exit => std::process::exit(0),
            }
        }
    };
    // If the host is gone there is nobody to tell.
    let _ = reply(host, &answer);
}

/// Tells a host that is still sending that there is no use in it.
fn refuse(host: &File, failure: Failure) {
    let told = reply(host, &Reply::Failed(failure.into()));
    if told.is_ok() && set_timeout(host, Some(HANDSHAKE)).is_ok() {
        drain(host);
    }
}

/// Reads and forgets what the host sends until it closes, having read our reply. Closing first could lose it that
/// reply.
fn drain(mut host: &File) {
    // Whatever ends it, it is over.
    let _ = io::copy(&mut host, &mut io::sink());
}

/// An error and its sources on one line.
pub(crate) fn error_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line.push_str(": ");
        line.push_str(&error.to_string());
        source = error.source();
    }
    line
}

/// Exchanges hellos; the host's.
fn handshake(host: &File, ours: &Hello, within: Duration) -> Result<Hello, ConnectionError> {
    set_timeout(host, Some(within)).map_err(FrameError::Io)?;
    write_json(&mut &*host, Kind::Hello, ours)?;
    let theirs: Hello = receive(host, Kind::Hello)?;
    theirs.check()?;
    Ok(theirs)
}

/// Tells the host that the guest is ready, over a connection to its ready port: hellos, the clock, the reply.
///
/// # Errors
///
/// [`ConnectionError`] if the host is not the one this agent was made for.
pub(crate) fn report_ready(
    host: &File,
    ready: &Ready,
    set_clock: impl FnOnce(u64) -> io::Result<()>,
) -> Result<(), ConnectionError> {
    let theirs = handshake(host, &Hello::ours(), HANDSHAKE)?;
    if let Some(epoch_ns) = theirs.epoch_ns {
        set_clock(epoch_ns).map_err(FrameError::Io)?;
    }
    reply(host, &Reply::Ready(ready.clone()))?;
    Ok(())
}

fn receive<T: serde::de::DeserializeOwned>(host: &File, kind: Kind) -> Result<T, ConnectionError> {
    let frame = read_frame(&mut &*host)?.ok_or(ConnectionError::Closed)?;
    Ok(frame.json(kind)?)
}

fn reply(host: &File, answer: &Reply) -> Result<(), FrameError> {
    write_json(&mut &*host, Kind::Reply, answer)?;
    (&mut &*host).flush().map_err(FrameError::Io)
}

fn set_timeout(socket: &File, within: Option<Duration>) -> io::Result<()> {
    let within = within.map_or(0, |time| {
        i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
    });
    setsockopt(
        socket,
        sockopt::ReceiveTimeout,
        &TimeVal::milliseconds(within),
    )?;
    Ok(())
}
