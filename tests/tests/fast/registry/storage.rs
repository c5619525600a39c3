//! Registries that send their clients elsewhere for blobs, or for uploads.

use super::tokens::{token, token_registry};
use super::*;

#[tokio::test]
async fn a_redirect_to_another_host_does_not_get_the_login() {
    let registry = Registry::start();
    let content = noise(1000);
    let digest = push(
        &registry.client(),
        &repository(registry.host(), "a"),
        &content,
    )
    .await;
    let storage = FaultProxy::start(registry.host(), |_| Action::Forward);
    let target = format!("http://{}/v2/a/blobs/{digest}", storage.host());
    let proxy = token_registry(&registry, |_, _| token(&json!({"token": "good"})));
    let front = FaultProxy::start(&proxy.host(), move |request| {
        let authorized = request.headers.contains_key("authorization");
        if authorized && request.target.contains("/blobs/") {
            Action::with_header(307, "Location", &target)
        } else {
            Action::Forward
        }
    });

    let pulled = pull(
        &quick_client(),
        &repository(&front.host(), "a"),
        digest,
        BlobSize::Exactly(1000),
    )
    .await;

    assert!(pulled.unwrap() == content);
    let seen = storage.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].headers.get("authorization"), None);
}

#[tokio::test]
async fn an_upload_elsewhere_does_not_get_the_login() {
    let registry = Registry::with(Demands {
        login: true,
        tls: false,
    });
    let storage = FaultProxy::start(registry.host(), |_| Action::status(201));
    let target = format!("http://{}/upload?id=1", storage.host());
    let proxy = FaultProxy::start(registry.host(), move |request| {
        if request.method == "POST" {
            Action::with_header(202, "Location", &target)
        } else {
            Action::Forward
        }
    });
    let mut credentials = Credentials::default();
    let (username, password) = (USER.to_owned(), PASSWORD.to_owned());
    credentials.insert(&proxy.host(), Credential::Basic { username, password });
    let client = client(RegistryOptions {
        credentials,
        ..RegistryOptions::default()
    });

    let digest = push(&client, &repository(&proxy.host(), "a"), b"content").await;

    let seen = storage.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].headers.get("authorization"), None);
    let expected = format!(
        "/upload?id=1&digest={}",
        digest.to_string().replace(':', "%3A")
    );
    assert_eq!(seen[0].target, expected);
}

#[tokio::test]
async fn redirects_without_an_end_are_an_error() {
    let proxy = FaultProxy::start("", |_| Action::with_header(307, "Location", "/v2/again"));

    let error = quick_client()
        .manifest(&reference(&proxy.image("a:1")))
        .await
        .unwrap_err();

    assert!(
        chain(&error).contains("stopped after 10 redirects"),
        "{}",
        chain(&error)
    );
}

/// A storage, and a registry with a login that sends there for blobs, each time with a new link. `refuse` tells
/// whether the storage finds that the link with this number has expired.
async fn with_storage(
    refuse: impl Fn(usize) -> bool + Send + 'static,
) -> (Registry, FaultProxy, FaultProxy, RegistryClient, Digest) {
    let registry = Registry::start();
    let path = repository(registry.host(), "a");
    let digest = push(&registry.client(), &path, &noise(300_000)).await;
    let storage = FaultProxy::start(registry.host(), move |request| {
        let link = request.target.split_once("?link=").unwrap().1;
        if request.headers.contains_key("authorization") {
            Action::status(400)
        } else if request.method != "GET" || refuse(link.parse().unwrap()) {
            let headers = vec![("Content-Type".to_owned(), "text/plain".to_owned())];
            Action::Reply(403, headers, b"Request has expired".to_vec())
        } else {
            Action::DropAfter(200_000)
        }
    });
    let host = storage.host();
    let mut links = 0;
    let front = FaultProxy::start(registry.host(), move |request| {
        if !request.headers.contains_key("authorization") {
            return Action::with_header(401, "WWW-Authenticate", "Basic realm=\"a\"");
        }
        if !request.target.contains("/blobs/sha256:") {
            return Action::Forward;
        }
        links += 1;
        let target = format!("http://{host}{}?link={links}", request.target);
        Action::with_header(307, "Location", &target)
    });
    let mut credentials = Credentials::default();
    let (username, password) = (USER.to_owned(), PASSWORD.to_owned());
    credentials.insert(&front.host(), Credential::Basic { username, password });
    let client = client(RegistryOptions {
        credentials,
        ..RegistryOptions::default()
    });
    (registry, storage, front, client, digest)
}

#[tokio::test]
async fn a_link_that_has_expired_is_asked_for_anew() {
    let (_registry, storage, front, client, digest) =
        with_storage(|link| [1, 2, 4].contains(&link)).await;
    let path = repository(&front.host(), "a");

    let pulled = pull(&client, &path, digest, BlobSize::Exactly(300_000)).await;

    assert!(pulled.unwrap() == noise(300_000));
    // Two that expired, half of it, one that expired, the rest.
    assert_eq!(storage.requests().len(), 5);
}

#[tokio::test]
async fn a_storage_that_always_refuses_is_named_after_a_few_attempts() {
    let (_registry, storage, front, client, digest) = with_storage(|_| true).await;
    let path = repository(&front.host(), "a");

    let error = pull(&client, &path, digest, BlobSize::Exactly(300_000))
        .await
        .unwrap_err();

    assert!(
        matches!(
            error.kind(),
            RegistryErrorKind::StorageRefused { status: 403, .. }
        ),
        "{error:?}"
    );
    let text = chain(&error);
    assert!(
        text.contains("storage at 127.0.0.1") && text.contains("Request has expired"),
        "{text}"
    );
    assert_eq!(storage.requests().len(), 4);
}

#[tokio::test]
async fn a_blob_is_found_in_a_storage_that_answers_only_to_get() {
    let (_registry, _storage, front, client, digest) = with_storage(|_| false).await;
    let path = repository(&front.host(), "a");

    assert!(client.blob_exists(&path, digest).await.unwrap());
    assert!(!client.blob_exists(&path, Digest::of(b"x")).await.unwrap());
}
