//! Room on the disk.

use super::*;

#[tokio::test]
async fn an_image_that_no_disk_holds_is_refused_before_it_is_downloaded() {
    let registry = Registry::start();
    let image = Image::new().layer(small_layer("a"), Compression::Gzip);
    let mut manifest = image.push_blobs(&registry, "a:1");
    // The registry does not compare sizes.
    manifest["layers"][0]["size"] = json!(1_u64 << 50);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    image_maker::push_manifest(&registry, "a:1", kind, &manifest);
    let host = Host::new();

    let (error, text) = host.failure(&registry.image("a:1")).await;

    assert!(matches!(cause(&error), PullCause::NoSpace { .. }), "{text}");
    assert!(text.contains("needs about 3221225472 MiB"), "{text}");
    assert!(!host.was_told("Layers"));
}

#[tokio::test]
async fn an_image_that_alone_exceeds_the_store_is_refused_as_it_unpacks() {
    let registry = Registry::start();
    let tar = Tar::new().file("a", 0o644, &vec![0; 20 << 20]).finish();
    Image::new()
        .layer(tar, Compression::Gzip)
        .push(&registry, "bomb:1");
    Image::new()
        .layer(small_layer("a"), Compression::Gzip)
        .push(&registry, "a:1");
    let host = Host::with(ImageSettings {
        max_bytes: 4 << 20,
        ..settings(RegistryOptions::default())
    });
    drop(host.pull(&registry.image("a:1")).await.unwrap());

    let (error, text) = host.failure(&registry.image("bomb:1")).await;

    assert!(
        matches!(cause(&error), PullCause::LargerThanStore { .. }),
        "{text}"
    );
    assert!(
        text.contains("4 MiB") && text.contains("store_size"),
        "{text}"
    );
    assert_eq!(host.left_over(), 0);
    assert_eq!(host.images.list().unwrap().len(), 1, "nobody gives way");
}
