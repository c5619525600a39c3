//! Transfers that are too slow, and temporary errors.

use super::*;

/// A client to which a second without progress is long.
fn hasty() -> RegistryClient {
    client(RegistryOptions {
        stall: Duration::from_millis(400),
        ..RegistryOptions::default()
    })
}

/// A trickle of a whole blob would take hours.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_trickle_is_given_up_whatever_it_is_of() {
    let trickle = || Action::Slow(1, Duration::from_millis(100));
    let registry = Registry::start();
    let path = repository(registry.host(), "a");
    let digest = push(&registry.client(), &path, &noise(300_000)).await;
    Image::new().push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), move |_| trickle());

    let size = BlobSize::Exactly(300_000);
    let blob = soon(pull(
        &hasty(),
        &repository(&proxy.host(), "a"),
        digest,
        size,
    ))
    .await;
    let wanted = reference(&proxy.image("a:1"));
    let manifest = soon(hasty().manifest(&wanted)).await;

    for error in [blob.unwrap_err(), manifest.unwrap_err()] {
        assert!(
            matches!(error.kind(), RegistryErrorKind::Unreachable { .. }),
            "{error:?}"
        );
        assert!(chain(&error).contains("bytes came within"), "{error:?}");
    }
}

#[tokio::test]
async fn a_trickle_goes_on_over_a_new_connection_where_it_was() {
    let (_registry, proxy, content, digest) = faulty(300_000, |count| match count {
        1 => Action::Slow(1, Duration::from_millis(100)),
        _ => Action::Forward,
    })
    .await;

    let path = repository(&proxy.host(), "a");
    let pulled = soon(pull(&hasty(), &path, digest, BlobSize::Exactly(300_000))).await;

    assert!(pulled.unwrap() == content);
    assert_eq!(to_blobs(&proxy).len(), 2);
}

#[tokio::test]
async fn a_slow_reader_is_no_trickle() {
    let (_registry, proxy, content, digest) = faulty(300_000, |_| Action::Forward).await;
    let path = repository(&proxy.host(), "a");
    let client = hasty();
    let mut blob = client
        .blob(&path, digest, BlobSize::Exactly(300_000))
        .await
        .unwrap();
    let mut read = Vec::new();

    while let Some(chunk) = blob.chunk().await.unwrap() {
        if read.len() < 50_000 {
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        read.extend_from_slice(&chunk);
    }

    assert!(read == content);
    assert_eq!(to_blobs(&proxy).len(), 1);
}

#[tokio::test]
async fn an_error_inside_a_registry_is_asked_about_again_and_told_if_it_stays() {
    let (_registry, proxy, content, digest) = faulty(1000, |count| match count {
        1 | 2 => Action::status(500),
        _ => Action::Forward,
    })
    .await;
    let broken = FaultProxy::start("", |_| Action::status(500));
    let path = repository(&proxy.host(), "a");

    let pulled = pull(&quick_client(), &path, digest, BlobSize::Exactly(1000)).await;
    let error = quick_client()
        .manifest(&reference(&broken.image("a:1")))
        .await
        .unwrap_err();

    assert!(pulled.unwrap() == content);
    assert!(chain(&error).contains("status 500"), "{error:?}");
    let asked = broken.requests();
    let asked = asked.iter().filter(|r| r.target.contains("/manifests/"));
    assert_eq!(asked.count(), 4);
}

/// A registry that sends a little more than what counts as progress over each connection, and breaks off.
#[tokio::test]
async fn a_server_that_goes_on_little_by_little_is_given_up_where_it_is_slower_than_the_least_rate()
{
    const SIZE: usize = 8_000_000;
    let (_registry, proxy, content, digest) = faulty(SIZE, |_| Action::DropAfter(70_000)).await;
    let path = repository(&proxy.host(), "a");
    let with = |least_rate: u64| {
        RegistryClient::new(RegistryOptions {
            retry: RetryPolicy {
                least_rate,
                ..short_retries()
            },
            ..RegistryOptions::default()
        })
    };
    let get = async |client: RegistryClient| {
        soon(pull(&client, &path, digest, BlobSize::Exactly(SIZE as u64))).await
    };

    // Pauses alone make it slower than that.
    let error = get(with(1 << 30)).await.unwrap_err();
    let tried = to_blobs(&proxy).len();
    let whole = get(with(4 << 10)).await;

    assert!(
        matches!(error.kind(), RegistryErrorKind::Unreachable { .. }),
        "{error:?}"
    );
    let text = chain(&error);
    assert!(text.contains("since it first failed, only"), "{text}");
    let needed = SIZE.div_ceil(70_000);
    assert!(tried < needed, "{tried} of {needed} connections");
    assert!(whole.unwrap() == content);
}
