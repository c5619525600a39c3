//! A machine run by QEMU, from its start to its end.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::command::{self, Accelerator, Sockets};
use super::error::QemuError;
use super::qmp::{self, Monitor, Reason, ShutdownReason};
use super::tsc;
use crate::config::MachineConfig;
use crate::console::{Console, EndMessage};
use crate::machine::{BoxFuture, EndCause, Machine, MachineEnd, MachineStats};
use crate::stats;
use vk_process::{Child, Exit};
use vk_vsock::{CpuTime, Service, ServiceEnd};

/// The guest's vsock address: the first that is not reserved. Each machine has a vsock of its own, so that all can
/// have the same.
const GUEST_CID: u64 = 3;

/// How long the last output of an ended QEMU may take to arrive.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// How long QEMU may take to set up the machine: some hundred times what it takes on an idle host.
const SETUP_LIMIT: Duration = Duration::from_secs(30);

/// Starts `config`. The guest begins to boot as this returns.
///
/// # Errors
///
/// QEMU is not installed, refuses the machine or hangs, a file is missing, a socket cannot be made.
pub(crate) async fn start(
    config: &MachineConfig,
    accelerator: Accelerator,
) -> Result<Box<dyn Machine>, QemuError> {
    command::check(config)?;
    let vsock_path = config.vsock_path();
    let sockets = Sockets {
        vhost: config.run_dir.join(format!("{}.vhost", config.name)),
        monitor: config.run_dir.join(format!("{}.qmp", config.name)),
    };
    let files = SocketFiles(vec![
        vsock_path.clone(),
        sockets.vhost.clone(),
        sockets.monitor.clone(),
    ]);
    let service = Service::start(GUEST_CID, &vsock_path, &sockets.vhost)?;
    let listener = UnixListener::bind(&sockets.monitor).map_err(socket_error(&sockets.monitor))?;
    let tsc_khz = match accelerator {
        Accelerator::Kvm => 0,
        Accelerator::Tcg => tsc::khz().await,
    };
    let command = command::command(config, accelerator, tsc_khz, &sockets);
    let mut process = Process::spawn(command).await?;
    let monitor = process.set_up(&listener, SETUP_LIMIT).await?;

    let (kill, killed) = watch::channel(());
    let (ended, end) = watch::channel(None);
    let machine = QemuMachine {
        vsock_path,
        process_id: process.child.id(),
        console: process.console.clone(),
        vsock_cpu: service.cpu_time(),
        kill,
        end,
    };
    tokio::spawn(async move {
        let end = supervise(process, service, monitor, killed).await;
        drop(files);
        tracing::debug!(cause = %end, "the VM ended");
        ended.send_replace(Some(end));
    });
    Ok(Box::new(machine))
}

/// Sockets' names, which go when the machine does: one of the same name may follow.
struct SocketFiles(Vec<PathBuf>);

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // Those that were never made, or whose folder is gone, need no removal.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn socket_error(path: &Path) -> impl FnOnce(io::Error) -> QemuError {
    let path = path.to_owned();
    move |source| QemuError::Socket { path, source }
}

async fn greet(listener: &UnixListener) -> io::Result<Monitor> {
    let (stream, _) = listener.accept().await?;
    Monitor::greet(stream).await
}

/// QEMU's process and what it writes.
struct Process {
    child: Child,
    console: Console,
    complaints: Console,
    readers: Vec<JoinHandle<()>>,
    halted: oneshot::Receiver<()>,
}

impl Process {
    async fn spawn(command: Command) -> Result<Self, QemuError> {
        let mut child = vk_process::spawn(command)
            .await
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => QemuError::NotInstalled,
                _ => QemuError::Spawn(error),
            })?;
        let (halt, halted) = oneshot::channel();
        let (console, complaints) = (Console::default(), Console::default());
        let mut readers = Vec::new();
        let stdout = child.take_stdout().map(ChildStdout::from_std);
        if let Some(stdout) = stdout.transpose().map_err(QemuError::Output)? {
            readers.push(tokio::spawn(console.clone().read(stdout, || {
                let _ = halt.send(());
            })));
        }
        let stderr = child.take_stderr().map(ChildStderr::from_std);
        if let Some(stderr) = stderr.transpose().map_err(QemuError::Output)? {
            readers.push(tokio::spawn(complaints.clone().read(stderr, || {})));
        }
        Ok(Self {
            child,
            console,
            complaints,
            readers,
            halted,
        })
    }

    /// Waits until QEMU has set up the machine, and ends it if it does not.
    async fn set_up(
        &mut self,
        listener: &UnixListener,
        limit: Duration,
    ) -> Result<Monitor, QemuError> {
        let greeting = tokio::select! {
            greeting = timeout(limit, greet(listener)) => greeting,
            exit = self.child.wait() => return Err(self.refused(exit).await),
        };
        match greeting {
            Ok(Ok(monitor)) => Ok(monitor),
            Ok(Err(source)) => {
                // A QEMU that ends closes the socket as well: its end says more.
                match timeout(LAST_OUTPUT, self.child.wait()).await {
                    Ok(exit) => Err(self.refused(exit).await),
                    Err(_) => Err(QemuError::Monitor {
                        message: self.given_up().await,
                        source,
                    }),
                }
            }
            Err(_) => Err(QemuError::Unresponsive {
                limit,
                message: self.given_up().await,
            }),
        }
    }

    /// Why a QEMU that ended by itself has not set up the machine.
    async fn refused(&mut self, exit: Exit) -> QemuError {
        let (_, message) = self.outputs().await;
        let message = if message.is_empty() {
            exit.to_string()
        } else {
            message
        };
        QemuError::Refused { message }
    }

    /// Kills QEMU; what it said.
    async fn given_up(&mut self) -> String {
        self.child.kill().await;
        self.outputs().await.1
    }

    /// The last lines of console and complaints of a process that has ended.
    async fn outputs(&mut self) -> (String, String) {
        for reader in &mut self.readers {
            // A reader that does not end in time has still stored what it read.
            let _ = timeout(LAST_OUTPUT, reader).await;
        }
        (self.console.last_lines(), self.complaints.last_lines())
    }
}

/// Waits for the first thing that ends the machine, and makes sure that it is ended.
async fn supervise(
    mut process: Process,
    mut service: Service,
    monitor: Monitor,
    mut killed: watch::Receiver<()>,
) -> MachineEnd {
    let reason = monitor.reason();
    let cause = tokio::select! {
        _ = process.child.wait() => None,
        // Told so, or the machine was dropped.
        _ = killed.changed() => Some(EndCause::Killed),
        Ok(()) = &mut process.halted => Some(EndCause::Halted),
        fault = fault(&mut service) => Some(EndCause::DeviceFault(fault)),
        () = monitor.watch() => Some(EndCause::VmmUnresponsive(qmp::WAIT_LIMIT)),
    };
    let exit = process.child.kill().await;
    let (console_tail, message) = process.outputs().await;
    let cause = cause.unwrap_or_else(|| natural_cause(exit, &reason, &process.console, message));
    MachineEnd {
        cause,
        console_tail,
    }
}

/// What the guest did to its vsock device; does not return if QEMU hangs up, since its end follows.
async fn fault(service: &mut Service) -> String {
    match service.end().await {
        ServiceEnd::Fault(error) => error.to_string(),
        ServiceEnd::Closed => std::future::pending().await,
    }
}

/// Why QEMU ended without having been told to.
fn natural_cause(exit: Exit, reason: &Reason, console: &Console, message: String) -> EndCause {
    let lost = EndCause::VmmLost { exit, message };
    if exit != Exit::Code(0) {
        return lost;
    }
    let words = console.end_message();
    match (reason.get(), words) {
        (Some(ShutdownReason::GuestShutdown), _) => EndCause::PoweredOff,
        (Some(ShutdownReason::Other), _) => lost,
        (_, Some(EndMessage::Panic(message))) => EndCause::Panicked(message),
        (_, Some(EndMessage::Restart)) => EndCause::Rebooted,
        (_, Some(EndMessage::PowerDown)) => EndCause::PoweredOff,
        (_, Some(EndMessage::Halted) | None) => EndCause::Reset,
    }
}

/// A running QEMU, or one that has ended.
struct QemuMachine {
    vsock_path: PathBuf,
    process_id: u32,
    console: Console,
    vsock_cpu: CpuTime,
    /// Written to, or dropped, to kill.
    kill: watch::Sender<()>,
    end: watch::Receiver<Option<MachineEnd>>,
}

impl Machine for QemuMachine {
    fn vsock_path(&self) -> &Path {
        &self.vsock_path
    }

    fn wait(&self) -> BoxFuture<'_, MachineEnd> {
        let mut end = self.end.clone();
        Box::pin(async move {
            let end = end.wait_for(Option::is_some).await;
            // Without a word the supervisor was dropped with its runtime, which kills QEMU.
            end.ok().and_then(|end| end.clone()).unwrap_or(MachineEnd {
                cause: EndCause::Killed,
                console_tail: self.console.last_lines(),
            })
        })
    }

    fn kill(&self) -> BoxFuture<'_, MachineEnd> {
        self.kill.send_replace(());
        self.wait()
    }

    fn stats(&self) -> Option<MachineStats> {
        if self.end.borrow().is_some() {
            return None;
        }
        let of_vmm = stats::of_process(self.process_id)?;
        Some(MachineStats {
            cpu_time: of_vmm.cpu_time.saturating_add(self.vsock_cpu.get()),
            ..of_vmm
        })
    }

    fn console_tail(&self) -> String {
        self.console.last_lines()
    }
}

impl fmt::Debug for QemuMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QemuMachine")
            .field("process_id", &self.process_id)
            .field("vsock_path", &self.vsock_path)
            .field("end", &*self.end.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::net::UnixStream;

    use super::*;

    /// A process in QEMU's place, and the socket of its monitor.
    async fn process(script: &str) -> (Process, UnixListener, PathBuf, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let monitor = folder.path().join("qmp");
        let listener = UnixListener::bind(&monitor).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let process = Process::spawn(command).await.unwrap();
        (process, listener, monitor, folder)
    }

    async fn until_first_output(process: &Process) {
        while process.complaints.last_lines().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn qemu_that_hangs_at_its_start_is_given_up_and_quoted() {
        let (mut process, listener, _, _folder) = process("echo hm >&2; sleep 600").await;
        until_first_output(&process).await;

        let error = process.set_up(&listener, SETUP_LIMIT / 1000).await;

        let error = error.err().unwrap();
        assert!(matches!(error, QemuError::Unresponsive { .. }), "{error:?}");
        assert!(error.to_string().ends_with("; it said: hm"), "{error}");
        assert_eq!(process.child.wait().await, Exit::Signal(9));
    }

    #[tokio::test]
    async fn qemu_that_lives_without_its_monitor_is_given_up_and_quoted() {
        let (mut process, listener, monitor, _folder) = process("echo hm >&2; sleep 600").await;
        until_first_output(&process).await;
        drop(UnixStream::connect(monitor).await.unwrap());

        let error = process.set_up(&listener, SETUP_LIMIT).await.err().unwrap();

        assert!(matches!(error, QemuError::Monitor { .. }), "{error:?}");
        assert!(error.to_string().ends_with("; it said: hm"), "{error}");
        assert_eq!(process.child.wait().await, Exit::Signal(9));
    }

    #[tokio::test]
    async fn qemu_that_hangs_up_as_it_ends_refused_with_its_words() {
        let (mut process, listener, monitor, _folder) = process("echo no such CPU >&2").await;
        drop(UnixStream::connect(monitor).await.unwrap());

        let error = process.set_up(&listener, SETUP_LIMIT).await.err().unwrap();

        assert_eq!(error.to_string(), "QEMU refused to run the VM: no such CPU");
    }
}
