//! Client of the guest agent: what the driver asks of a guest, one vsock connection per operation.
//!
//! Everything a guest says is untrusted: frames are bounded, texts cleaned, unexpected answers end the operation with
//! an [`AgentError`]. Nothing here waits for ever for a handshake; how long an operation itself may take is the
//! caller's to bound.
//!
//! Embedders need the paths of a VM's vsock sockets and a tokio runtime; the agent must be of the same build, which the
//! handshake checks.

mod archive;
mod client;
mod error;
mod exec;
mod link;
mod ready;
mod tree;

pub use archive::{ArchiveEvent, ArchiveStream};
pub use client::AgentClient;
pub use error::{AgentError, Operation};
pub use exec::{ExecControl, ExecEvent, ExecHandle, Stdin};
pub use ready::{GuestReady, ReadyListener};
pub use tree::TreeStream;
pub use vk_agent_proto::{
    Archive as ArchiveRequest, ArchiveFormat, ArchiveSummary, Extract as ExtractRequest,
    ExtractSummary, Line, Severity,
};
pub use vk_agent_proto::{
    Exec as ExecRequest, ExitStatus, Exited, FailureKind, GetTree as GetTreeRequest,
    PutTree as PutTreeRequest, Stats, TerminalSize, TreeSummary,
};
