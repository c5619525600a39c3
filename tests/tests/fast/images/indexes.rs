//! Indexes within indexes, variants, and what stands in an index beside images.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn image(name: &str, platform: &str) -> Image {
    Image::new()
        .platform(platform)
        .layer(small_layer(name), Compression::Gzip)
}

fn descriptor(media_type: &str, digest: Digest, size: usize) -> Value {
    json!({"mediaType": media_type, "digest": digest.to_string(), "size": size})
}

/// Pushes `image` into the repository of `name` under its digest alone, and answers its descriptor, without a platform.
fn push_untagged(registry: &Registry, name: &str, image: &Image) -> Value {
    let manifest = image.push_blobs(registry, name);
    untagged(registry, name, MANIFEST, &manifest)
}

fn untagged(registry: &Registry, name: &str, media_type: &str, document: &Value) -> Value {
    let bytes = document.to_string();
    let digest = Digest::of(bytes.as_bytes());
    let repository = name.split(':').next().unwrap();
    let pinned = format!("{repository}@{digest}");
    image_maker::push_manifest(registry, &pinned, media_type, document);
    descriptor(media_type, digest, bytes.len())
}

fn for_platform(mut descriptor: Value, os: &str, architecture: &str) -> Value {
    descriptor["platform"] = json!({"os": os, "architecture": architecture});
    descriptor
}

fn index(entries: &[Value]) -> Value {
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
}

/// A Helm chart as its own tool pushes it.
fn chart(registry: &Registry, name: &str) -> Value {
    let config = "application/vnd.cncf.helm.config.v1+json";
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": image_maker::push_blob(registry, name, config, b"{\"name\":\"chart\"}".to_vec()),
        "layers": [image_maker::push_blob(registry, name, layer, b"chart".to_vec())],
    })
}

#[tokio::test]
async fn an_index_of_indexes_leads_to_the_platforms_image() {
    let registry = Registry::start();
    let attestation = for_platform(
        push_untagged(&registry, "a", &image("attestation", "unknown/unknown")),
        "unknown",
        "unknown",
    );
    let chart = untagged(&registry, "a", MANIFEST, &chart(&registry, "a"));
    let arm = push_untagged(&registry, "a", &image("arm", "linux/arm64"));
    let amd = push_untagged(&registry, "a", &image("amd", "linux/amd64"));
    let inner_arm = untagged(
        &registry,
        "a",
        INDEX,
        &index(&[for_platform(arm, "linux", "arm64")]),
    );
    let inner_amd = untagged(
        &registry,
        "a",
        INDEX,
        &index(&[attestation.clone(), for_platform(amd, "linux", "amd64")]),
    );
    // One level says for what it is, one does not.
    let middle = untagged(&registry, "a", INDEX, &index(&[inner_amd]));
    let outer = index(&[
        attestation,
        chart,
        for_platform(inner_arm, "linux", "arm64"),
        middle,
    ]);
    let digest = image_maker::push_manifest(&registry, "a:1", INDEX, &outer);
    let host = Host::new();
    let name = registry.image("a:1");

    let guests = host.pull(&name).await.unwrap();
    let mut other = PullRequest::new(&name, PullPolicy::Always);
    other.platform = Some("linux/arm64".to_owned());
    let arms = host.ensure(&other).await.unwrap();
    other.platform = Some("linux/s390x".to_owned());
    let none = chain(&host.ensure(&other).await.unwrap_err());
    let kept = host
        .ensure(&PullRequest::new(&name, PullPolicy::Never))
        .await
        .unwrap();
    let pinned = format!("{}@{digest}", registry.image("a"));
    let by_digest = host
        .ensure(&PullRequest::new(&pinned, PullPolicy::IfNotPresent))
        .await
        .unwrap();

    assert!(listing(&guests.rootfs(), "/").contains("amd"));
    assert!(listing(&arms.rootfs(), "/").contains("arm"));
    assert_eq!(arms.platform(), "linux/arm64");
    for image in [&guests, &arms, &kept, &by_digest] {
        assert_eq!(image.digest(), digest, "what is named is the index");
    }
    assert_eq!(kept.rootfs(), guests.rootfs());
    assert_eq!(by_digest.rootfs(), guests.rootfs());
    // The chart has no platform, so it was looked at; attestations are for none.
    assert!(
        none.contains("linux/s390x") && none.contains("images for linux/arm64, linux/amd64"),
        "{none}"
    );
    assert!(!none.contains("unknown"), "{none}");
}

#[tokio::test]
async fn of_variants_the_best_that_runs_is_taken() {
    let registry = Registry::start();
    let variants = [
        "linux/amd64/v4",
        "linux/amd64/v2",
        "linux/386",
        "linux/amd64",
    ];
    let images: Vec<_> = variants
        .iter()
        .map(|platform| image(&platform.replace('/', "-"), platform))
        .collect();
    push_index(&registry, "a:1", &images);
    push_index(&registry, "old:1", &images[..3]);
    let host = Host::new();
    let taken = async |name: &str, platform: Option<&str>| {
        let mut request = PullRequest::new(&registry.image(name), PullPolicy::Always);
        request.platform = platform.map(str::to_owned);
        let image = host.ensure(&request).await.unwrap();
        image.platform().to_owned()
    };

    assert_eq!(taken("a:1", None).await, "linux/amd64");
    assert_eq!(taken("a:1", Some("linux/amd64/v3")).await, "linux/amd64/v2");
    assert_eq!(taken("a:1", Some("linux/amd64/v4")).await, "linux/amd64/v4");
    assert_eq!(taken("a:1", Some("linux/386")).await, "linux/386");
    assert_eq!(taken("old:1", None).await, "linux/386");
}

#[tokio::test]
async fn an_entry_that_does_not_say_for_what_is_judged_by_its_configuration() {
    let registry = Registry::start();
    let arm = push_untagged(&registry, "a", &image("arm", "linux/arm64"));
    let amd = push_untagged(&registry, "a", &image("amd", "linux/amd64"));
    image_maker::push_manifest(&registry, "a:1", INDEX, &index(&[arm.clone(), amd]));
    image_maker::push_manifest(&registry, "a:2", INDEX, &index(&[arm]));
    let host = Host::new();

    let found = host.pull(&registry.image("a:1")).await.unwrap();
    let (error, text) = host.failure(&registry.image("a:2")).await;

    assert!(listing(&found.rootfs(), "/").contains("amd"));
    assert!(
        matches!(
            cause(&error),
            PullCause::Manifest {
                source: ManifestError::Platform { .. },
                ..
            }
        ),
        "{text}"
    );
    assert!(text.contains("images for linux/arm64"), "{text}");
}

#[tokio::test]
async fn an_artifact_is_refused_by_name_alone_and_in_an_index_of_its_own() {
    let registry = Registry::start();
    let chart = chart(&registry, "chart");
    image_maker::push_manifest(&registry, "chart:1", MANIFEST, &chart);
    let entry = untagged(&registry, "chart", MANIFEST, &chart);
    let mut named = entry.clone();
    named["artifactType"] = "application/vnd.cncf.helm.config.v1+json".into();
    image_maker::push_manifest(&registry, "chart:2", INDEX, &index(&[entry]));
    image_maker::push_manifest(&registry, "chart:3", INDEX, &index(&[named]));
    let host = Host::new();

    for tag in ["chart:1", "chart:2", "chart:3"] {
        let (error, text) = host.failure(&registry.image(tag)).await;

        assert!(
            matches!(
                cause(&error),
                PullCause::Manifest {
                    source: ManifestError::Artifact { .. },
                    ..
                }
            ),
            "{tag}: {text}"
        );
        for part in [
            "no container image but a Helm chart",
            "vnd.cncf.helm.config.v1+json",
        ] {
            assert!(text.contains(part), "{tag}: {text}");
        }
    }
}

/// A registry that holds `documents` under their digests, and under the tag `1` the last of them.
fn hostile(documents: Vec<(&'static str, Vec<u8>)>) -> FaultProxy {
    let last = documents.last().unwrap().clone();
    let by_digest: BTreeMap<_, _> = documents
        .into_iter()
        .map(|document| (Digest::of(&document.1).to_string(), document))
        .collect();
    FaultProxy::start("", move |request| {
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let found = if name == "1" {
            Some(&last)
        } else {
            by_digest.get(name)
        };
        match found {
            Some((media_type, bytes)) => {
                let headers = vec![("Content-Type".to_owned(), (*media_type).to_owned())];
                Action::Reply(200, headers, bytes.clone())
            }
            None => Action::status(404),
        }
    })
}

fn asked(proxy: &FaultProxy) -> usize {
    let requests = proxy.requests();
    let manifests = requests.iter().filter(|r| r.target.contains("/manifests/"));
    manifests.count()
}

#[tokio::test]
async fn no_index_leads_on_for_ever() {
    let named = |document: &[u8], media_type: &str| {
        descriptor(media_type, Digest::of(document), document.len())
    };
    let bytes = |entries: &[Value]| index(entries).to_string().into_bytes();
    // A chain from its end, and one index that names a hundred others, each twice.
    let mut chain_of = vec![(INDEX, bytes(&[]))];
    for _ in 0..50 {
        let next = bytes(&[named(&chain_of.last().unwrap().1, INDEX)]);
        chain_of.push((INDEX, next));
    }
    let mut wide: Vec<_> = (0..100_u32)
        .map(|number| {
            let entry = for_platform(named(&number.to_be_bytes(), MANIFEST), "linux", "s390x");
            (INDEX, bytes(&[entry]))
        })
        .collect();
    let entries: Vec<_> = wide.iter().map(|(_, one)| named(one, INDEX)).collect();
    wide.push((INDEX, bytes(&[&entries[..], &entries[..]].concat())));
    let twice = vec![
        wide[0].clone(),
        (INDEX, bytes(&[entries[0].clone(), entries[0].clone()])),
    ];

    for (documents, most) in [(chain_of, 9), (wide, 33)] {
        let proxy = hostile(documents);

        let (error, text) = Host::new().failure(&proxy.image("a:1")).await;

        assert!(
            matches!(
                cause(&error),
                PullCause::Manifest {
                    source: ManifestError::Winding { .. },
                    ..
                }
            ),
            "{text}"
        );
        assert!(asked(&proxy) <= most, "{} requests", asked(&proxy));
    }
    let proxy = hostile(twice);
    let (_, text) = Host::new().failure(&proxy.image("a:1")).await;
    assert!(text.contains("images for linux/s390x"), "{text}");
    assert_eq!(asked(&proxy), 2, "what is named twice is asked for once");
}
