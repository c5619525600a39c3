//! The guest's call: it says when it is ready; the host does not poll.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::UnixListener;
use tokio::time::timeout;
use vk_agent_proto::{Hello, Kind, READY_PORT, Ready, Reply, bridge};

use super::error::{AgentError, Operation};
use super::link::{Link, wrong_reply};

/// How the guest came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestReady {
    /// From the kernel's start to the agent's, by the guest's clock.
    pub kernel: Duration,
    /// From the agent's start until it listened.
    pub agent: Duration,
}

/// Waits for one guest's call. Its socket is gone when it is dropped: later calls are refused.
#[derive(Debug)]
pub struct ReadyListener {
    listener: UnixListener,
    path: PathBuf,
}

impl ReadyListener {
    /// Listens beside the vsock socket `vsock_path` of a VM that is yet to be started.
    ///
    /// # Errors
    ///
    /// [`AgentError::Listen`], above all if something stands at the path already.
    pub fn bind(vsock_path: &Path) -> Result<Self, AgentError> {
        let path = bridge::listener_path(vsock_path, READY_PORT);
        match UnixListener::bind(&path) {
            Ok(listener) => Ok(Self { listener, path }),
            Err(source) => Err(AgentError::Listen { path, source }),
        }
    }

    /// Waits until the guest has called and its clock is set to the host's.
    ///
    /// # Errors
    ///
    /// [`AgentError::Timeout`] if it did not call, [`AgentError::Hello`] if its agent is of another build.
    pub async fn ready(self, within: Duration) -> Result<GuestReady, AgentError> {
        let operation = Operation::Ready;
        timeout(within, self.call())
            .await
            .unwrap_or(Err(AgentError::Timeout { operation, within }))
    }

    async fn call(&self) -> Result<GuestReady, AgentError> {
        let (stream, _) = self
            .listener
            .accept()
            .await
            .map_err(|source| AgentError::Listen {
                path: self.path.clone(),
                source,
            })?;
        let mut link = Link::new(stream, Operation::Ready);
        let hello = link.hello().await;
        // Ours goes out even to an agent that does not fit, so that it can say so on its console. The time is
        // read last: it ages while it waits.
        let ours = Hello {
            epoch_ns: epoch_ns(),
            ..Hello::ours()
        };
        let sent = link.send(Kind::Hello, &ours).await;
        hello?;
        sent?;
        match link.reply().await? {
            Reply::Ready(Ready {
                kernel_ms,
                agent_ms,
            }) => Ok(GuestReady {
                kernel: Duration::from_millis(kernel_ms),
                agent: Duration::from_millis(agent_ms),
            }),
            _ => Err(wrong_reply(&Operation::Ready)),
        }
    }
}

impl Drop for ReadyListener {
    fn drop(&mut self) {
        // The folder goes with the VM anyway.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn epoch_ns() -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(now.as_nanos()).ok()
}
