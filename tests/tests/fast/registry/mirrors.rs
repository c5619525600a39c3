//! Mirrors.

use super::*;

#[tokio::test]
async fn a_mirror_is_asked_first_and_the_registry_has_what_it_has_not() {
    let registry = Registry::start();
    let content = noise(500_000);
    let path = repository(registry.host(), "a");
    let digest = push(&registry.client(), &path, &content).await;
    image_maker::push_manifest(
        &registry,
        "a:1",
        "application/vnd.oci.image.index.v1+json",
        &json!({"schemaVersion": 2, "manifests": []}),
    );
    // It has no manifests, and breaks in the middle of a blob.
    let mirror = FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/manifests/") {
            Action::status(404)
        } else if request.headers.contains_key("range") {
            Action::Close
        } else {
            Action::DropAfter(200_000)
        }
    });
    let own = FaultProxy::start(registry.host(), |_| Action::Forward);
    let client = client(RegistryOptions {
        mirrors: BTreeMap::from([(own.host(), vec![mirror.host()])]),
        ..RegistryOptions::default()
    });

    let manifest = client.manifest(&reference(&own.image("a:1"))).await;
    let pulled = pull(
        &client,
        &repository(&own.host(), "a"),
        digest,
        BlobSize::Exactly(500_000),
    )
    .await;

    assert!(manifest.is_ok());
    assert!(pulled.unwrap() == content);
    let asked = to_blobs(&own);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].headers["range"], "bytes=200000-");
    assert!(!to_blobs(&mirror).is_empty());
}
