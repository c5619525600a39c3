//! Tokens, and the services that give them.

use super::*;

/// A registry that wants a bearer token, and the requests that came to its token service.
pub(crate) fn token_registry(
    registry: &Registry,
    answer: impl Fn(&Request, usize) -> Action + Send + 'static,
) -> FaultProxy {
    let tokens = AtomicUsize::new(0);
    let own = Arc::new(std::sync::OnceLock::<String>::new());
    let proxy = FaultProxy::start(registry.host(), {
        let own = Arc::clone(&own);
        move |request| {
            if request.target.starts_with("/token") {
                return answer(request, tokens.fetch_add(1, Ordering::SeqCst) + 1);
            }
            let authorization = request.headers.get("authorization");
            if authorization.is_some_and(|value| value.starts_with("Bearer good")) {
                return Action::Forward;
            }
            let host = own.get().unwrap();
            let challenge =
                format!("Bearer realm=\"http://{host}/token\",service=\"the registry\"");
            Action::with_header(401, "WWW-Authenticate", &challenge)
        }
    });
    own.set(proxy.host()).unwrap();
    proxy
}

pub(crate) fn token(json: &serde_json::Value) -> Action {
    Action::Reply(200, Vec::new(), json.to_string().into_bytes())
}

fn to_tokens(proxy: &FaultProxy) -> Vec<Request> {
    let requests = proxy.requests();
    requests
        .into_iter()
        .filter(|request| request.target.starts_with("/token"))
        .collect()
}

#[tokio::test]
async fn an_anonymous_token_is_asked_for_once_and_used_for_all() {
    let registry = Registry::start();
    let content = noise(1000);
    let digest = push(
        &registry.client(),
        &repository(registry.host(), "a/b"),
        &content,
    )
    .await;
    let proxy = token_registry(&registry, |_, _| {
        token(&json!({"access_token": "good", "expires_in": 300}))
    });
    let repository = repository(&proxy.host(), "a/b");
    let client = quick_client();

    for _ in 0..3 {
        let pulled = pull(&client, &repository, digest, BlobSize::Exactly(1000)).await;
        assert!(pulled.unwrap() == content);
    }

    let asked = to_tokens(&proxy);
    assert_eq!(asked.len(), 1);
    assert_eq!(
        asked[0].target,
        "/token?scope=repository%3Aa%2Fb%3Apull&service=the+registry"
    );
    assert_eq!(asked[0].headers.get("authorization"), None);
}

#[tokio::test]
async fn a_push_asks_for_a_token_to_push_with_the_login() {
    let registry = Registry::start();
    let proxy = token_registry(&registry, |_, _| token(&json!({"token": "good"})));
    let mut credentials = Credentials::default();
    let (username, password) = (USER.to_owned(), PASSWORD.to_owned());
    credentials.insert(&proxy.host(), Credential::Basic { username, password });
    let client = client(RegistryOptions {
        credentials,
        ..RegistryOptions::default()
    });
    let repository = repository(&proxy.host(), "a");

    let digest = push(&client, &repository, b"content").await;
    let manifest = br#"{"schemaVersion":2}"#.to_vec();
    let tagged = repository.tagged("1").unwrap();
    // The registry does not like it; what matters is how it was asked.
    let _ = client.push_manifest(&tagged, OCI_MANIFEST, manifest).await;

    assert!(client.blob_exists(&repository, digest).await.unwrap());
    let asked = to_tokens(&proxy);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].target.contains("pull%2Cpush"),
        "{}",
        asked[0].target
    );
    assert!(asked[0].headers["authorization"].starts_with("Basic "));
}

#[tokio::test]
async fn an_identity_token_is_changed_into_an_access_token() {
    let registry = Registry::start();
    Image::new().push(&registry, "a:1");
    let proxy = token_registry(&registry, |request, _| {
        assert_eq!(request.method, "POST");
        token(&json!({"access_token": "good"}))
    });
    let mut credentials = Credentials::default();
    credentials.insert(&proxy.host(), Credential::Identity("refresh".to_owned()));
    let client = client(RegistryOptions {
        credentials,
        ..RegistryOptions::default()
    });

    assert!(
        client
            .manifest(&reference(&proxy.image("a:1")))
            .await
            .is_ok()
    );
    assert_eq!(to_tokens(&proxy).len(), 1);
}

#[tokio::test]
async fn an_expired_token_is_renewed_and_a_registry_that_takes_none_is_not_asked_for_ever() {
    let registry = Registry::start();
    Image::new().push(&registry, "a:1");
    let renewing = token_registry(&registry, |_, _| {
        token(&json!({"token": "good", "expires_in": 1}))
    });
    let refusing = token_registry(&registry, |_, count| {
        token(&json!({"token": format!("bad{count}")}))
    });
    let client = quick_client();

    for _ in 0..2 {
        let wanted = reference(&renewing.image("a:1"));
        assert!(client.manifest(&wanted).await.is_ok());
    }
    let error = client
        .manifest(&reference(&refusing.image("a:1")))
        .await
        .unwrap_err();

    assert_eq!(to_tokens(&renewing).len(), 2);
    assert!(
        matches!(error.kind(), RegistryErrorKind::Denied { status: 401, .. }),
        "{error:?}"
    );
    assert_eq!(to_tokens(&refusing).len(), 2);
}

#[tokio::test]
async fn a_login_that_the_token_service_sends_back_is_masked() {
    let registry = Registry::start();
    let proxy = token_registry(&registry, |request, _| {
        let shown = &request.headers["authorization"];
        let body =
            json!({"errors": [{"code": "X", "message": format!("who is {shown} ({PASSWORD})?")}]});
        Action::Reply(403, Vec::new(), body.to_string().into_bytes())
    });
    let mut credentials = Credentials::default();
    let (username, password) = (USER.to_owned(), PASSWORD.to_owned());
    credentials.insert(&proxy.host(), Credential::Basic { username, password });
    let client = client(RegistryOptions {
        credentials,
        ..RegistryOptions::default()
    });

    let error = client
        .manifest(&reference(&proxy.image("a:1")))
        .await
        .unwrap_err();

    let text = format!("{} {error:?}", chain(&error));
    assert!(text.contains("who is Basic [MASKED] ([MASKED])?"), "{text}");
    // `builder:hush-hush`
    assert!(!text.contains("YnVpbGRlcjpodXNoLWh1c2g="), "{text}");
}

#[tokio::test]
async fn a_token_service_that_has_moved_is_followed_and_only_its_own_host_sees_the_login() {
    let registry = Registry::start();
    Image::new().push(&registry, "a:1");
    let elsewhere = FaultProxy::start("", |_| token(&json!({"token": "good"})));
    let target = format!("http://{}/moved", elsewhere.host());
    let proxy = token_registry(&registry, move |request, _| {
        if request.target == "/token/here" {
            Action::with_header(307, "Location", &target)
        } else {
            Action::with_header(302, "Location", "/token/here")
        }
    });
    let mut credentials = Credentials::default();
    let (username, password) = (USER.to_owned(), PASSWORD.to_owned());
    credentials.insert(&proxy.host(), Credential::Basic { username, password });
    let client = client(RegistryOptions {
        credentials,
        ..RegistryOptions::default()
    });

    let manifest = client.manifest(&reference(&proxy.image("a:1"))).await;

    assert!(manifest.is_ok(), "{manifest:?}");
    let own = to_tokens(&proxy);
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|r| r.headers.contains_key("authorization")));
    let moved = elsewhere.requests();
    assert_eq!(moved[0].headers.get("authorization"), None);
}
