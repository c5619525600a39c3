//! What goes wrong with archives between a guest and its host.

use vk_agent_client::AgentError;
use vk_agent_proto::FailureKind;
use vk_text::chain;
use vk_transfer::SpoolError;

/// Why an archive does not get out of the guest, or into it.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackError {
    /// The guest says why.
    #[error("{0}")]
    Refused(String),
    /// What was chosen cannot be an archive of this format.
    #[error("{0}")]
    Unmade(String),
    /// The guest is lost, or does not keep to the protocol.
    #[error("{0}")]
    Broken(String),
    /// This host's disk is full or broken: the guest is well.
    #[error("{0}")]
    Disk(String),
    /// It is larger than archives may be.
    #[error(transparent)]
    TooLarge(SpoolError),
}

impl From<AgentError> for PackError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Failed {
                kind: FailureKind::CannotArchive,
                message,
                ..
            } => Self::Unmade(message),
            AgentError::Failed { message, .. } => Self::Refused(message),
            // What goes to the guest lies on this host's disk.
            error @ AgentError::Source { .. } => Self::Disk(chain(&error)),
            error => Self::Broken(chain(&error)),
        }
    }
}

impl From<SpoolError> for PackError {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::TooLarge => Self::TooLarge(error),
            SpoolError::Io(_) => Self::Disk(chain(&error)),
        }
    }
}
