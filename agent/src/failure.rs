//! Why an operation failed, as the host is told.

use std::fmt::Display;
use std::io;

use vk_agent_proto::{Failed, FailureKind};

/// A failed operation.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
}

impl Failure {
    /// A failure of this kind; `message` is one line that names its subject.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// The kernel refused `what`.
    pub(crate) fn io(what: impl Display, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FailureKind::DiskFull,
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FailureKind::NoSuchPath,
            _ => FailureKind::Guest,
        };
        Self::new(kind, format!("{what}: {error}"))
    }

    /// What kind it is.
    #[cfg(test)]
    pub(crate) fn kind(&self) -> FailureKind {
        self.kind
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind,
            message: failure.message,
        }
    }
}
