//! Which login a registry is shown: the first that one of these has.
//!
//! 1. the job's variable `DOCKER_AUTH_CONFIG`; helper programs that it names are not run, since the host's programs
//!    are not the job's to choose;
//! 2. Docker's own configuration on this host, with its helper programs;
//! 3. the job's `registry_credentials`;
//! 4. none.

use std::path::Path;

use vk_hub_proto::job::RegistryCredential;

use super::docker_config::DockerConfig;
use crate::registry::{Credential, Repository};
use vk_text::chain;

/// The job variable that holds a Docker configuration.
const VARIABLE: &str = "DOCKER_AUTH_CONFIG";

/// What a job brings along.
pub(crate) struct JobLogins<'a> {
    pub(crate) docker_auth_config: Option<&'a str>,
    pub(crate) registry_credentials: &'a [RegistryCredential],
}

/// A login and where it is from.
pub(crate) struct Login {
    pub(crate) credential: Credential,
    pub(crate) source: String,
}

/// The login for `repository`, and warnings about sources that cannot be read.
pub(crate) async fn find(
    repository: &Repository,
    job: &JobLogins<'_>,
    docker_config: Option<&Path>,
) -> (Option<Login>, Vec<String>) {
    let mut warnings = Vec::new();
    if let Some(text) = job
        .docker_auth_config
        .filter(|text| !text.trim().is_empty())
    {
        match DockerConfig::parse(text, VARIABLE) {
            Ok(config) => {
                if let Some(credential) = config.written(repository) {
                    let source = format!("${VARIABLE}");
                    return (Some(Login { credential, source }), warnings);
                }
            }
            Err(error) => warnings.push(chain(&error)),
        }
    }
    if let Some(path) = docker_config {
        match of_host(repository, path).await {
            Ok(Some(login)) => return (Some(login), warnings),
            Ok(None) => {}
            Err(warning) => warnings.push(warning),
        }
    }
    let given = job
        .registry_credentials
        .iter()
        .find(|credential| crate::registry::same_registry(&credential.url, repository.registry()));
    let login = given.map(|given| Login {
        credential: Credential::Basic {
            username: given.username.clone(),
            password: given.password.expose().to_owned(),
        },
        source: "job payload (GitLab Registry)".to_owned(),
    });
    (login, warnings)
}

/// The login that this host has for `repository`, whatever a job brings along. One that cannot be read is told in
/// vk's own log.
pub async fn host_login(
    repository: &Repository,
    docker_config: Option<&Path>,
) -> Option<Credential> {
    let found = of_host(repository, docker_config?).await;
    let found = found.unwrap_or_else(|warning| {
        tracing::warn!("{warning}");
        None
    });
    found.map(|login| login.credential)
}

async fn of_host(repository: &Repository, path: &Path) -> Result<Option<Login>, String> {
    let config = DockerConfig::read(path)
        .await
        .map_err(|error| chain(&error))?;
    let Some(config) = config else {
        return Ok(None);
    };
    let found = config
        .find(repository)
        .await
        .map_err(|error| chain(&error))?;
    Ok(found.map(|credential| Login {
        credential,
        source: path.display().to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_VARIABLE: &str = r#"{"auths": {"r.example.com": {"auth": "dmFyaWFibGU6eA=="}}}"#;
    const OF_HOST: &str = r#"{"auths": {"r.example.com": {"auth": "aG9zdDp4"}}}"#;

    async fn user(variable: Option<&str>, host: Option<&str>, job: bool) -> (String, usize) {
        let reference: crate::registry::Reference = "r.example.com/a".parse().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), host.unwrap_or("{}")).unwrap();
        let given = [RegistryCredential {
            url: "https://r.example.com".to_owned(),
            username: "job".to_owned(),
            password: "x".into(),
        }];
        let job = JobLogins {
            docker_auth_config: variable,
            registry_credentials: if job { &given } else { &[] },
        };
        let (login, warnings) = find(reference.repository(), &job, Some(file.path())).await;
        let user = match login.map(|login| login.credential) {
            Some(Credential::Basic { username, .. }) => username,
            _ => "nobody".to_owned(),
        };
        (user, warnings.len())
    }

    #[tokio::test]
    async fn the_first_source_that_has_a_login_is_taken() {
        let (variable, host) = (Some(OF_VARIABLE), Some(OF_HOST));

        assert_eq!(user(variable, host, true).await, ("variable".to_owned(), 0));
        assert_eq!(user(None, host, true).await, ("host".to_owned(), 0));
        assert_eq!(user(Some(" "), None, true).await, ("job".to_owned(), 0));
        assert_eq!(user(None, None, false).await, ("nobody".to_owned(), 0));
    }

    #[tokio::test]
    async fn a_source_that_cannot_be_read_is_a_warning_and_the_next_one_is_asked() {
        assert_eq!(
            user(Some("{"), Some("["), true).await,
            ("job".to_owned(), 2)
        );
    }
}
