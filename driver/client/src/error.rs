//! What can go wrong between driver and agent.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use vk_agent_proto::{Failed, FailureKind, FrameError, HelloError};

/// What was asked of the guest. What is not UTF-8 in programs and folders reads as the replacement character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To say that it is ready.
    Ready,
    /// To run this program.
    Exec(String),
    /// To unpack a tree into this folder.
    PutTree(String),
    /// To pack this file or folder.
    GetTree(String),
    /// To put files of this folder into an archive.
    Archive(String),
    /// To unpack an archive into this folder.
    Extract(String),
    /// To tell how it fares.
    Stats,
    /// To power off.
    Shutdown,
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => write!(out, "waiting for the guest"),
            Self::Exec(program) => write!(out, "running `{program}` in the guest"),
            Self::PutTree(dest) => write!(out, "copying files into the guest's `{dest}`"),
            Self::GetTree(path) => write!(out, "copying the guest's `{path}`"),
            Self::Archive(root) => write!(out, "archiving files of the guest's `{root}`"),
            Self::Extract(dest) => write!(out, "unpacking an archive into the guest's `{dest}`"),
            Self::Stats => write!(out, "asking the guest for its state"),
            Self::Shutdown => write!(out, "shutting the guest down"),
        }
    }
}

/// A failed operation on a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The host's end of the vsock cannot be reached: the VM is gone, or was never there.
    #[error("{operation}: cannot reach its vsock at {}", path.display())]
    Connect {
        /// What was asked.
        operation: Operation,
        /// The unix socket of the VM's vsock device.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The listener for the guest's call cannot be made.
    #[error("cannot listen for the guest at {}", path.display())]
    Listen {
        /// The unix socket.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The vsock device refuses the connection: nothing in the guest listens.
    #[error("{operation}: the guest's agent does not listen")]
    Refused {
        /// What was asked.
        operation: Operation,
    },
    /// No answer in time.
    #[error("{operation}: no answer within {} s", within.as_secs_f32())]
    Timeout {
        /// What was asked.
        operation: Operation,
        /// How long was waited.
        within: Duration,
    },
    /// The agent is of another build than this driver.
    #[error("{operation}: the guest's agent does not fit")]
    Hello {
        /// What was asked.
        operation: Operation,
        /// Names both versions.
        source: HelloError,
    },
    /// The guest sent what is no part of the protocol, or the connection broke.
    #[error("{operation}: the connection to the guest's agent broke")]
    Broken {
        /// What was asked.
        operation: Operation,
        /// What is wrong.
        source: FrameError,
    },
    /// The guest closed the connection without an answer: it died, or its agent did.
    #[error("{operation}: the guest closed the connection before it answered")]
    Closed {
        /// What was asked.
        operation: Operation,
    },
    /// The agent could not do it.
    #[error("{operation}: {message}")]
    Failed {
        /// What was asked.
        operation: Operation,
        /// The kind of error.
        kind: FailureKind,
        /// The agent's line about it, cleaned.
        message: String,
    },
    /// What was to be sent could not be read.
    #[error("{operation}: cannot read what is to be sent")]
    Source {
        /// What was asked.
        operation: Operation,
        /// What the reader says.
        source: io::Error,
    },
}

/// What a shell answers for a command that does not exist (POSIX, Shell Command Language, 2.8.2).
const COMMAND_NOT_FOUND: i32 = 127;

/// What a shell answers for a command that is there and is no program (POSIX, Shell Command Language, 2.8.2).
const NOT_EXECUTABLE: i32 = 126;

/// Longest text of a guest that goes into an error, in characters.
const MAX_MESSAGE: usize = 2000;

impl AgentError {
    /// What the agent said, made safe for logs and traces.
    pub(super) fn failed(operation: &Operation, failed: &Failed) -> Self {
        Self::Failed {
            operation: operation.clone(),
            kind: failed.kind,
            message: cleaned(&failed.message),
        }
    }

    /// A broken connection.
    pub(super) fn broken(operation: &Operation, source: FrameError) -> Self {
        Self::Broken {
            operation: operation.clone(),
            source,
        }
    }

    /// The agent's own verdict, if it gave one.
    #[must_use]
    pub fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Failed { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// The code that a shell would answer, if the command that should run is at fault: 127 if it is not there, 126 if it
    /// is no program.
    #[must_use]
    pub fn shell_code(&self) -> Option<i32> {
        match self.kind()? {
            FailureKind::CommandNotFound => Some(COMMAND_NOT_FOUND),
            FailureKind::NotExecutable => Some(NOT_EXECUTABLE),
            _ => None,
        }
    }
}

/// A guest's text made safe for logs and traces: cut, and without control characters.
pub(super) fn cleaned(text: &str) -> String {
    text.chars()
        .take(MAX_MESSAGE)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_text_is_cleaned_and_cut() {
        let failed = Failed {
            kind: FailureKind::Guest,
            message: format!("a\x1b[31m\nb{}", "x".repeat(10_000)),
        };

        let text = AgentError::failed(&Operation::Stats, &failed).to_string();

        assert!(text.contains("a [31m b") && text.len() < 2100);
    }

    /// POSIX, Shell Command Language, 2.8.2.
    #[test]
    fn a_command_that_cannot_be_run_has_the_code_a_shell_answers() {
        let code = |kind| {
            let failed = Failed {
                kind,
                message: String::new(),
            };
            AgentError::failed(&Operation::Exec("x".to_owned()), &failed).shell_code()
        };

        assert_eq!(code(FailureKind::CommandNotFound), Some(127));
        assert_eq!(code(FailureKind::NotExecutable), Some(126));
        assert_eq!(code(FailureKind::UnknownUser), None);
        assert_eq!(code(FailureKind::NoSuchPath), None);
        let refused = AgentError::Refused {
            operation: Operation::Stats,
        };
        assert_eq!(refused.shell_code(), None);
    }
}
