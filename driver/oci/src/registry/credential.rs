//! What a registry is told to let vk in.

use std::collections::BTreeMap;
use std::fmt;

use super::reference::registry_key;

/// A login.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// User and password (or a token in the password's place).
    Basic {
        /// User.
        username: String,
        /// Password.
        password: String,
    },
    /// A refresh token, which a token service changes into an access token (Docker's `identitytoken`).
    Identity(String),
    /// An access token, sent as it is (Docker's `registrytoken`).
    Bearer(String),
}

impl Credential {
    /// What must not appear in any message.
    pub(crate) fn secret(&self) -> &str {
        match self {
            Self::Basic { password, .. } => password,
            Self::Identity(token) | Self::Bearer(token) => token,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic(…)",
            Self::Identity(_) => "Identity(…)",
            Self::Bearer(_) => "Bearer(…)",
        })
    }
}

/// Logins of registries.
#[derive(Clone, Debug, Default)]
pub struct Credentials(BTreeMap<String, Credential>);

impl Credentials {
    /// Sets the login of `registry`: a host, with a port where it has one.
    pub fn insert(&mut self, registry: &str, credential: Credential) {
        self.0.insert(registry_key(registry).to_owned(), credential);
    }

    pub(crate) fn of(&self, registry: &str) -> Option<&Credential> {
        self.0.get(registry_key(registry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_found_by_any_name_of_its_registry_and_never_shown() {
        let mut credentials = Credentials::default();
        let login = Credential::Basic {
            username: "me".to_owned(),
            password: "hush".to_owned(),
        };
        credentials.insert("https://index.docker.io/v1/", login.clone());

        assert_eq!(credentials.of("docker.io"), Some(&login));
        assert_eq!(credentials.of("registry.example.com"), None);
        assert!(!format!("{credentials:?}").contains("hush"));
    }
}
