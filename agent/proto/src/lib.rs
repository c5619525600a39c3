//! What the driver and the guest agent say to each other over vsock: types and framing, no sockets.
//!
//! **Connections.** The agent listens on [`AGENT_PORT`] and then calls the host on [`READY_PORT`]. The host
//! opens one connection per operation; the connection's own flow control is the back pressure.
//!
//! **Frames.** One byte [`Kind`], a little-endian `u32` length, the payload ([`frame`]). Control payloads are
//! JSON of at most [`MAX_CONTROL`] bytes, in which arguments, variables and paths that are not UTF-8 are arrays of
//! their bytes' numbers; data payloads raw bytes of at most [`MAX_DATA`].
//!
//! **Order.** On every connection both sides send [`Hello`] first, without waiting for the other's. A side
//! whose version differs from the other's says nothing more and closes.
//!
//! | operation | host sends | agent sends |
//! |---|---|---|
//! | (ready) | `Hello` with `epoch_ns` | `Hello`, then [`Reply::Ready`] once the clock is set |
//! | [`Request::Exec`] | `Stdin`…, `StdinEof`, any time `Resize`, `Cancel` or `Kill` | `Stdout`, `Stderr`, `StdinRoom`…, [`Reply::Exited`] |
//! | [`Request::PutTree`] | `Tree`…, `TreeEnd` | [`Reply::Done`] |
//! | [`Request::GetTree`] | | `Tree`…, `TreeEnd`, [`Reply::Done`] |
//! | [`Request::Archive`] | | `Line`…, `Archive`… and `Line`… mixed, `ArchiveEnd`, [`Reply::Archived`] |
//! | [`Request::Extract`] | `Archive`…, `ArchiveEnd` | `Line`…, [`Reply::Extracted`] |
//! | [`Request::Stats`] | | [`Reply::Stats`] |
//! | [`Request::Shutdown`] | | [`Reply::Done`], then the guest powers off |
//!
//! Standard input has a window of its own, [`STDIN_WINDOW`]: what a command leaves unread must not hold up a
//! `Cancel` behind it.
//!
//! [`Reply::Failed`] may stand in place of any other reply, and of what would still come before it. A host
//! that closes the connection of an exec kills it.

mod archive;
pub mod boot;
pub mod bridge;
pub mod frame;
mod hello;
mod message;
mod os_text;

pub use archive::{Archive, ArchiveSummary, Extract, ExtractSummary, Line};
pub use frame::{
    Decoder, Frame, FrameError, Header, Kind, MAX_CONTROL, MAX_DATA, MAX_LINE, STDIN_WINDOW,
};
pub use hello::{Hello, HelloError};
pub use message::{
    Exec, ExitStatus, Exited, Failed, FailureKind, GetTree, PutTree, Ready, Reply, Request, Stats,
    TerminalSize, TreeSummary,
};

pub use vk_archive_format::{Format as ArchiveFormat, Severity};

/// Host vsock port that the agent calls once it serves requests.
pub const READY_PORT: u32 = 1024;

/// Guest vsock port on which the agent serves requests.
pub const AGENT_PORT: u32 = 1025;
