//! Docker's `config.json`: logins of registries, and the programs that keep them.
//!
//! <https://docs.docker.com/reference/cli/docker/login/> and docker-credential-helpers' protocol.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::registry::{Credential, DEFAULT_REGISTRY, Repository};

/// How long a helper may take: it may have to ask a key ring, or a cloud.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest answer of a helper in bytes.
const MAX_HELPER_ANSWER: u64 = 256 << 10;

/// Longest configuration file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The name under which Docker keeps the default registry's login.
const DEFAULT_REGISTRY_KEY: &str = "https://index.docker.io/v1/";

/// The user under which a helper gives an identity token (docker-credential-helpers, "get").
const IDENTITY_USER: &str = "<token>";

/// What a `config.json` says of logins.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DockerConfig {
    auths: BTreeMap<String, RawLogin>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct RawLogin {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// Why a configuration is of no use. Nothing of its content is told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DockerConfigError {
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    #[error("{0} is not a Docker configuration (line {1}, column {2})")]
    Parse(String, usize, usize),
    #[error("the credential helper `{0}` {1}")]
    Helper(String, String),
}

impl DockerConfig {
    /// Reads `text`, which `origin` names in errors.
    pub(crate) fn parse(text: &str, origin: &str) -> Result<Self, DockerConfigError> {
        serde_json::from_str(text).map_err(|error| {
            DockerConfigError::Parse(origin.to_owned(), error.line(), error.column())
        })
    }

    /// Reads a file; `None` if there is none.
    pub(crate) async fn read(path: &Path) -> Result<Option<Self>, DockerConfigError> {
        let failed = |error| DockerConfigError::Read(path.to_owned(), error);
        let file = match tokio::fs::File::open(path).await {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut text = String::new();
        let mut file = file.take(MAX_FILE);
        file.read_to_string(&mut text).await.map_err(failed)?;
        Self::parse(&text, &path.display().to_string()).map(Some)
    }

    /// The login that stands in the configuration itself.
    pub(crate) fn written(&self, repository: &Repository) -> Option<Credential> {
        let (_, login) = self
            .auths
            .iter()
            .filter_map(|(key, login)| Some((specificity(key, repository)?, login)))
            .max_by_key(|(specificity, _)| *specificity)?;
        credential(login)
    }

    /// The helper that is named for the closest part of the registry.
    fn helper(&self, repository: &Repository) -> Option<&str> {
        self.cred_helpers
            .iter()
            .filter_map(|(key, helper)| Some((specificity(key, repository)?, helper.as_str())))
            .max_by_key(|(specificity, _)| *specificity)
            .map(|(_, helper)| helper)
    }

    /// The login: a helper's, else the written one.
    pub(crate) async fn find(
        &self,
        repository: &Repository,
    ) -> Result<Option<Credential>, DockerConfigError> {
        let named = self.helper(repository);
        let helper = named.or(Some(self.creds_store.as_str()).filter(|store| !store.is_empty()));
        if let Some(helper) = helper {
            let registry = match repository.registry() {
                DEFAULT_REGISTRY => DEFAULT_REGISTRY_KEY,
                other => other,
            };
            if let Some(found) = ask_helper(helper, registry).await? {
                return Ok(Some(found));
            }
        }
        Ok(self.written(repository))
    }
}

/// How much of `repository` the key of a login names; `None` if it is of another one. Keys are hosts, perhaps with a
/// scheme, and with a path for logins of a part of a registry.
fn specificity(key: &str, repository: &Repository) -> Option<usize> {
    let key = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key)
        .trim_end_matches('/');
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    // The API's own path, as older Dockers wrote it.
    let path = match path {
        "v1" | "v2" => "",
        path => path,
    };
    let host = match host {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT_REGISTRY,
        host => host,
    };
    let rest = repository.path().strip_prefix(path)?;
    let whole = path.is_empty() || rest.is_empty() || rest.starts_with('/');
    (host == repository.registry() && whole).then_some(path.len())
}

fn credential(login: &RawLogin) -> Option<Credential> {
    if !login.registrytoken.is_empty() {
        return Some(Credential::Bearer(login.registrytoken.clone()));
    }
    if !login.identitytoken.is_empty() {
        return Some(Credential::Identity(login.identitytoken.clone()));
    }
    let (username, password) = match decode(&login.auth) {
        Some(pair) => pair,
        None => (login.username.clone(), login.password.clone()),
    };
    (!username.is_empty()).then_some(Credential::Basic { username, password })
}

/// User and password of an `auth`: `user:password` in base 64, with or without padding.
fn decode(auth: &str) -> Option<(String, String)> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let text = String::from_utf8(LENIENT.decode(auth.trim()).ok()?).ok()?;
    let (username, password) = text.split_once(':')?;
    // Docker strips zeros that some tools leave behind.
    let password = password.trim_end_matches('\0');
    Some((username.to_owned(), password.to_owned()))
}

/// Asks `docker-credential-<helper>`: the registry goes to its standard input, the login comes from its standard
/// output.
async fn ask_helper(helper: &str, registry: &str) -> Result<Option<Credential>, DockerConfigError> {
    let failed = |what: String| {
        let name = helper.chars().take(100).collect();
        DockerConfigError::Helper(name, what)
    };
    // Its name becomes that of a program on the search path, and nothing else.
    if !helper
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    {
        return Err(failed("has a name that is no program's".to_owned()));
    }
    let mut child = Command::new(format!("docker-credential-{helper}"))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let talk = async {
        if let Some(mut stdin) = stdin {
            // A helper that answers without reading is none of our worry.
            let _ = stdin.write_all(registry.as_bytes()).await;
            let _ = stdin.shutdown().await;
        }
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            stdout
                .take(MAX_HELPER_ANSWER)
                .read_to_end(&mut answer)
                .await?;
        }
        Ok::<_, std::io::Error>((answer, child.wait().await?))
    };
    let (answer, status) = tokio::time::timeout(HELPER_TIMEOUT, talk)
        .await
        .map_err(|_| {
            failed(format!(
                "did not answer within {} s",
                HELPER_TIMEOUT.as_secs()
            ))
        })?
        .map_err(|error| failed(format!("cannot be talked with: {error}")))?;
    if !status.success() {
        // "credentials not found in native keychain", says the protocol, on standard output.
        let answer = String::from_utf8_lossy(&answer);
        if answer.contains("not found") {
            return Ok(None);
        }
        return Err(failed(format!("failed ({status})")));
    }
    let answer: HelperAnswer = serde_json::from_slice(&answer)
        .map_err(|_| failed("gave an answer that cannot be read".to_owned()))?;
    Ok(Some(if answer.username == IDENTITY_USER {
        Credential::Identity(answer.secret)
    } else {
        Credential::Basic {
            username: answer.username,
            password: answer.secret,
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(text: &str) -> Repository {
        let reference: crate::registry::Reference = text.parse().unwrap();
        reference.repository().clone()
    }

    fn login(username: &str, password: &str) -> Option<Credential> {
        Some(Credential::Basic {
            username: username.to_owned(),
            password: password.to_owned(),
        })
    }

    fn config(text: &str) -> DockerConfig {
        DockerConfig::parse(text, "the test").unwrap()
    }

    #[test]
    fn logins_are_found_by_registry() {
        let config = config(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "aHViOnBhc3M6d29yZA=="},
                "r.example.com": {"auth": "YTpi"},
                "http://p.example.com:5000/v2/": {"username": "c", "password": "d"},
                "t.example.com": {"auth": "eDp5", "identitytoken": "id"},
                "u.example.com": {}
            }, "HttpHeaders": {"X": "y"}}"#,
        );
        let found = |text: &str| config.written(&repository(text));

        assert_eq!(found("alpine"), login("hub", "pass:word"));
        assert_eq!(found("r.example.com/x"), login("a", "b"));
        assert_eq!(found("p.example.com:5000/x"), login("c", "d"));
        assert_eq!(
            found("t.example.com/x"),
            Some(Credential::Identity("id".to_owned()))
        );
        assert_eq!(found("u.example.com/x"), None);
        assert_eq!(found("r.example.com:5000/x"), None);
    }

    #[test]
    fn the_login_of_the_closest_path_is_taken() {
        let config = config(
            r#"{"auths": {
                "r.example.com": {"auth": "YTo="},
                "r.example.com/team": {"auth": "Yjo="},
                "r.example.com/team/app": {"auth": "Yzo="}
            }}"#,
        );
        let found = |text: &str| config.written(&repository(text));

        assert_eq!(found("r.example.com/other/app"), login("a", ""));
        assert_eq!(found("r.example.com/teams"), login("a", ""));
        assert_eq!(found("r.example.com/team/x"), login("b", ""));
        assert_eq!(found("r.example.com/team/app"), login("c", ""));
    }

    #[test]
    fn the_helper_of_the_closest_path_is_asked() {
        let config = config(
            r#"{"credHelpers": {"https://r.example.com": "a", "r.example.com/team": "b", "r.example.com": "c"}}"#,
        );
        let helper = |text: &str| config.helper(&repository(text)).map(str::to_owned);

        assert_eq!(helper("r.example.com/team/x"), Some("b".to_owned()));
        assert!(helper("r.example.com/x").is_some_and(|name| name != "b"));
        assert_eq!(helper("other.example.com/x"), None);
    }

    #[test]
    fn an_unreadable_configuration_is_not_shown() {
        let error = DockerConfig::parse("{\"auths\": \"hush-hush\"", "DOCKER_AUTH_CONFIG");
        let text = error.err().unwrap().to_string();

        assert!(text.contains("DOCKER_AUTH_CONFIG"), "{text}");
        assert!(!text.contains("hush-hush"), "{text}");
    }

    #[tokio::test]
    async fn a_helpers_name_cannot_be_a_path() {
        let config = config(r#"{"credHelpers": {"r.example.com": "x/../../bin/sh"}}"#);

        let error = config
            .find(&repository("r.example.com/a"))
            .await
            .unwrap_err();

        assert!(matches!(error, DockerConfigError::Helper(..)), "{error}");
    }
}
