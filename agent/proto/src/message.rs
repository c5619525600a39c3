//! Requests and replies: the JSON payloads of control frames.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::archive::{Archive, ArchiveSummary, Extract, ExtractSummary};
use crate::frame::FrameError;
use crate::os_text;

/// What the host asks for, one per connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a command.
    Exec(Exec),
    /// Unpack a tar stream.
    PutTree(PutTree),
    /// Pack a file or folder as a tar stream.
    GetTree(GetTree),
    /// Choose files of a project and put them into an archive.
    Archive(Archive),
    /// Unpack an archive.
    Extract(Extract),
    /// Tell how the guest fares.
    Stats,
    /// Power off. Nothing is written back first: the scratch disk ends with its guest.
    Shutdown,
}

/// A command to run. No string may hold a NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// The program and its arguments. A program without a slash is looked for in the PATH of `env`, or else of
    /// Docker's default one.
    #[serde(with = "os_text::list")]
    pub argv: Vec<OsString>,
    /// Set over what Docker gives a container (PATH, HOSTNAME, HOME of the user, TERM on a terminal) in this order: the last of equal names wins. Names
    /// are not empty and hold no `=`.
    #[serde(default, with = "os_text::pairs")]
    pub env: Vec<(OsString, OsString)>,
    /// Working folder, absolute; none is `/`. It must exist.
    #[serde(default, with = "os_text::optional")]
    pub cwd: Option<OsString>,
    /// `user` or `user:group`, each a name of the image's `/etc/passwd` or `/etc/group` or a number; none is
    /// root.
    #[serde(default)]
    pub user: Option<String>,
    /// Whether the host will send standard input; else it is `/dev/null`.
    #[serde(default)]
    pub stdin: bool,
    /// Milliseconds between the TERM of a `Cancel` and the KILL of everything that is left.
    #[serde(default)]
    pub kill_grace_ms: u64,
    /// The command's three streams are a terminal of its own, of this size; all of its output is then `Stdout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
}

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl TerminalSize {
    /// The payload of a [`crate::Kind::Resize`] frame: columns and rows, each a little-endian `u16`.
    #[must_use]
    pub fn encode(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.columns.to_le_bytes(), self.rows.to_le_bytes());
        [a, b, c, d]
    }

    /// What [`TerminalSize::encode`] made.
    ///
    /// # Errors
    ///
    /// [`FrameError::Size`] for a payload of another length.
    pub fn decode(payload: &[u8]) -> Result<Self, FrameError> {
        match payload {
            &[a, b, c, d] => Ok(Self {
                columns: u16::from_le_bytes([a, b]),
                rows: u16::from_le_bytes([c, d]),
            }),
            _ => Err(FrameError::Size(payload.len())),
        }
    }
}

/// Where a tar stream goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutTree {
    /// Destination folder, absolute. Nothing lands outside it.
    #[serde(with = "os_text")]
    pub dest: OsString,
    /// Make the folder and its parents if missing; else a missing one is an error.
    #[serde(default)]
    pub mkdir: bool,
    /// Empty the folder first.
    #[serde(default)]
    pub wipe: bool,
    /// Who will own what is unpacked, written like [`Exec::user`]; none is root.
    #[serde(default)]
    pub owner: Option<String>,
}

/// What to pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetTree {
    /// A file or folder, absolute. A folder's entries are named relative to it; a file becomes one entry of
    /// its own last name.
    pub path: String,
}

/// What the agent answers, once per connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The guest is up, and its clock is set.
    Ready(Ready),
    /// The command of an [`Exec`] ended, and all of its output was sent.
    Exited(Exited),
    /// A tree was moved, or the guest is about to power off.
    Done(TreeSummary),
    /// All of an archive was sent, or nothing matched.
    Archived(ArchiveSummary),
    /// An archive was unpacked.
    Extracted(ExtractSummary),
    /// Answer to [`Request::Stats`].
    Stats(Stats),
    /// The operation failed.
    Failed(Failed),
}

/// How the guest came up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Milliseconds from the kernel's start to the agent's.
    pub kernel_ms: u64,
    /// Milliseconds from the agent's start until it listened.
    pub agent_ms: u64,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// Status of the main process.
    pub status: ExitStatus,
    /// Processes of this command that the guest's kernel killed for want of memory.
    #[serde(default)]
    pub oom_kills: u64,
    /// Names of their programs (`comm` of proc(5)), each once, as far as the kernel's log names them; 8 at most. The
    /// command chooses them: any character may be in one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oom_killed: Vec<String>,
    /// The most processes and threads that the guest's commands may have together, if that kept one from starting
    /// while this command ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_limit: Option<u64>,
}

/// Status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It ended by itself, with this code (0 to 255).
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// The code that a shell would report: 128 and the signal's number for a death by signal.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }
}

/// What a tree held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSummary {
    /// Files, folders and links.
    pub entries: u64,
    /// Bytes of file content.
    pub bytes: u64,
}

/// How the guest fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Memory that the guest's kernel manages, in bytes.
    pub mem_total: u64,
    /// Memory that programs could still get without swapping, in bytes (`MemAvailable` of proc(5)).
    pub mem_available: u64,
    /// Time the vCPUs were busy since boot, summed over them, in milliseconds.
    pub cpu_busy_ms: u64,
    /// Time the vCPUs were idle since boot, summed over them, in milliseconds.
    pub cpu_idle_ms: u64,
    /// Load average over one minute.
    pub load_1m: f64,
    /// Size of the scratch disk's file system, in bytes.
    pub disk_total: u64,
    /// Bytes of it that a job can still write.
    pub disk_free: u64,
    /// Files that a job can still create.
    pub inodes_free: u64,
    /// Milliseconds since the guest's kernel started.
    pub uptime_ms: u64,
    /// Commands that run now.
    pub execs: u64,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The kind of error.
    pub kind: FailureKind,
    /// One line for people, names its subject.
    pub message: String,
}

/// Kinds of trouble that the host tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request makes no sense, or a frame came that has no place.
    BadRequest,
    /// The user or group is not in the image.
    UnknownUser,
    /// The working or destination folder, or the path to pack, does not exist or cannot be used.
    NoSuchPath,
    /// The program does not exist in the image.
    CommandNotFound,
    /// The program exists and cannot be executed.
    NotExecutable,
    /// The tar stream is broken, or an entry has no place in the destination.
    BadTree,
    /// The archive is broken, holds an entry that has no place in the destination, or is over a limit.
    BadArchive,
    /// What was chosen cannot be put into an archive of this format. The message is what GitLab Runner's helper
    /// says about it.
    CannotArchive,
    /// The scratch disk is full (bytes or inodes).
    DiskFull,
    /// The guest's kernel refused something.
    Guest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_read_as_a_shell_reports_them() {
        assert_eq!(ExitStatus::Code(3).shell_code(), 3);
        assert_eq!(ExitStatus::Signal(9).shell_code(), 137);
        assert_eq!(ExitStatus::Signal(i32::MAX).shell_code(), i32::MAX);
    }
}
