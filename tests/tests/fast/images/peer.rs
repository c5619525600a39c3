//! The `oci-client` crate pulls what the registry client pushed, and pushes what the store pulls.

use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::manifest::{IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE};
use oci_client::secrets::RegistryAuth;

use super::*;

/// The crate's client, for registries that speak plain HTTP.
fn peer() -> Client {
    // It takes the process's cryptography, even where it needs none; another test may have said which.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    })
}

fn login() -> RegistryAuth {
    RegistryAuth::Basic(USER.to_owned(), PASSWORD.to_owned())
}

/// A layer with a file of a megabyte and what else there is in a folder.
fn layer() -> Vec<u8> {
    Tar::new()
        .folder("etc", 0o755)
        .file("etc/motd", 0o644, b"hello\n")
        .file("etc/large", 0o600, &vec![b'x'; 1 << 20])
        .symlink("etc/link", "motd")
        .finish()
}

#[tokio::test]
async fn the_oci_client_crate_pulls_what_we_pushed() {
    let registry = Registry::with(Demands {
        login: true,
        ..Demands::default()
    });
    let image = Image::new().layer(layer(), Compression::None);
    let pushed = image.push(&registry, "team/ours:1");
    let name: oci_client::Reference = registry.image("team/ours:1").parse().unwrap();

    let pulled = peer()
        .pull(&name, &login(), vec![IMAGE_LAYER_MEDIA_TYPE])
        .await
        .unwrap();

    assert_eq!(pulled.digest, Some(pushed.to_string()));
    assert_eq!(&pulled.config.data[..], image.config_blob());
    let layers: Vec<_> = pulled.layers.iter().map(|layer| &layer.data[..]).collect();
    assert_eq!(layers, [layer()]);
}

#[tokio::test]
async fn we_pull_what_the_oci_client_crate_pushed() {
    let registry = Registry::with(Demands {
        login: true,
        ..Demands::default()
    });
    let tar = layer();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &tar).unwrap();
    let layers = [ImageLayer::oci_v1_gzip(gzip.finish().unwrap(), None)];
    let config = Image::new().layer(tar, Compression::Gzip).config_blob();
    let name = registry.image("team/theirs:1");

    peer()
        .push(
            &name.parse().unwrap(),
            &layers,
            Config::oci_v1(config, None),
            &login(),
            None,
        )
        .await
        .unwrap();
    let host = Host::with(settings(registry.options()));
    let image = host.pull(&name).await.unwrap();

    assert_eq!(layers[0].media_type, IMAGE_LAYER_GZIP_MEDIA_TYPE);
    assert_sound(&image.rootfs());
    let out = tempfile::tempdir().unwrap();
    extract(&image.rootfs(), out.path());
    let read = |file: &str| std::fs::read(out.path().join(file)).unwrap();
    assert_eq!(read("etc/motd"), b"hello\n");
    assert_eq!(read("etc/large").len(), 1 << 20);
    let target = std::fs::read_link(out.path().join("etc/link")).unwrap();
    assert_eq!(target, Path::new("motd"));
}
