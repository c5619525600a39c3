//! The registry client against Debian's `docker-registry`, and against one that misbehaves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use vk_oci::{
    BlobSize, BlobSource, Count, Credential, Credentials, Digest, Pushed, Reference,
    RegistryClient, RegistryError, RegistryErrorKind, RegistryOptions, Repository, RetryPolicy,
};
use vk_tests::fault_proxy::{Action, FaultProxy, Request};
use vk_tests::image_maker::{self, Image};
use vk_tests::noise::noise;
use vk_tests::registry::{Demands, PASSWORD, Registry, USER, short_retries};
use vk_text::chain;

mod mirrors;
mod schemes;
mod storage;
mod tokens;
mod trouble;

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn quick_client() -> RegistryClient {
    client(RegistryOptions::default())
}

fn client(options: RegistryOptions) -> RegistryClient {
    RegistryClient::new(RegistryOptions {
        retry: short_retries(),
        ..options
    })
}

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

fn repository(host: &str, path: &str) -> Repository {
    Repository::new(host, path).unwrap()
}

async fn push(client: &RegistryClient, repository: &Repository, content: &[u8]) -> Digest {
    let digest = Digest::of(content);
    let source = BlobSource::Bytes(Bytes::copy_from_slice(content));
    let size = content.len() as u64;
    client
        .push_blob(repository, digest, size, source)
        .await
        .unwrap();
    digest
}

async fn pull(
    client: &RegistryClient,
    repository: &Repository,
    digest: Digest,
    size: BlobSize,
) -> Result<Vec<u8>, RegistryError> {
    let mut blob = client.blob(repository, digest, size).await?;
    let mut content = Vec::new();
    while let Some(chunk) = blob.chunk().await? {
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// A registry with a blob of `size` bytes, and a proxy before it that does what `rule` says to the nth request for
/// a blob.
async fn faulty(
    size: usize,
    mut rule: impl FnMut(usize) -> Action + Send + 'static,
) -> (Registry, FaultProxy, Vec<u8>, Digest) {
    let registry = Registry::start();
    let content = noise(size);
    let digest = push(
        &registry.client(),
        &repository(registry.host(), "a"),
        &content,
    )
    .await;
    let mut count = 0;
    let proxy = FaultProxy::start(registry.host(), move |request| {
        if request.target.contains("/blobs/") {
            count += 1;
            rule(count)
        } else {
            Action::Forward
        }
    });
    (registry, proxy, content, digest)
}

fn to_blobs(proxy: &FaultProxy) -> Vec<Request> {
    let requests = proxy.requests();
    requests
        .into_iter()
        .filter(|request| request.target.contains("/blobs/"))
        .collect()
}

#[tokio::test]
async fn blobs_and_manifests_come_back_as_they_were_pushed_under_every_demand() {
    for (tls, login) in [(false, false), (false, true), (true, false), (true, true)] {
        let registry = Registry::with(Demands { tls, login });
        let client = registry.client();
        let repository = repository(registry.host(), "team/a");
        let content = noise(300_000);
        let digest = Digest::of(&content);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        let source = BlobSource::File(file.path().to_owned(), Count::default());

        assert!(!client.blob_exists(&repository, digest).await.unwrap());
        let first = client
            .push_blob(&repository, digest, 300_000, source.clone())
            .await;
        let second = client.push_blob(&repository, digest, 300_000, source).await;

        assert_eq!(first.unwrap(), Pushed::Uploaded);
        assert_eq!(second.unwrap(), Pushed::AlreadyThere);
        assert!(client.blob_exists(&repository, digest).await.unwrap());
        let pulled = pull(&client, &repository, digest, BlobSize::Exactly(300_000)).await;
        assert!(pulled.unwrap() == content, "tls {tls}, login {login}");

        let image = Image::new().push(&registry, "team/a:1");
        let manifest = client
            .manifest(&reference(&registry.image("team/a:1")))
            .await
            .unwrap();
        assert_eq!(manifest.digest, image);
        assert_eq!(manifest.media_type, OCI_MANIFEST);
        let pinned = repository.pinned(image);
        assert_eq!(
            client.manifest(&pinned).await.unwrap().bytes,
            manifest.bytes
        );
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let registry = Registry::start();
    let client = quick_client();

    let error = client
        .manifest(&reference(&registry.image("no/such:9")))
        .await
        .unwrap_err();

    assert!(
        matches!(error.kind(), RegistryErrorKind::NotFound { .. }),
        "{error:?}"
    );
    let text = chain(&error);
    assert!(text.contains(&registry.image("no/such:9")), "{text}");
    assert!(text.contains("manifest unknown"), "{text}");
    let missing = Digest::of(b"missing");
    let error = client
        .blob(
            &repository(registry.host(), "a"),
            missing,
            BlobSize::AtMost(9),
        )
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), RegistryErrorKind::NotFound { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_wrong_login_is_denied_and_not_told() {
    let registry = Registry::with(Demands {
        login: true,
        tls: false,
    });
    let wanted = reference(&registry.image("a:1"));
    let mut credentials = Credentials::default();
    let (username, password) = (USER.to_owned(), "wrong-and-secret".to_owned());
    credentials.insert(registry.host(), Credential::Basic { username, password });

    let with = client(RegistryOptions {
        credentials,
        ..RegistryOptions::default()
    });
    for (client, login) in [(with, true), (quick_client(), false)] {
        let error = client.manifest(&wanted).await.unwrap_err();

        let RegistryErrorKind::Denied {
            status: 401,
            with_credential,
            ..
        } = error.kind()
        else {
            panic!("{error:?}");
        };
        assert_eq!(*with_credential, login);
        let text = format!("{} {error:?}", chain(&error));
        assert!(!text.contains("wrong-and-secret"), "{text}");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_knows_is_a_tls_error_and_an_insecure_registry_may_have_one() {
    let registry = Registry::with(Demands {
        tls: true,
        login: false,
    });
    Image::new().push(&registry, "a:1");
    let wanted = reference(&registry.image("a:1"));

    let error = quick_client().manifest(&wanted).await.unwrap_err();
    let insecure = client(RegistryOptions {
        insecure: BTreeSet::from([registry.host().to_owned()]),
        ..RegistryOptions::default()
    });

    assert!(
        matches!(error.kind(), RegistryErrorKind::Tls { .. }),
        "{error:?}"
    );
    assert!(insecure.manifest(&wanted).await.is_ok());
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_until_the_registry_is_back() {
    let mut registry = Registry::start();
    let wanted = reference(&registry.image("a:1"));
    Image::new().push(&registry, "a:1");
    registry.stop();

    let error = quick_client().manifest(&wanted).await.unwrap_err();
    let patient = RegistryClient::new(RegistryOptions {
        retry: RetryPolicy {
            lost: Duration::from_secs(60),
            ..short_retries()
        },
        ..RegistryOptions::default()
    });
    let waiting = tokio::spawn(async move { patient.manifest(&wanted).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    registry.resume();

    assert!(
        matches!(error.kind(), RegistryErrorKind::Unreachable { .. }),
        "{error:?}"
    );
    let text = chain(&error);
    assert!(text.contains("refused"), "{text}");
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_unreachable() {
    let error = quick_client()
        .manifest(&reference("no-such-host.invalid/a:1"))
        .await
        .unwrap_err();

    assert!(
        matches!(error.kind(), RegistryErrorKind::Unreachable { .. }),
        "{error:?}"
    );
    assert!(
        chain(&error).contains("host name is not found"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_download_that_breaks_goes_on_where_it_was() {
    let (_registry, proxy, content, digest) = faulty(1_000_000, |count| match count {
        1 => Action::DropAfter(400_000),
        2 => Action::DropAfter(0),
        3 => Action::Close,
        4 => Action::DropAfter(300_000),
        _ => Action::Forward,
    })
    .await;

    let repository = repository(&proxy.host(), "a");
    let pulled = pull(
        &quick_client(),
        &repository,
        digest,
        BlobSize::Exactly(1_000_000),
    )
    .await;

    assert!(pulled.unwrap() == content);
    let ranges: Vec<_> = to_blobs(&proxy)
        .iter()
        .map(|request| request.headers.get("range").cloned().unwrap_or_default())
        .collect();
    let rest = "bytes=400000-";
    assert_eq!(ranges, ["", rest, rest, rest, "bytes=700000-"]);
}

#[tokio::test]
async fn a_registry_without_ranges_sends_it_all_again() {
    let (_registry, proxy, content, digest) = faulty(500_000, |count| match count {
        1 => Action::DropAfter(123_456),
        _ => Action::IgnoreRange,
    })
    .await;

    let repository = repository(&proxy.host(), "a");
    let pulled = pull(
        &quick_client(),
        &repository,
        digest,
        BlobSize::AtMost(600_000),
    )
    .await;

    assert!(pulled.unwrap() == content);
}

#[tokio::test]
async fn a_connection_that_always_breaks_is_given_up() {
    let (_registry, proxy, _, digest) = faulty(500_000, |_| Action::DropAfter(1000)).await;

    let repository = repository(&proxy.host(), "a");
    let error = pull(
        &quick_client(),
        &repository,
        digest,
        BlobSize::Exactly(500_000),
    )
    .await
    .unwrap_err();

    assert!(
        matches!(error.kind(), RegistryErrorKind::Unreachable { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn content_with_another_digest_or_size_is_refused() {
    let (_registry, proxy, _, digest) = faulty(100_000, |count| match count {
        1 => Action::Corrupt(77_777),
        2 => Action::Truncate(99_999),
        _ => Action::Forward,
    })
    .await;
    let repository = repository(&proxy.host(), "a");
    let client = quick_client();
    let get = |size| pull(&client, &repository, digest, size);

    let corrupt = get(BlobSize::Exactly(100_000)).await.unwrap_err();
    let short = get(BlobSize::Exactly(100_000)).await.unwrap_err();
    let long = get(BlobSize::Exactly(99_999)).await.unwrap_err();
    let large = get(BlobSize::AtMost(99_999)).await.unwrap_err();

    assert!(
        matches!(corrupt.kind(), RegistryErrorKind::DigestMismatch { expected, .. } if *expected == digest),
        "{corrupt:?}"
    );
    assert!(
        matches!(
            short.kind(),
            RegistryErrorKind::SizeMismatch {
                expected: 100_000,
                found: 99_999
            }
        ),
        "{short:?}"
    );
    assert!(
        matches!(long.kind(), RegistryErrorKind::SizeMismatch { .. }),
        "{long:?}"
    );
    assert!(
        matches!(large.kind(), RegistryErrorKind::TooLarge { limit: 99_999 }),
        "{large:?}"
    );
}

#[tokio::test]
async fn a_manifest_with_another_digest_is_refused() {
    let registry = Registry::start();
    let digest = Image::new().push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), |_| Action::Corrupt(30));

    let pinned = repository(&proxy.host(), "a").pinned(digest);
    for wanted in [pinned, reference(&proxy.image("a:1"))] {
        let error = quick_client().manifest(&wanted).await.unwrap_err();

        assert!(
            matches!(error.kind(), RegistryErrorKind::DigestMismatch { .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_manifest_that_never_ends_is_cut_off() {
    let proxy = FaultProxy::start("", |_| Action::Reply(200, Vec::new(), vec![b' '; 5 << 20]));

    let error = quick_client()
        .manifest(&reference(&proxy.image("a:1")))
        .await
        .unwrap_err();

    assert!(
        matches!(error.kind(), RegistryErrorKind::TooLarge { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_busy_registry_is_asked_again_no_sooner_than_it_wants() {
    let (_registry, proxy, content, digest) = faulty(1000, |count| match count {
        1 => Action::with_header(503, "Retry-After", "1"),
        2 => Action::status(429),
        3 => Action::status(502),
        _ => Action::Forward,
    })
    .await;
    let start = std::time::Instant::now();

    let repository = repository(&proxy.host(), "a");
    let pulled = pull(
        &quick_client(),
        &repository,
        digest,
        BlobSize::Exactly(1000),
    )
    .await;

    assert!(pulled.unwrap() == content);
    // A lower bound holds on a slow machine, too.
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(to_blobs(&proxy).len(), 4);
}

#[tokio::test]
async fn a_registry_that_stays_busy_is_unavailable_and_its_words_are_told() {
    let body = br#"{"errors":[{"code":"TOOMANYREQUESTS","message":"the limit is reached"}]}"#;
    let proxy = FaultProxy::start("", |_| {
        let headers = vec![("Retry-After".to_owned(), "3600".to_owned())];
        Action::Reply(429, headers, body.to_vec())
    });

    let error = quick_client()
        .manifest(&reference(&proxy.image("a:1")))
        .await
        .unwrap_err();

    let text = chain(&error);
    assert!(
        matches!(
            error.kind(),
            RegistryErrorKind::Unavailable { status: 429, .. }
        ),
        "{text}"
    );
    assert!(text.contains("the limit is reached"), "{text}");
    let asked = proxy.requests();
    let asked: Vec<_> = asked
        .iter()
        .filter(|r| r.target.contains("/manifests/"))
        .collect();
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_request_that_runs_into_its_time_limit_is_not_tried_again() {
    let (_registry, proxy, _, digest) = faulty(100_000, |count| match count {
        1 => Action::Silence,
        _ => Action::Slow(1000, Duration::from_millis(50)),
    })
    .await;
    let client = client(RegistryOptions {
        request_timeout: Some(Duration::from_millis(300)),
        ..RegistryOptions::default()
    });
    let repository = repository(&proxy.host(), "a");

    for expected_requests in [1, 2] {
        let error = pull(&client, &repository, digest, BlobSize::Exactly(100_000))
            .await
            .unwrap_err();

        assert!(
            matches!(error.kind(), RegistryErrorKind::TimedOut(_)),
            "{error:?}"
        );
        assert_eq!(to_blobs(&proxy).len(), expected_requests);
    }
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_lost() {
    let (_registry, proxy, content, digest) = faulty(100_000, |count| match count {
        1 => Action::Silence,
        2 => Action::Slow(60_000, Duration::from_secs(2)),
        _ => Action::Forward,
    })
    .await;
    let client = RegistryClient::new(RegistryOptions {
        stall: Duration::from_millis(500),
        retry: RetryPolicy {
            lost: Duration::from_secs(60),
            ..short_retries()
        },
        ..RegistryOptions::default()
    });

    let repository = repository(&proxy.host(), "a");
    let pulled = pull(&client, &repository, digest, BlobSize::Exactly(100_000)).await;

    assert!(pulled.unwrap() == content);
    assert_eq!(to_blobs(&proxy).len(), 3);
}

#[tokio::test]
async fn an_upload_that_breaks_is_begun_again() {
    let registry = Registry::start();
    let mut puts = 0;
    let proxy = FaultProxy::start(registry.host(), move |request| {
        if request.method == "PUT" {
            puts += 1;
            match puts {
                1 => return Action::Close,
                2 => return Action::status(503),
                _ => {}
            }
        }
        Action::Forward
    });
    let repository = repository(&proxy.host(), "a");

    let digest = push(&quick_client(), &repository, &noise(200_000)).await;

    assert!(
        quick_client()
            .blob_exists(&repository, digest)
            .await
            .unwrap()
    );
    let begun = proxy
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .count();
    assert_eq!(begun, 3);
}
