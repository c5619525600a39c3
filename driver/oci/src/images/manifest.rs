//! Manifests and indexes: which platform's image, which configuration, which layers.

use serde::Deserialize;

use super::index::IndexEntry;
use super::json;
use super::platform::Platform;
use crate::registry::media_type::{
    DOCKER_INDEX, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, is_schema1,
};
use crate::registry::{Digest, DigestError};

/// Largest configuration blob that is read, in bytes; real ones have some thousand.
const MAX_CONFIG: u64 = 4 << 20;

/// The annotation by which BuildKit marks its attestations in an index (its docs/attestations/attestation-storage.md).
const ATTESTATION: &str = "attestation-manifest";

/// Most layers an image may have: more than any storage driver of Docker takes (its `overlay2` takes 128).
const MAX_LAYERS: usize = 512;

/// What a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// One image.
    Image(ImageManifest),
    /// One image for each of some platforms.
    Index(Vec<IndexEntry>),
}

/// An image's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageManifest {
    pub(crate) config: Part,
    /// The lowest first.
    pub(crate) layers: Vec<Part>,
}

/// A blob of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) digest: Digest,
    /// In bytes.
    pub(crate) size: u64,
}

/// Why a manifest is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Not JSON, or not of the expected form.
    #[error("its manifest cannot be read: {0}")]
    Json(String),
    /// Docker's first schema.
    #[error(
        "its manifest is of Docker's schema 1, which nothing writes since 2019: push the image again with a current tool"
    )]
    Schema1,
    /// No image.
    #[error("it is no container image: its {part} is of type `{media_type}`")]
    Foreign {
        /// Which part tells.
        part: &'static str,
        /// Its media type.
        media_type: String,
    },
    /// An artifact (OCI image spec 1.1, manifest.md, "Guidelines for Artifact Usage").
    #[error(
        "it is no container image but {}, an artifact of type `{artifact_type}`: name an image that programs can run in",
        artifact_name(.artifact_type)
    )]
    Artifact {
        /// Its type.
        artifact_type: String,
    },
    /// A digest that cannot be checked.
    #[error("its manifest names a blob that cannot be checked: {0}")]
    Digest(#[from] DigestError),
    /// Too much of something.
    #[error("its manifest has {found} {what}; at most {limit} are accepted")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How much.
        found: u64,
        /// How much is accepted.
        limit: u64,
    },
    /// An index that leads on and on.
    #[error(
        "its index leads to no image for platform {wanted} within {documents} manifests and {depth} indexes one in the \
         other: name the image by its digest, or push a shorter index"
    )]
    Winding {
        /// The platform.
        wanted: String,
        /// How many manifests are looked at.
        documents: usize,
        /// How many indexes may stand one in the other.
        depth: usize,
    },
    /// No image for the platform.
    #[error("there is no image for platform {wanted}; there are images for {available}")]
    Platform {
        /// The platform.
        wanted: String,
        /// The platforms there are images for.
        available: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    schema_version: u64,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    manifests: Option<Vec<RawDescriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    media_type: Option<String>,
    digest: String,
    size: u64,
    platform: Option<RawPlatform>,
    artifact_type: Option<String>,
    annotations: Option<RawAnnotations>,
}

#[derive(Deserialize)]
struct RawAnnotations {
    #[serde(rename = "vnd.docker.reference.type")]
    reference_type: Option<String>,
}

#[derive(Deserialize)]
struct RawPlatform {
    os: Option<String>,
    architecture: Option<String>,
    variant: Option<String>,
    #[serde(rename = "os.features")]
    features: Option<Vec<String>>,
}

impl RawPlatform {
    /// Whether the image needs more than a system and a processor, such as containerd's `erofs`.
    fn needs_features(&self) -> bool {
        self.features.as_ref().is_some_and(|list| !list.is_empty())
    }
}

/// Reads a manifest that came as `media_type` (empty if the registry did not say).
pub(crate) fn parse(media_type: &str, bytes: &[u8]) -> Result<Document, ManifestError> {
    if is_schema1(media_type) {
        return Err(ManifestError::Schema1);
    }
    let raw: RawDocument = json::read(bytes).map_err(ManifestError::Json)?;
    if raw.schema_version == 1 {
        return Err(ManifestError::Schema1);
    }
    // What the document says of itself is under its digest; the header is not.
    let said = raw.media_type.as_deref().filter(|said| !said.is_empty());
    let kind = said.unwrap_or(media_type);
    let image = |config, layers| image(config, layers, raw.artifact_type.as_deref());
    match kind {
        OCI_MANIFEST | DOCKER_MANIFEST => image(raw.config, raw.layers).map(Document::Image),
        OCI_INDEX | DOCKER_INDEX => index(raw.manifests),
        _ if is_schema1(kind) => Err(ManifestError::Schema1),
        // Registries that serve plain files say so of everything.
        _ if said.is_none() && raw.manifests.is_some() => index(raw.manifests),
        _ if said.is_none() && raw.config.is_some() => {
            image(raw.config, raw.layers).map(Document::Image)
        }
        _ => Err(match raw.artifact_type.as_deref() {
            Some(artifact_type) if !artifact_type.is_empty() => artifact(artifact_type),
            _ => foreign("manifest", kind),
        }),
    }
}

fn image(
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    artifact_type: Option<&str>,
) -> Result<ImageManifest, ManifestError> {
    let missing = |what: &str| ManifestError::Json(format!("it has no `{what}`"));
    let config = config.ok_or_else(|| missing("config"))?;
    let config_type = config.media_type.as_deref().unwrap_or_default();
    if !is_image_config(config_type) {
        // Without a type of its own an artifact is called by that of its configuration.
        let own_type = artifact_type.filter(|own_type| !own_type.is_empty());
        return Err(artifact(own_type.unwrap_or(config_type)));
    }
    within("bytes of configuration", config.size, MAX_CONFIG)?;
    let layers = layers.ok_or_else(|| missing("layers"))?;
    within("layers", count(&layers), MAX_LAYERS as u64)?;
    let layers = layers.iter().map(layer).collect::<Result<_, _>>()?;
    let config = part(&config)?;
    Ok(ImageManifest { config, layers })
}

/// How a layer is compressed is seen in its first bytes, as Docker does it: there are tools that say it wrongly.
fn layer(raw: &RawDescriptor) -> Result<Part, ManifestError> {
    let media_type = raw.media_type.as_deref().unwrap_or_default();
    let kind = media_type
        .strip_suffix("+gzip")
        .or_else(|| media_type.strip_suffix("+zstd"))
        .or_else(|| media_type.strip_suffix(".gzip"))
        .or_else(|| media_type.strip_suffix(".zstd"))
        .unwrap_or(media_type);
    match kind {
        "application/vnd.oci.image.layer.v1.tar"
        | "application/vnd.oci.image.layer.nondistributable.v1.tar"
        | "application/vnd.docker.image.rootfs.diff.tar"
        | "application/vnd.docker.image.rootfs.foreign.diff.tar" => part(raw),
        _ => Err(foreign("layer", media_type)),
    }
}

fn index(manifests: Option<Vec<RawDescriptor>>) -> Result<Document, ManifestError> {
    let manifests =
        manifests.ok_or_else(|| ManifestError::Json("it has no `manifests`".to_owned()))?;
    Ok(Document::Index(
        manifests.into_iter().filter_map(entry).collect(),
    ))
}

/// What an index names, without what is for nobody.
fn entry(raw: RawDescriptor) -> Option<IndexEntry> {
    let is_attestation = (raw.annotations)
        .and_then(|annotations| annotations.reference_type)
        .is_some_and(|kind| kind == ATTESTATION);
    if is_attestation {
        return None;
    }
    // An image's own type is that of its configuration.
    let artifact_type = raw.artifact_type.unwrap_or_default();
    if !artifact_type.is_empty() && !is_image_config(&artifact_type) {
        return Some(IndexEntry::Artifact(short(&artifact_type)));
    }
    let media_type = raw.media_type.unwrap_or_default();
    if !matches!(
        media_type.as_str(),
        OCI_MANIFEST | DOCKER_MANIFEST | OCI_INDEX | DOCKER_INDEX | ""
    ) {
        return Some(IndexEntry::Artifact(short(&media_type)));
    }
    let platform = match raw.platform {
        None => None,
        Some(platform) if platform.needs_features() => return None,
        Some(platform) => Some(Platform::new(
            platform.os.as_deref().unwrap_or_default(),
            platform.architecture.as_deref().unwrap_or_default(),
            platform.variant.as_deref(),
        )),
    };
    let digest = raw.digest.parse();
    Some(IndexEntry::Document { digest, platform })
}

/// Whether `media_type` is that of an image's configuration.
fn is_image_config(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json"
    )
}

/// What people call an artifact of that type.
fn artifact_name(artifact_type: &str) -> &'static str {
    match artifact_type {
        "application/vnd.cncf.helm.config.v1+json" => "a Helm chart",
        "application/vnd.docker.plugin.v1+json" => "a plugin of Docker",
        "application/vnd.vk.ci-cache.v1" => "a cache of vk",
        "application/vnd.oci.empty.v1+json" | "" => "something that does not say what it is",
        other if other.contains("wasm") => "a WebAssembly module",
        other if other.contains("in-toto") || other.contains("attestation") => "an attestation",
        other if other.contains("cosign") || other.contains("signature") => "a signature",
        _ => "something else",
    }
}

fn artifact(artifact_type: &str) -> ManifestError {
    let artifact_type = short(artifact_type);
    ManifestError::Artifact { artifact_type }
}

fn part(raw: &RawDescriptor) -> Result<Part, ManifestError> {
    Ok(Part {
        digest: raw.digest.parse()?,
        size: raw.size,
    })
}

fn foreign(part: &'static str, media_type: &str) -> ManifestError {
    let media_type = short(media_type);
    ManifestError::Foreign { part, media_type }
}

/// A media type that fits in a message.
fn short(media_type: &str) -> String {
    let plain = media_type.replace(char::is_control, " ");
    plain.chars().take(100).collect()
}

fn within(what: &'static str, found: u64, limit: u64) -> Result<(), ManifestError> {
    if found > limit {
        return Err(ManifestError::TooLarge { what, found, limit });
    }
    Ok(())
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn descriptor(media_type: &str, content: &[u8]) -> Value {
        json!({"mediaType": media_type, "digest": Digest::of(content).to_string(), "size": content.len()})
    }

    fn oci_manifest() -> Value {
        json!({
            "schemaVersion": 2,
            "config": descriptor("application/vnd.oci.image.config.v1+json", b"config"),
            "layers": [
                descriptor("application/vnd.oci.image.layer.v1.tar+gzip", b"a"),
                descriptor("application/vnd.oci.image.layer.v1.tar+zstd", b"bc"),
                descriptor("application/vnd.oci.image.layer.v1.tar", b"def"),
            ],
        })
    }

    fn read(media_type: &str, value: &Value) -> Result<Document, ManifestError> {
        parse(media_type, value.to_string().as_bytes())
    }

    #[test]
    fn an_image_has_a_configuration_and_layers_in_order() {
        let Ok(Document::Image(image)) = read(OCI_MANIFEST, &oci_manifest()) else {
            panic!("no image");
        };

        assert_eq!(image.config.digest, Digest::of(b"config"));
        let sizes: Vec<_> = image.layers.iter().map(|layer| layer.size).collect();
        assert_eq!(sizes, [1, 2, 3]);
    }

    #[test]
    fn dockers_media_types_mean_the_same() {
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST,
            "config": descriptor("application/vnd.docker.container.image.v1+json", b"config"),
            "layers": [descriptor("application/vnd.docker.image.rootfs.diff.tar.gzip", b"a")],
        });

        assert!(matches!(
            read("application/json", &manifest),
            Ok(Document::Image(_))
        ));
        let index = json!({"schemaVersion": 2, "mediaType": DOCKER_INDEX, "manifests": []});
        assert!(matches!(read(DOCKER_INDEX, &index), Ok(Document::Index(_))));
    }

    #[test]
    fn a_media_type_that_says_nothing_leaves_it_to_the_document() {
        for said in ["", "application/json", "text/plain"] {
            assert!(
                matches!(read(said, &oci_manifest()), Ok(Document::Image(_))),
                "{said}"
            );
        }
    }

    #[test]
    fn schema_1_is_refused_by_name() {
        let manifest = json!({"schemaVersion": 1, "fsLayers": []});

        for said in [
            "application/vnd.docker.distribution.manifest.v1+prettyjws",
            "application/json",
        ] {
            assert_eq!(read(said, &manifest), Err(ManifestError::Schema1));
        }
        assert!(ManifestError::Schema1.to_string().contains("schema 1"));
    }

    #[test]
    fn what_is_no_image_is_refused_with_its_type() {
        let mut chart = oci_manifest();
        chart["config"]["mediaType"] = "application/vnd.cncf.helm.config.v1+json".into();
        let mut layer = oci_manifest();
        layer["layers"][1]["mediaType"] =
            "application/vnd.oci.image.layer.v1.tar+gzip+encrypted".into();
        let mut other = oci_manifest();
        other["mediaType"] = "application/x".into();

        for (manifest, named) in [
            (chart, "helm"),
            (layer, "encrypted"),
            (other, "application/x"),
        ] {
            let error = read(OCI_MANIFEST, &manifest).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn too_many_layers_and_too_large_configurations_are_refused() {
        let mut many = oci_manifest();
        let layer = many["layers"][0].clone();
        many["layers"] = vec![layer; MAX_LAYERS + 1].into();
        let mut large = oci_manifest();
        large["config"]["size"] = (MAX_CONFIG + 1).into();

        for manifest in [many, large] {
            let error = read(OCI_MANIFEST, &manifest).unwrap_err();
            assert!(matches!(error, ManifestError::TooLarge { .. }), "{error}");
        }
    }

    #[test]
    fn a_digest_of_another_algorithm_is_refused() {
        let mut manifest = oci_manifest();
        manifest["layers"][0]["digest"] = format!("sha512:{}", "0".repeat(128)).into();

        assert!(matches!(
            read(OCI_MANIFEST, &manifest),
            Err(ManifestError::Digest(_))
        ));
    }

    #[test]
    fn artifacts_are_refused_by_name() {
        let artifact = |config: &str, own_type: &str| {
            let mut manifest = oci_manifest();
            manifest["config"]["mediaType"] = config.into();
            manifest["artifactType"] = own_type.into();
            read(OCI_MANIFEST, &manifest)
        };
        for (config, own_type, name, told) in [
            (
                "application/vnd.cncf.helm.config.v1+json",
                "",
                "a Helm chart",
                "helm.config",
            ),
            (
                "application/vnd.wasm.config.v1+json",
                "",
                "WebAssembly",
                "wasm.config",
            ),
            (
                "application/vnd.oci.empty.v1+json",
                "application/vnd.vk.ci-cache.v1",
                "a cache of vk",
                "ci-cache",
            ),
            (
                "application/vnd.oci.empty.v1+json",
                "",
                "does not say what it is",
                "oci.empty",
            ),
            (
                "application/x",
                "application/y",
                "something else",
                "`application/y`",
            ),
        ] {
            let error = artifact(config, own_type).unwrap_err().to_string();
            assert!(error.starts_with("it is no container image"), "{error}");
            assert!(error.contains(name) && error.contains(told), "{error}");
        }
        let image = artifact("application/vnd.oci.image.config.v1+json", "application/y");
        assert!(image.is_ok(), "what has all that an image has is one");
    }

    #[test]
    fn entries_that_are_for_nobody_are_left_out() {
        let of = |change: Value| {
            let mut descriptor = descriptor(OCI_MANIFEST, b"a");
            descriptor["platform"] = json!({"os": "linux", "architecture": "amd64"});
            for (key, value) in change.as_object().unwrap() {
                descriptor[key] = value.clone();
            }
            let index = json!({"schemaVersion": 2, "manifests": [descriptor]});
            let Ok(Document::Index(entries)) = read(OCI_INDEX, &index) else {
                panic!("no index");
            };
            entries
        };
        let plain = of(json!({}));
        assert!(matches!(
            plain.as_slice(),
            [IndexEntry::Document {
                platform: Some(_),
                ..
            }]
        ));
        for same in [
            json!({"annotations": {"vnd.docker.reference.type": "other"}}),
            json!({"annotations": null, "artifactType": ""}),
            json!({"artifactType": "application/vnd.oci.image.config.v1+json"}),
            json!({"mediaType": null}),
            json!({"mediaType": OCI_INDEX}),
            json!({"platform": {"os": "", "architecture": "AMD64", "variant": null, "os.features": []}}),
        ] {
            assert_eq!(of(same.clone()), plain, "{same}");
        }
        for none in [
            json!({"annotations": {"vnd.docker.reference.type": "attestation-manifest"}}),
            json!({"platform": {"os": "linux", "architecture": "amd64", "os.features": ["erofs"]}}),
        ] {
            assert_eq!(of(none.clone()), [], "{none}");
        }
        for artifact in [
            json!({"mediaType": "application/x"}),
            json!({"artifactType": "application/x"}),
        ] {
            let expected = IndexEntry::Artifact("application/x".to_owned());
            assert_eq!(of(artifact.clone()), [expected], "{artifact}");
        }
    }

    #[test]
    fn a_field_of_a_wrong_type_is_named_in_a_short_line() {
        let mut manifest = oci_manifest();
        manifest["layers"][1]["size"] = "x\u{1b}".repeat(10_000).into();

        let error = read(OCI_MANIFEST, &manifest).unwrap_err().to_string();

        assert!(error.contains("`layers[1].size`: invalid type"), "{error}");
        assert!(error.len() < 500 && !error.contains('\u{1b}'), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), media_type in ".*") {
            let _ = parse(&media_type, &bytes);
        }
    }
}
