//! Caches in a real registry, and in one that misbehaves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use vk_oci::{RegistryClient, RegistryErrorKind, RegistryOptions, Repository};
use vk_tests::fault_proxy::{Action, FaultProxy, Request};
use vk_tests::image_maker::Image;
use vk_tests::registry::{Demands, Registry, short_retries};
use vk_text::chain;
use vk_trace::output_channel;
use vk_transfer::Spool;
use vk_transfer::{CacheError, ProgressReporting, ProjectCaches, Stored, repository, tag};

/// A GitLab with a port, whose colon no repository's name may hold.
const GITLAB: &str = "https://GitLab.example.com:8443/";

fn client(options: RegistryOptions) -> RegistryClient {
    RegistryClient::new(RegistryOptions {
        retry: short_retries(),
        ..options
    })
}

/// The caches of project `id` at `host`.
fn caches(host: &str, options: RegistryOptions, id: u64, protected: bool) -> ProjectCaches {
    let repository = Repository::new(host, &repository(GITLAB, id).unwrap()).unwrap();
    ProjectCaches::registry(client(options), repository, protected)
}

fn plain(host: &str) -> ProjectCaches {
    caches(host, RegistryOptions::default(), 7, false)
}

async fn store(caches: &ProjectCaches, key: &str, content: &[u8]) -> Result<Stored, CacheError> {
    let (output, _) = output_channel();
    let silent = ProgressReporting {
        output: &output,
        every: None,
    };
    store_reporting(caches, key, content, silent).await
}

async fn store_reporting(
    caches: &ProjectCaches,
    key: &str,
    content: &[u8],
    reporting: ProgressReporting<'_>,
) -> Result<Stored, CacheError> {
    let folder = TempDir::new().unwrap();
    let mut spool = Spool::create(folder.path()).unwrap();
    spool.write(content).await.unwrap();
    caches
        .store(key, spool.finish().await.unwrap(), reporting)
        .await
}

async fn fetch(caches: &ProjectCaches, key: &str) -> Result<Option<Vec<u8>>, CacheError> {
    let (output, _) = output_channel();
    let silent = ProgressReporting {
        output: &output,
        every: None,
    };
    fetch_reporting(caches, key, silent).await
}

async fn fetch_reporting(
    caches: &ProjectCaches,
    key: &str,
    reporting: ProgressReporting<'_>,
) -> Result<Option<Vec<u8>>, CacheError> {
    let folder = TempDir::new().unwrap();
    let Some(mut archive) = caches.fetch(key, folder.path(), reporting).await? else {
        return Ok(None);
    };
    let mut content = Vec::new();
    archive.read_to_end(&mut content).await.unwrap();
    drop(archive);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    Ok(Some(content))
}

/// `METHOD path` of each request, digests and sessions left out.
fn calls(proxy: &FaultProxy) -> Vec<String> {
    let prefix = "/v2/ci-cache/gitlab.example.com-8443/7/";
    proxy
        .requests()
        .iter()
        .filter_map(|request| {
            let path = request.target.strip_prefix(prefix)?;
            let mut parts: Vec<&str> = path.split(['?', '/']).take(2).collect();
            if parts.first() == Some(&"blobs") && parts.get(1) != Some(&"uploads") {
                parts.truncate(1);
            }
            parts.truncate(if parts.first() == Some(&"manifests") {
                1
            } else {
                2
            });
            Some(format!("{} {}", request.method, parts.join("/")))
        })
        .collect()
}

fn is_layer_upload(request: &Request) -> bool {
    request.method == "PUT" && request.target.contains("/blobs/uploads/")
}

#[tokio::test]
async fn a_cache_is_missed_stored_found_and_replaced() {
    let registry = Registry::start();
    let caches = plain(registry.host());
    assert_eq!(fetch(&caches, "deps-main").await.unwrap(), None);

    let content = vec![7; 3 << 20];
    assert_eq!(
        store(&caches, "deps-main", &content).await.unwrap(),
        Stored::Written
    );
    assert!(fetch(&caches, "deps-main").await.unwrap().unwrap() == content);

    assert_eq!(
        store(&caches, "deps-main", b"new").await.unwrap(),
        Stored::Written
    );
    assert_eq!(fetch(&caches, "deps-main").await.unwrap().unwrap(), b"new");
    assert_eq!(fetch(&caches, "deps").await.unwrap(), None);
}

#[tokio::test]
async fn projects_and_protected_refs_do_not_share_caches() {
    let registry = Registry::start();
    let of = |id, protected| caches(registry.host(), RegistryOptions::default(), id, protected);
    for (content, caches) in [
        (b"a", of(7, true)),
        (b"b", of(7, false)),
        (b"c", of(8, true)),
    ] {
        assert_eq!(fetch(&caches, "key").await.unwrap(), None);
        store(&caches, "key", content).await.unwrap();
    }
    for (content, caches) in [
        (b"a", of(7, true)),
        (b"b", of(7, false)),
        (b"c", of(8, true)),
    ] {
        assert_eq!(fetch(&caches, "key").await.unwrap().unwrap(), content);
    }
}

#[tokio::test]
async fn an_unchanged_cache_costs_a_look_and_a_manifest() {
    let registry = Registry::start();
    let proxy = FaultProxy::start(registry.host(), |_| Action::Forward);
    let caches = plain(&proxy.host());
    store(&caches, "key", b"content").await.unwrap();
    let first = calls(&proxy);
    assert_eq!(
        first
            .iter()
            .filter(|call| *call == "PUT blobs/uploads")
            .count(),
        2,
        "{first:?}"
    );
    assert_eq!(first.last().unwrap(), "PUT manifests");

    assert_eq!(
        store(&caches, "key", b"content").await.unwrap(),
        Stored::Unchanged
    );

    assert_eq!(
        calls(&proxy).get(first.len()..).unwrap(),
        ["HEAD blobs", "PUT manifests"]
    );
    // Another key with the same content as well.
    store(&caches, "other", b"content").await.unwrap();
    assert_eq!(calls(&proxy).len(), first.len() + 4);
}

#[tokio::test]
async fn a_registry_that_was_cleaned_up_gets_what_it_lacks() {
    let registry = Registry::start();
    let refused = Arc::new(AtomicUsize::new(0));
    let proxy = FaultProxy::start(registry.host(), {
        let refused = Arc::clone(&refused);
        move |request| {
            let is_manifest = request.method == "PUT" && request.target.contains("/manifests/");
            if is_manifest && refused.fetch_add(1, Ordering::SeqCst) == 1 {
                return Action::status(404);
            }
            Action::Forward
        }
    });
    let caches = plain(&proxy.host());
    store(&caches, "key", b"content").await.unwrap();

    assert_eq!(
        store(&caches, "key", b"content").await.unwrap(),
        Stored::Unchanged
    );

    assert_eq!(refused.load(Ordering::SeqCst), 3);
    assert_eq!(fetch(&caches, "key").await.unwrap().unwrap(), b"content");
}

#[tokio::test]
async fn a_registry_with_tls_and_login_keeps_caches() {
    let registry = Registry::with(Demands {
        tls: true,
        login: true,
    });
    let caches = caches(registry.host(), registry.options(), 7, true);

    store(&caches, "key", b"content").await.unwrap();

    assert_eq!(fetch(&caches, "key").await.unwrap().unwrap(), b"content");
}

#[tokio::test]
async fn a_registry_that_is_updated_loses_no_cache() {
    let registry = Registry::start();
    let count = Arc::new(AtomicUsize::new(0));
    let proxy = FaultProxy::start(registry.host(), {
        let count = Arc::clone(&count);
        // It is away as each of the two operations begins.
        move |_| match count.fetch_add(1, Ordering::SeqCst) {
            0 | 2 | 20 => Action::status(503),
            1 | 3 | 21 => Action::Close,
            _ => Action::Forward,
        }
    });
    let caches = plain(&proxy.host());

    store(&caches, "key", b"content").await.unwrap();
    count.store(20, Ordering::SeqCst);

    assert_eq!(fetch(&caches, "key").await.unwrap().unwrap(), b"content");
}

#[tokio::test]
async fn a_layer_that_breaks_off_is_resumed_and_a_forged_one_refused() {
    let registry = Registry::start();
    let content: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    store(&plain(registry.host()), "key", &content)
        .await
        .unwrap();
    let cut = Arc::new(AtomicUsize::new(0));
    let proxy = FaultProxy::start(registry.host(), {
        let cut = Arc::clone(&cut);
        move |request| {
            let is_layer = request.method == "GET" && request.target.contains("/blobs/");
            if is_layer && cut.fetch_add(1, Ordering::SeqCst) == 0 {
                return Action::DropAfter(300_000);
            }
            Action::Forward
        }
    });
    assert!(fetch(&plain(&proxy.host()), "key").await.unwrap().unwrap() == content);
    assert_eq!(cut.load(Ordering::SeqCst), 2);

    let forging = FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/blobs/") {
            return Action::Corrupt(100_000);
        }
        Action::Forward
    });
    let error = fetch(&plain(&forging.host()), "key").await.unwrap_err();
    assert!(
        chain(&error).contains("digest mismatch"),
        "{}",
        chain(&error)
    );
    assert!(!error.is_unavailable());
}

#[tokio::test]
async fn a_registry_that_is_gone_is_unavailable() {
    let mut registry = Registry::start();
    let caches = plain(registry.host());
    registry.stop();

    for error in [
        fetch(&caches, "key").await.unwrap_err(),
        store(&caches, "key", b"x").await.unwrap_err(),
    ] {
        assert!(error.is_unavailable(), "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_request_that_runs_into_its_limit_is_not_made_again() {
    let registry = Registry::start();
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/manifests/") || is_layer_upload(request) {
            return Action::Silence;
        }
        Action::Forward
    });
    let limit = Duration::from_millis(300);
    // A stall that ends with the limit is not what counts.
    for (round, stall) in [(1, Duration::from_secs(60)), (2, limit)] {
        let options = RegistryOptions {
            request_timeout: Some(limit),
            stall,
            ..RegistryOptions::default()
        };
        let caches = caches(&proxy.host(), options, 7, false);

        let before = calls(&proxy).len();
        let fetched = fetch(&caches, "key").await.unwrap_err();
        let asked = calls(&proxy).len() - before;
        let stored = store(&caches, "key", b"x").await.unwrap_err();

        assert_eq!(asked, 1);
        let uploads = proxy
            .requests()
            .iter()
            .filter(|request| is_layer_upload(request))
            .count();
        assert_eq!(uploads, round);
        for error in [fetched, stored] {
            assert!(error.is_unavailable(), "{}", chain(&error));
            let CacheError::Registry(error) = error else {
                unreachable!("it comes from the registry")
            };
            assert!(matches!(error.kind(), RegistryErrorKind::TimedOut(_)));
        }
    }
}

#[tokio::test]
async fn what_is_no_cache_or_too_large_is_refused_and_others_are_asked_for() {
    let registry = Registry::start();
    let caches = plain(registry.host());
    let name = format!("{}:{}", repository(GITLAB, 7).unwrap(), tag("image", false));
    Image::busybox().push(&registry, &name);
    let error = fetch(&caches, "image").await.unwrap_err();
    assert!(
        chain(&error).contains("no cache of vk"),
        "{}",
        chain(&error)
    );
    assert!(!error.is_unavailable());

    store(&caches, "key", b"x").await.unwrap();
    let proxy = FaultProxy::start(registry.host(), |request| {
        if !request.target.contains("/manifests/") {
            return Action::Forward;
        }
        let manifest = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
            "artifactType":"application/vnd.vk.ci-cache.v1","config":{"mediaType":"c","digest":"d","size":1},
            "layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+zstd","size":99999999999,
            "digest":"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]}"#;
        let kind = "application/vnd.oci.image.manifest.v1+json".to_owned();
        Action::Reply(
            200,
            vec![("Content-Type".to_owned(), kind)],
            manifest.into(),
        )
    });
    let error = fetch(&plain(&proxy.host()), "key").await.unwrap_err();
    assert!(
        matches!(error, CacheError::TooLarge(99_999_999_999)),
        "{}",
        chain(&error)
    );
    assert!(!error.is_unavailable());
}

#[tokio::test]
async fn a_manifest_whose_layer_is_gone_is_a_miss() {
    let registry = Registry::start();
    store(&plain(registry.host()), "key", b"x").await.unwrap();
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/blobs/") {
            return Action::status(404);
        }
        Action::Forward
    });

    assert_eq!(fetch(&plain(&proxy.host()), "key").await.unwrap(), None);
}

/// What is told of `work`, each line without the rate.
async fn told<T>(work: impl AsyncFnOnce(ProgressReporting<'_>) -> T) -> (T, Vec<String>) {
    let (output, mut read) = output_channel();
    let work = async {
        let result = work(ProgressReporting {
            output: &output,
            every: Some(Duration::from_secs(3600)),
        })
        .await;
        drop(output);
        result
    };
    let collect = async {
        let mut lines = Vec::new();
        while let Some(note) = read.recv().await {
            let text = note.output.text();
            lines.push(text.split(" (").next().unwrap_or_default().to_owned());
        }
        lines
    };
    tokio::join!(work, collect)
}

/// gitlab-runner, wire §3.5.
#[tokio::test]
async fn what_is_moved_is_told_and_an_unchanged_cache_moves_nothing() {
    let registry = Registry::start();
    let cut = Arc::new(AtomicUsize::new(0));
    let proxy = FaultProxy::start(registry.host(), {
        let cut = Arc::clone(&cut);
        move |request| {
            if is_layer_upload(request) && cut.fetch_add(1, Ordering::SeqCst) == 0 {
                return Action::status(503);
            }
            Action::Forward
        }
    });
    let caches = plain(&proxy.host());
    let content = vec![7; 1_500_000];

    let (_, lines) =
        told(async |reporting| store_reporting(&caches, "key", &content, reporting).await).await;
    assert_eq!(
        cut.load(Ordering::SeqCst),
        3,
        "the layer twice, the configuration once"
    );
    assert_eq!(lines, ["\rUploading cache 1.50 MB/1.50 MB"]);

    let (_, lines) = told(async |reporting| fetch_reporting(&caches, "key", reporting).await).await;
    let wanted = ["0 B", "1.50 MB"].map(|moved| format!("\rDownloading cache {moved}/1.50 MB"));
    assert_eq!(lines, wanted);

    let (stored, lines) =
        told(async |reporting| store_reporting(&caches, "key", &content, reporting).await).await;
    assert_eq!(stored.unwrap(), Stored::Unchanged);
    assert_eq!(lines, Vec::<String>::new());
}
