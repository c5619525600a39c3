//! Where a job's caches are: in the registry that the operator names, else in a folder of this host.

use std::time::Duration;

use vk_hub_proto::job::CiJob;

use super::name::repository;
use super::store::CacheStore;
use crate::config::CacheConfig;
use crate::host::Host;
use crate::image::host_login;
use crate::registry::{RegistryClient, RegistryOptions, Repository};
use crate::report::chain;

/// Limit on a request when the job's setting is none (gitlab-runner, wire §4.7).
const DEFAULT_LIMIT_MINUTES: u64 = 10;

/// Longest limit in minutes, ten days: clocks have an end.
const LONGEST_LIMIT_MINUTES: u64 = 10 * 24 * 60;

/// The place of the caches of `job`'s project; `limit_minutes` is `CACHE_REQUEST_TIMEOUT`. A text says why there is none.
pub(crate) async fn of_job(
    host: &Host,
    job: &CiJob,
    limit_minutes: i64,
) -> Result<CacheStore, String> {
    let server = match job.server_url.as_str() {
        // A job written by hand.
        "" => "http://localhost",
        url => url,
    };
    let repository = repository(server, job.job.project_id).map_err(|error| chain(&error))?;
    let protected = job.sources.protected;
    let Some(config) = &host.settings().cache else {
        let root = host.state_path().join("cache");
        let max_bytes = CacheStore::MAX_FOLDER_BYTES;
        return Ok(CacheStore::folder(root, max_bytes, repository, protected));
    };
    let path = match config.repo.as_str() {
        "" => repository,
        repo => format!("{repo}/{repository}"),
    };
    let repository = Repository::new(&config.registry, &path)
        .map_err(|error| format!("{path} is no name for a cache repository: {error}"))?;
    let options = options(host, config, &repository, limit_minutes).await;
    let client = RegistryClient::new(options);
    Ok(CacheStore::registry(client, repository, protected))
}

/// The registry's own options: this host's login, never the job's, and no mirror, which would not know what was just
/// stored.
async fn options(
    host: &Host,
    config: &CacheConfig,
    repository: &Repository,
    limit_minutes: i64,
) -> RegistryOptions {
    let images = &host.settings().images;
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
    use crate::cache::store::Place;
    use crate::config::Config;
    use crate::host::HostConfig;
    use crate::job::testing;

    fn host(cache: Option<CacheConfig>) -> Host {
        let mut settings = Config {
            cache,
            ..Config::default()
        };
        settings.images.docker_config = None;
        let mirrors = vec!["mirror.example.com".to_owned()];
        settings
            .images
            .registries
            .mirrors
            .insert("registry.example.com:5000".to_owned(), mirrors);
        Host::new(HostConfig {
            state_dir: Some("/nowhere".into()),
            settings,
            ..HostConfig::default()
        })
    }

    async fn place(cache: Option<CacheConfig>) -> CacheStore {
        of_job(&host(cache), &testing::job(), 10).await.unwrap()
    }

    fn registry() -> CacheConfig {
        CacheConfig {
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
                let mut job = testing::job();
                job.sources.protected = protected;
                let place = of_job(&host(cache.clone()), &job, 10).await.unwrap();
                assert_eq!(place.protected, protected, "{place:?}");
            }
        }
    }

    /// What was just stored is not on a mirror, and a request takes no longer than the job allows.
    #[tokio::test]
    async fn the_registry_itself_is_asked_within_the_jobs_limit() {
        let job = testing::job();
        let store = of_job(&host(Some(registry())), &job, 3).await.unwrap();
        let Place::Registry { client, repository } = &store.place else {
            panic!("{store:?} is no registry")
        };
        assert_eq!(
            client.options().request_timeout,
            Some(Duration::from_secs(180))
        );
        assert!(client.options().mirrors_of(repository).is_empty());
    }

    #[tokio::test]
    async fn caches_are_below_the_operators_prefix_or_on_this_host() {
        let config = |repo: &str| {
            Some(CacheConfig {
                registry: "registry.example.com:5000".to_owned(),
                repo: repo.to_owned(),
                credential: None,
            })
        };
        let name = async |repo: &str| place(config(repo)).await.registry_name().unwrap();
        assert_eq!(
            name("").await,
            "registry.example.com:5000/ci-cache/gitlab.example.com/7"
        );
        assert_eq!(
            name("team/vk").await,
            "registry.example.com:5000/team/vk/ci-cache/gitlab.example.com/7"
        );
        assert_eq!(place(None).await.registry_name(), None);
    }

    /// gitlab-runner, wire §4.7.
    #[test]
    fn a_limit_that_is_none_is_ten_minutes() {
        for (minutes, seconds) in [(1, 60), (0, 600), (-3, 600), (i64::MAX, 864_000)] {
            assert_eq!(limit(minutes), Duration::from_secs(seconds));
        }
    }
}
