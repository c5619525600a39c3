//! The one thread that forks.

use std::io;
use std::process::Command;
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

use nix::unistd::getpid;
use tokio::sync::oneshot;

use super::Child;
use crate::sys;

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{program}`")]
pub struct SpawnError {
    program: String,
    #[source]
    source: io::Error,
}

impl SpawnError {
    /// What the operating system said; `NotFound` if there is no such program.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

struct Request {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts `command` as a child that cannot outlive this process (see the module's page).
///
/// Set standard streams on the command as usual and take piped ones from the [`Child`]. The command's process group is
/// set here. Should the caller give up while it waits, the child is killed.
///
/// # Errors
///
/// The program is missing or cannot be executed, or the system is out of processes or memory.
pub async fn spawn(command: Command) -> Result<Child, SpawnError> {
    let program = command.get_program().to_string_lossy().into_owned();
    request(command)
        .await
        .map_err(|source| SpawnError { program, source })
}

async fn request(command: Command) -> io::Result<Child> {
    let (reply, answer) = oneshot::channel();
    let request = Request { command, reply };
    let gone = || io::Error::other("the thread that starts processes has ended");
    spawner()?.send(request).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

/// The way to the spawner thread, which is started at first use.
fn spawner() -> io::Result<mpsc::Sender<Request>> {
    static SPAWNER: OnceLock<Mutex<Option<mpsc::Sender<Request>>>> = OnceLock::new();

    let mut spawner = SPAWNER
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(sender) = &*spawner {
        return Ok(sender.clone());
    }
    let (sender, requests) = mpsc::channel();
    thread::Builder::new()
        .name("vk-spawner".into())
        .spawn(move || serve(&requests))?;
    Ok(spawner.insert(sender).clone())
}

/// Runs for ever: `spawner` keeps a sender.
fn serve(requests: &mpsc::Receiver<Request>) {
    for request in requests {
        // An answer that is not awaited holds the child: dropping it kills.
        let _ = request.reply.send(start(request.command));
    }
}

fn start(mut command: Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;

    sys::tie_to_parent(&mut command, getpid());
    command.process_group(0);
    Child::watch(command.spawn()?)
}
