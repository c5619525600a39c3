//! The device's life: waits for QEMU, serves it, ends with it.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::mpsc;
use vhost::vhost_user::Listener;
use vhost_user_backend::VhostUserDaemon;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;

use super::backend::{AGAIN, Backend, SOCKETS, Shared};
use super::cpu::CpuTime;
use super::device::Device;
use super::queues::QueueError;

/// The vsock device could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the VM's vsock at {}", path.display())]
pub struct VsockError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// How the service ended.
#[derive(Debug)]
pub enum ServiceEnd {
    /// QEMU hung up, or the service was dropped.
    Closed,
    /// The guest broke the device.
    Fault(QueueError),
}

/// A vsock device that serves one QEMU over vhost-user, in threads of its own. Dropping it before QEMU has connected
/// ends it; afterwards QEMU's end does.
pub struct Service {
    /// Its closing tells the thread to stop waiting.
    _stop: PipeWriter,
    end: mpsc::Receiver<QueueError>,
    cpu: CpuTime,
}

impl Service {
    /// Listens for QEMU at `vhost_path` and for host programs at `vsock_path`.
    pub fn start(guest_cid: u64, vsock_path: &Path, vhost_path: &Path) -> Result<Self, VsockError> {
        let error = |path: &Path| {
            let path = path.to_owned();
            move |source| VsockError { path, source }
        };
        let device = Device::bind(guest_cid, vsock_path).map_err(error(vsock_path))?;
        let listener = UnixListener::bind(vhost_path).map_err(error(vhost_path))?;
        Self::serve(guest_cid, device, listener).map_err(error(vhost_path))
    }

    fn serve(guest_cid: u64, device: Device, listener: UnixListener) -> io::Result<Self> {
        let (fault, end) = mpsc::channel(1);
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let cpu = CpuTime::default();
        let backend = Backend::new(guest_cid, device, memory.clone(), fault, cpu.clone())?;
        let (stopped, stop) = io::pipe()?;
        thread::Builder::new()
            .name("vk-vsock".into())
            .spawn(move || {
                if is_wanted(&listener, &stopped)
                    && let Err(error) = run(listener, backend, memory)
                {
                    tracing::warn!(%error, "the VM's vsock failed");
                }
            })?;
        Ok(Self {
            _stop: stop,
            end,
            cpu,
        })
    }

    /// What serving the device costs this host.
    #[must_use]
    pub fn cpu_time(&self) -> CpuTime {
        self.cpu.clone()
    }

    /// How the service ends, when it does.
    pub async fn end(&mut self) -> ServiceEnd {
        match self.end.recv().await {
            Some(fault) => ServiceEnd::Fault(fault),
            None => ServiceEnd::Closed,
        }
    }
}

/// Waits until a client connects, or the service is dropped.
fn is_wanted(listener: &UnixListener, stopped: &PipeReader) -> bool {
    let mut fds = [listener.as_fd(), stopped.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
    let [connected, _] = fds.map(|fd| fd.any().unwrap_or(false));
    connected
}

/// Serves the QEMU that is about to be accepted, until it hangs up.
fn run(
    listener: UnixListener,
    backend: Backend,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
) -> Result<(), vhost_user_backend::Error> {
    let fds = [(backend.sockets_fd(), SOCKETS), (backend.again_fd(), AGAIN)];
    let backend: Shared = Arc::new(Mutex::new(backend));
    let mut daemon = VhostUserDaemon::new("vk-vsock-ctl".into(), backend, memory)?;
    for handler in daemon.get_epoll_handlers() {
        for (fd, mark) in fds {
            handler
                .register_listener(fd, EventSet::IN, mark)
                .map_err(vhost_user_backend::Error::StartDaemon)?;
        }
    }
    daemon.start(&mut Listener::from(listener))?;
    match daemon.wait() {
        // QEMU ended, if need be in the middle of a word.
        Err(vhost_user_backend::Error::HandleRequest(_)) => Ok(()),
        result => result,
    }
}
