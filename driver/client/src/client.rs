//! The operations.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::time::timeout;
use vk_agent_proto::{
    Archive, Exec, Extract, ExtractSummary, GetTree, Line, PutTree, Reply, Request, STDIN_WINDOW,
    Stats, TreeSummary,
};

use super::archive::{ArchiveStream, extract};
use super::error::{AgentError, Operation};
use super::exec::{ExecHandle, Stdin};
use super::link::{Link, wrong_reply};
use super::tree::{TreeStream, put};

/// How long a guest may take over a connection and its hello, and over answers that cost it nothing. Long for
/// a healthy one; a guest whose job takes all vCPUs under software emulation still makes it.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Asks things of one guest. Cheap to clone; each operation has its own connection, any number may run at
/// once.
#[derive(Clone, Debug)]
pub struct AgentClient {
    path: PathBuf,
    handshake: Duration,
}

impl AgentClient {
    /// A client of the guest whose vsock device has its unix socket at `vsock_path`.
    #[must_use]
    pub fn new(vsock_path: impl Into<PathBuf>) -> Self {
        Self {
            path: vsock_path.into(),
            handshake: HANDSHAKE,
        }
    }

    /// Bounds how long a connection and its hello may take (20 s if not set).
    #[must_use]
    pub fn with_handshake(mut self, within: Duration) -> Self {
        self.handshake = within;
        self
    }

    /// Runs a command. `request.stdin` is set from `stdin`. Dropping the handle kills the command.
    ///
    /// # Errors
    ///
    /// [`AgentError`] if the guest cannot be asked. Whether the command could start is told by the handle's
    /// first event.
    pub async fn exec(&self, mut request: Exec, stdin: Stdin) -> Result<ExecHandle, AgentError> {
        request.stdin = !matches!(stdin, Stdin::None);
        let program = request
            .argv
            .first()
            .map(|program| program.to_string_lossy());
        let operation = Operation::Exec(program.unwrap_or_default().into_owned());
        let link = self.open(operation, &Request::Exec(request)).await?;
        Ok(ExecHandle::start(link, stdin, STDIN_WINDOW))
    }

    /// Unpacks a tar stream in the guest.
    ///
    /// # Errors
    ///
    /// [`AgentError`]; [`AgentError::Source`] if `tar` cannot be read to its end.
    pub async fn put_tree(
        &self,
        request: PutTree,
        tar: impl AsyncRead + Unpin + Send,
    ) -> Result<TreeSummary, AgentError> {
        let operation = Operation::PutTree(request.dest.to_string_lossy().into_owned());
        let link = self.open(operation, &Request::PutTree(request)).await?;
        put(link, tar).await
    }

    /// Packs a file or folder of the guest: a tar stream. What it holds is the guest's word: unpack it with
    /// care.
    ///
    /// # Errors
    ///
    /// [`AgentError`] if the guest cannot be asked; later errors come out of the stream.
    pub async fn get_tree(&self, request: GetTree) -> Result<TreeStream, AgentError> {
        let operation = Operation::GetTree(request.path.clone());
        let link = self.open(operation, &Request::GetTree(request)).await?;
        Ok(TreeStream::new(link))
    }

    /// Chooses files of a project in the guest and puts them into an archive. What it holds is the guest's word.
    ///
    /// # Errors
    ///
    /// [`AgentError`] if the guest cannot be asked; later errors come out of the stream.
    pub async fn archive(&self, request: Archive) -> Result<ArchiveStream, AgentError> {
        let operation = Operation::Archive(request.root.clone());
        let link = self.open(operation, &Request::Archive(request)).await?;
        Ok(ArchiveStream::new(link))
    }

    /// Unpacks the archive that `data` reads, in the guest. Hands on what is said meanwhile for the job's trace.
    ///
    /// # Errors
    ///
    /// [`AgentError`]; [`AgentError::Source`] if `data` cannot be read to its end. Of kind
    /// [`vk_agent_proto::FailureKind::BadArchive`], it names the entry that has no place in the destination.
    pub async fn extract(
        &self,
        request: Extract,
        data: impl AsyncRead + Unpin + Send,
        lines: impl FnMut(Line) + Send,
    ) -> Result<ExtractSummary, AgentError> {
        let operation = Operation::Extract(request.dest.clone());
        let link = self.open(operation, &Request::Extract(request)).await?;
        extract(link, data, lines).await
    }

    /// Asks how the guest fares.
    ///
    /// # Errors
    ///
    /// [`AgentError`].
    pub async fn stats(&self) -> Result<Stats, AgentError> {
        match self.ask(Operation::Stats, &Request::Stats).await? {
            Reply::Stats(stats) => Ok(stats),
            _ => Err(wrong_reply(&Operation::Stats)),
        }
    }

    /// Makes the guest power off. It has agreed when this returns, and is gone a moment later.
    ///
    /// # Errors
    ///
    /// [`AgentError`].
    pub async fn shutdown(&self) -> Result<(), AgentError> {
        match self.ask(Operation::Shutdown, &Request::Shutdown).await? {
            Reply::Done(_) => Ok(()),
            _ => Err(wrong_reply(&Operation::Shutdown)),
        }
    }

    async fn open(&self, operation: Operation, request: &Request) -> Result<Link, AgentError> {
        Link::open(&self.path, operation, request, self.handshake).await
    }

    /// For what is answered at once.
    async fn ask(&self, operation: Operation, request: &Request) -> Result<Reply, AgentError> {
        let mut link = self.open(operation.clone(), request).await?;
        let within = self.handshake;
        timeout(within, link.reply())
            .await
            .unwrap_or(Err(AgentError::Timeout { operation, within }))
    }
}
