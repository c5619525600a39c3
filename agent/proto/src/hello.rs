//! The first frame each side sends. Its shape never changes, whatever the protocol's version: two versions
//! must be able to tell each other apart.

use serde::{Deserialize, Serialize};

/// Says that the peer is one of ours at all.
const MAGIC: &str = "vk-agent";

/// Version of everything else in this crate. Raised with every change that an older peer would not understand.
const PROTOCOL_VERSION: u32 = 4;

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// `vk-agent`.
    pub magic: String,
    /// The speaker's version of the protocol.
    pub protocol: u32,
    /// Release of the speaker's crate, for people.
    pub release: String,
    /// On the ready connection, from the host: the wall clock in nanoseconds since 1970, to which the agent
    /// sets the guest's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_ns: Option<u64>,
}

impl Hello {
    /// What this build says.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            magic: MAGIC.to_owned(),
            protocol: PROTOCOL_VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            epoch_ns: None,
        }
    }

    /// Whether a peer that said this speaks as we do.
    ///
    /// # Errors
    ///
    /// [`HelloError`] if it is another program, or speaks another version.
    pub fn check(&self) -> Result<(), HelloError> {
        if self.magic != MAGIC {
            return Err(HelloError::UnknownPeer);
        }
        if self.protocol != PROTOCOL_VERSION {
            return Err(HelloError::Version {
                ours: PROTOCOL_VERSION,
                our_release: env!("CARGO_PKG_VERSION").to_owned(),
                theirs: self.protocol,
                their_release: self
                    .release
                    .chars()
                    .filter(|letter| !letter.is_control())
                    .take(32)
                    .collect(),
            });
        }
        Ok(())
    }
}

/// Why a peer's hello does not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The peer is no vk-agent and no driver.
    #[error("the other side does not speak vk's agent protocol")]
    UnknownPeer,
    /// The peer is of another build.
    #[error(
        "we speak version {ours} of the agent protocol (release {our_release}), the other side version {theirs} \
         (release {their_release}); build the guest images and vk from the same sources"
    )]
    Version {
        /// This build's version of the protocol.
        ours: u32,
        /// Release of this build.
        our_release: String,
        /// What the peer says its version is.
        theirs: u32,
        /// What the peer says its release is, shortened.
        their_release: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_accepted() {
        assert_eq!(Hello::ours().check(), Ok(()));
    }

    #[test]
    fn another_version_is_refused_and_both_are_named() {
        let theirs = Hello {
            protocol: 7001,
            release: "9.8.7".into(),
            ..Hello::ours()
        };

        let message = theirs.check().unwrap_err().to_string();

        for part in ["version 4 ", "7001", env!("CARGO_PKG_VERSION"), "9.8.7"] {
            assert!(message.contains(part), "{part} missing in: {message}");
        }
    }

    #[test]
    fn another_program_is_refused() {
        let theirs = Hello {
            magic: "ssh".into(),
            ..Hello::ours()
        };

        assert_eq!(theirs.check(), Err(HelloError::UnknownPeer));
    }
}
