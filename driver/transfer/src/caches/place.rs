//! Where a job's caches are: in the registry that the operator names, else in a folder of this host.

use std::path::PathBuf;
use std::time::Duration;

use vk_hub_proto::job::CiJob;
use vk_oci::{Credential, ImageSettings, RegistryClient, RegistryOptions, Repository, host_login};
use vk_text::chain;

use super::name::repository;
use super::store::ProjectCaches;

/// Limit on a request when the job's setting is none (gitlab-runner, wire §4.7).
const DEFAULT_LIMIT_MINUTES: u64 = 10;

/// Longest limit in minutes, ten days: clocks have an end.
const LONGEST_LIMIT_MINUTES: u64 = 10 * 24 * 60;

/// The registry that keeps caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRegistry {
    /// `host[:port]`.
    pub registry: String,
    /// What the repositories of caches lie below; empty for none.
    pub repo: String,
    /// The login; `None` for the one of this host's Docker configuration, if it has one.
    pub credential: Option<Credential>,
}

/// Where a host keeps caches.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// The registry; `None` for [`Self::folder`].
    pub registry: Option<CacheRegistry>,
    /// The folder of this host that has them where there is no registry; made when it is needed.
    pub folder: PathBuf,
}

/// The store of the caches of `job`'s project. `images` says how registries are spoken to, `limit_minutes` is
/// `CACHE_REQUEST_TIMEOUT`.
///
/// # Errors
///
/// A text says why there is none.
pub async fn caches_of_job(
    settings: &CacheSettings,
    images: &ImageSettings,
    job: &CiJob,
    limit_minutes: i64,
) -> Result<ProjectCaches, String> {
    let server = match job.server_url.as_str() {
        // A job written by hand.
        "" => "http://localhost",
        url => url,
    };
    let repository = repository(server, job.job.project_id).map_err(|error| chain(&error))?;
    let protected = job.sources.protected;
    let Some(config) = &settings.registry else {
        let root = settings.folder.clone();
        let max_bytes = ProjectCaches::MAX_FOLDER_BYTES;
        return Ok(ProjectCaches::folder(
            root, max_bytes, repository, protected,
        ));
    };
    let path = match config.repo.as_str() {
        "" => repository,
        repo => format!("{repo}/{repository}"),
    };
    let repository = Repository::new(&config.registry, &path)
        .map_err(|error| format!("{path} is no name for a cache repository: {error}"))?;
    let options = options(images, config, &repository, limit_minutes).await;
    let client = RegistryClient::new(options);
    Ok(ProjectCaches::registry(client, repository, protected))
}

/// The registry's own options: this host's login, never the job's, and no mirror, which would not know what was just
/// stored.
async fn options(
    images: &ImageSettings,
    config: &CacheRegistry,
    repository: &Repository,
    limit_minutes: i64,
) -> RegistryOptions {
    let mut options = images.registries.clone();
    options.mirrors.clear();
    options.request_timeout = Some(limit(limit_minutes));
    let credential = match &config.credential {
        Some(credential) => Some(credential.clone()),
        None => host_login(repository, images.docker_config.as_deref()).await,
    };
    if let Some(credential) = credential {
        options
            .credentials
            .insert(repository.registry(), credential);
    }
    options
}

fn limit(minutes: i64) -> Duration {
    let minutes = u64::try_from(minutes).ok().filter(|minutes| *minutes > 0);
    let minutes = minutes.unwrap_or(DEFAULT_LIMIT_MINUTES);
    Duration::from_secs(minutes.min(LONGEST_LIMIT_MINUTES) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> CiJob {
        let mut job = CiJob {
            server_url: "https://gitlab.example.com/".into(),
            ..CiJob::default()
        };
        job.job.project_id = 7;
        job
    }

    fn images() -> ImageSettings {
        let mut images = ImageSettings::default();
        let mirrors = vec!["mirror.example.com".to_owned()];
        images
            .registries
            .mirrors
            .insert("registry.example.com:5000".to_owned(), mirrors);
        images
    }

    async fn store(
        registry: Option<CacheRegistry>,
        job: &CiJob,
        limit_minutes: i64,
    ) -> ProjectCaches {
        let images = images();
        let settings = CacheSettings {
            registry,
            folder: "/nowhere".into(),
        };
        caches_of_job(&settings, &images, job, limit_minutes)
            .await
            .unwrap()
    }

    fn registry() -> CacheRegistry {
        CacheRegistry {
            registry: "registry.example.com:5000".to_owned(),
            repo: String::new(),
            credential: None,
        }
    }

    /// Dispatch protocol, "Caches": a protected and an unprotected job never share one.
    #[tokio::test]
    async fn caches_are_protected_where_the_jobs_ref_is() {
        for cache in [None, Some(registry())] {
            for protected in [false, true] {
                let mut job = job();
                job.sources.protected = protected;
                let place = store(cache.clone(), &job, 10).await;
                assert_eq!(place.protected, protected, "{place:?}");
            }
        }
    }

    /// What was just stored is not on a mirror, and a request takes no longer than the job allows.
    #[tokio::test]
    async fn the_registry_itself_is_asked_within_the_jobs_limit() {
        let repository = Repository::new("registry.example.com:5000", "ci-cache/x").unwrap();

        let options = options(&images(), &registry(), &repository, 3).await;

        assert_eq!(options.request_timeout, Some(Duration::from_secs(180)));
        assert!(options.mirrors.is_empty());
    }

    #[tokio::test]
    async fn caches_are_below_the_operators_prefix_or_on_this_host() {
        let config = |repo: &str| {
            Some(CacheRegistry {
                registry: "registry.example.com:5000".to_owned(),
                repo: repo.to_owned(),
                credential: None,
            })
        };
        let name = async |repo: &str| {
            store(config(repo), &job(), 10)
                .await
                .registry_name()
                .unwrap()
        };
        assert_eq!(
            name("").await,
            "registry.example.com:5000/ci-cache/gitlab.example.com/7"
        );
        assert_eq!(
            name("team/vk").await,
            "registry.example.com:5000/team/vk/ci-cache/gitlab.example.com/7"
        );
        assert_eq!(store(None, &job(), 10).await.registry_name(), None);
    }

    /// gitlab-runner, wire §4.7.
    #[test]
    fn a_limit_that_is_none_is_ten_minutes() {
        for (minutes, seconds) in [(1, 60), (0, 600), (-3, 600), (i64::MAX, 864_000)] {
            assert_eq!(limit(minutes), Duration::from_secs(seconds));
        }
    }
}
