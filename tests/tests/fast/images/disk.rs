//! Room on the disk.

use std::os::unix::fs::MetadataExt;

use vk_tests::noise::noise;

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

/// The room that a folder's files take on the disk, in bytes.
fn disk_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            match metadata.is_dir() {
                true => disk_bytes(&entry.path()),
                false => metadata.blocks() * 512,
            }
        })
        .sum()
}

/// Bytes that this process has read (proc(5), `/proc/pid/io`).
fn read_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_image_takes_the_room_that_its_data_takes() {
    const DATA: usize = 3 << 20;
    const SPARSE: u64 = 4 << 30;
    let registry = Registry::start();
    let data = Tar::new().file("data", 0o644, &noise(DATA)).finish();
    let sparse = Tar::new()
        .sparse_file("sparse", SPARSE, SPARSE / 2, b"in the middle")
        .finish();
    let zeros = |name| Tar::new().file(name, 0o644, &vec![0; 64 << 20]).finish();
    Image::new()
        .layer(data, Compression::Gzip)
        .layer(sparse, Compression::Gzip)
        .layer(zeros("gzip"), Compression::Gzip)
        .layer(zeros("zstd"), Compression::Zstd)
        .layer(zeros("plain"), Compression::None)
        .push(&registry, "sparse:1");
    let host = Host::new();

    let before = read_bytes();
    let image = host.pull(&registry.image("sparse:1")).await.unwrap();

    assert_eq!(host.left_over(), 0);
    let taken = disk_bytes(host.state.path());
    assert!(
        (DATA as u64..DATA as u64 + (1 << 20)).contains(&taken),
        "{taken} bytes on the disk"
    );
    let length = std::fs::metadata(image.rootfs()).unwrap().len();
    assert!(length > SPARSE + 3 * (64 << 20), "{length} bytes long");
    let listing = listing(&image.rootfs(), "/");
    for name in ["data", "sparse", "gzip", "zstd", "plain"] {
        assert!(listing.contains(name), "{listing}");
    }
    // It is compared with its record once a boot; whether it is as it was must not depend on its holes.
    drop(image);
    std::fs::remove_dir_all(host.state.path().join("images/checked")).unwrap();
    std::fs::create_dir(host.state.path().join("images/checked")).unwrap();
    let request = PullRequest::new(&registry.image("sparse:1"), PullPolicy::Never);
    host.ensure(&request).await.unwrap();
    // Holes are not read, which would take time, and memory of the host. Other tests of this process read some, too.
    let read = read_bytes() - before;
    assert!(read < SPARSE / 2, "{read} bytes read");
}
