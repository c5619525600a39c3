//! GitLab's API for artifacts: addresses (gitlab-runner, wire §1.1, wire §1.14 and wire §1.15).

use url::Url;

/// Where GitLab's API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Api(Url);

/// A server URL that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is none.
    #[error("the job names no GitLab server")]
    Missing,
    /// It is none.
    #[error("the GitLab server's URL {0:?} is no URL")]
    Malformed(String),
    /// As GitLab Runner says it.
    #[error("only http or https scheme supported")]
    Scheme,
}

impl Api {
    /// The API of the server at `server_url`, as a runner is configured with it.
    pub(super) fn new(server_url: &str) -> Result<Self, ApiError> {
        if server_url.is_empty() {
            return Err(ApiError::Missing);
        }
        let trimmed = server_url.trim_end_matches('/');
        let trimmed = trimmed.strip_suffix("/ci").unwrap_or(trimmed);
        let malformed = |_| ApiError::Malformed(server_url.to_owned());
        let url = Url::parse(&format!("{trimmed}/api/v4/")).map_err(malformed)?;
        match url.scheme() {
            "http" | "https" => Ok(Self(url)),
            _ => Err(ApiError::Scheme),
        }
    }

    /// Its root, whose origin is GitLab's.
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    /// Where artifacts of job `id` are, with a query of the pairs that have a value, sorted by name as Go sorts them.
    pub(super) fn artifacts(&self, id: u64, query: &[(&str, &str)]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend(["jobs", &id.to_string(), "artifacts"]);
        }
        let mut pairs: Vec<_> = query
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .collect();
        pairs.sort_unstable();
        // Even without pairs there is a question mark, as in GitLab Runner's requests.
        url.query_pairs_mut().clear().extend_pairs(pairs);
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §1.1.
    #[test]
    fn a_servers_url_is_read_as_by_gitlab_runner() {
        for (server, api) in [
            (
                "https://gitlab.example.com",
                "https://gitlab.example.com/api/v4/",
            ),
            (
                "https://gitlab.example.com///",
                "https://gitlab.example.com/api/v4/",
            ),
            (
                "https://gitlab.example.com/ci/",
                "https://gitlab.example.com/api/v4/",
            ),
            (
                "http://example.com:8080/gitlab",
                "http://example.com:8080/gitlab/api/v4/",
            ),
        ] {
            assert_eq!(Api::new(server).unwrap().url().as_str(), api);
        }
        assert_eq!(Api::new(""), Err(ApiError::Missing));
        assert_eq!(Api::new("ssh://a"), Err(ApiError::Scheme));
        assert!(matches!(Api::new("broken"), Err(ApiError::Malformed(_))));
    }

    /// Golden wire 18 and 23.
    #[test]
    fn queries_are_those_of_gitlab_runner() {
        let api = Api::new("http://h").unwrap();
        let upload = [
            ("expire_in", "1 week"),
            ("artifact_type", "archive"),
            ("artifact_format", "zip"),
        ];
        assert_eq!(
            api.artifacts(4018, &upload).as_str(),
            "http://h/api/v4/jobs/4018/artifacts?artifact_format=zip&artifact_type=archive&expire_in=1+week"
        );
        assert_eq!(
            api.artifacts(1, &[("expire_in", "")]).as_str(),
            "http://h/api/v4/jobs/1/artifacts?"
        );
        assert_eq!(
            api.artifacts(1, &[("direct_download", "true")]).as_str(),
            "http://h/api/v4/jobs/1/artifacts?direct_download=true"
        );
    }
}
