//! Text that must not be shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token, a password, or another text that nobody but its user may see.
///
/// Its [`Debug`](fmt::Debug) output says nothing of it, not even its length, and it cannot be printed. On the wire it
/// is a string like any other. Its memory is not wiped.
///
/// ```
/// use vk_hub_proto::job::Secret;
///
/// let token = Secret::from("glcbt-64_4711");
/// assert_eq!(format!("{token:?}"), "[REDACTED]");
/// assert_eq!(token.expose(), "glcbt-64_4711");
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for where it has to go. What takes it must not show it either.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(super::REDACTED)
    }
}

impl PartialEq<str> for Secret {
    fn eq(&self, text: &str) -> bool {
        self.0 == text
    }
}

impl PartialEq<&str> for Secret {
    fn eq(&self, text: &&str) -> bool {
        self.0 == *text
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_string_on_the_wire_and_nothing_in_debug_output() {
        let secret: Secret = serde_json::from_str("\"s3cr3t\"").unwrap();

        assert_eq!(secret, Secret::from("s3cr3t"));
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"s3cr3t\"");
        assert_eq!(format!("{secret:?} {secret:#?}"), "[REDACTED] [REDACTED]");
        assert_eq!(format!("{:?}", Secret::default()), "[REDACTED]");
    }
}
