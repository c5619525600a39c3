//! What can go wrong with a registry.

use std::io;
use std::time::Duration;

use super::digest::Digest;

/// An operation on a registry that failed. The cause, without what is named here, is its source.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {subject} ({host})")]
pub struct RegistryError {
    pub(super) operation: &'static str,
    pub(super) subject: String,
    pub(super) host: String,
    #[source]
    pub(super) kind: Box<RegistryErrorKind>,
}

impl RegistryError {
    /// Why.
    #[must_use]
    pub fn kind(&self) -> &RegistryErrorKind {
        &self.kind
    }

    /// The registry, or the mirror, that was asked last: a host, with a port where it has one.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What was wanted: an image's reference, or a blob and its repository.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

/// Why an operation on a registry failed. No variant holds a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryErrorKind {
    /// The registry has no such thing, or does not tell.
    #[error("not found{}", detail(.message))]
    NotFound {
        /// The registry's own words; may be empty.
        message: String,
    },
    /// The registry does not let vk in.
    #[error(
        "access denied (status {status}{}){}", if *.with_credential { "" } else { ", asked without a login" },
        detail(.message)
    )]
    Denied {
        /// HTTP status.
        status: u16,
        /// Whether a login was offered.
        with_credential: bool,
        /// The registry's own words; may be empty.
        message: String,
    },
    /// Where the registry sends vk for a blob, it is not let in, several times.
    #[error(
        "the storage at {host}, where the registry sends for it, refuses (status {status}){}", detail(.message)
    )]
    StorageRefused {
        /// The storage's host.
        host: String,
        /// HTTP status.
        status: u16,
        /// The storage's own words; may be empty.
        message: String,
    },
    /// There is no connection to be had, or it breaks again and again.
    #[error("the registry cannot be reached: {cause}; tried for {} s", .tried_for.as_secs())]
    Unreachable {
        /// What the last attempt met.
        cause: String,
        /// How long it was tried.
        tried_for: Duration,
    },
    /// The registry answers that it cannot answer (status 503, 429 and their like), for too long.
    #[error(
        "the registry is not available (status {status}){}; tried for {} s", detail(.message), .tried_for.as_secs()
    )]
    Unavailable {
        /// The last HTTP status.
        status: u16,
        /// The registry's own words; may be empty.
        message: String,
        /// How long it was tried.
        tried_for: Duration,
    },
    /// What came is not what was asked for.
    #[error("digest mismatch: the registry sent {size} bytes with digest {found}, not {expected}")]
    DigestMismatch {
        /// What was asked for.
        expected: Digest,
        /// What came.
        found: Digest,
        /// How much came, in bytes.
        size: u64,
    },
    /// More or less came than was announced.
    #[error("size mismatch: {found} bytes where {expected} were announced")]
    SizeMismatch {
        /// In bytes.
        expected: u64,
        /// In bytes.
        found: u64,
    },
    /// More than anybody wants.
    #[error("more than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: u64,
    },
    /// The connection cannot be trusted.
    #[error(
        "TLS: {cause}; name the registry's CA file in the configuration, or list the registry as insecure if it has none"
    )]
    Tls {
        /// What is wrong.
        cause: String,
    },
    /// The request took longer than it may.
    #[error("no answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The registry violates the protocol.
    #[error("unexpected answer: {0}")]
    Protocol(String),
    /// What should be uploaded cannot be read.
    #[error("cannot read what is to be uploaded")]
    Source(#[source] io::Error),
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
}

fn detail(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}
