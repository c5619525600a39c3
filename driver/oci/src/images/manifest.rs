//! Manifests and indexes: which platform's image, which configuration, which layers.

use serde::Deserialize;

use super::platform::Platform;
use crate::registry::media_type::{
    DOCKER_INDEX, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, is_schema1,
};
use crate::registry::{Digest, DigestError};

/// Largest configuration blob that is read, in bytes; real ones have some thousand.
const MAX_CONFIG: u64 = 4 << 20;

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

/// An image of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) digest: Digest,
    pub(crate) platform: Option<Platform>,
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
    /// An index that leads to an index.
    #[error("its index names another index for the platform")]
    Nested,
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
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    manifests: Option<Vec<RawDescriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<RawPlatform>,
}

#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    variant: Option<String>,
}

/// Reads a manifest that came as `media_type` (empty if the registry did not say).
pub(crate) fn parse(media_type: &str, bytes: &[u8]) -> Result<Document, ManifestError> {
    if is_schema1(media_type) {
        return Err(ManifestError::Schema1);
    }
    let raw: RawDocument =
        serde_json::from_slice(bytes).map_err(|error| ManifestError::Json(error.to_string()))?;
    if raw.schema_version == 1 {
        return Err(ManifestError::Schema1);
    }
    // What the document says of itself is under its digest; the header is not.
    let said = raw.media_type.as_deref().filter(|said| !said.is_empty());
    let kind = said.unwrap_or(media_type);
    match kind {
        OCI_MANIFEST | DOCKER_MANIFEST => image(raw.config, raw.layers).map(Document::Image),
        OCI_INDEX | DOCKER_INDEX => index(raw.manifests),
        _ if is_schema1(kind) => Err(ManifestError::Schema1),
        // Registries that serve plain files say so of everything.
        _ if said.is_none() && raw.manifests.is_some() => index(raw.manifests),
        _ if said.is_none() && raw.config.is_some() => {
            image(raw.config, raw.layers).map(Document::Image)
        }
        _ => Err(foreign("manifest", kind)),
    }
}

fn image(
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
) -> Result<ImageManifest, ManifestError> {
    let missing = |what: &str| ManifestError::Json(format!("it has no `{what}`"));
    let config = config.ok_or_else(|| missing("config"))?;
    if !matches!(
        config.media_type.as_str(),
        "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json"
    ) {
        return Err(foreign("configuration", &config.media_type));
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
    let kind = raw
        .media_type
        .strip_suffix("+gzip")
        .or_else(|| raw.media_type.strip_suffix("+zstd"))
        .or_else(|| raw.media_type.strip_suffix(".gzip"))
        .or_else(|| raw.media_type.strip_suffix(".zstd"))
        .unwrap_or(&raw.media_type);
    match kind {
        "application/vnd.oci.image.layer.v1.tar"
        | "application/vnd.oci.image.layer.nondistributable.v1.tar"
        | "application/vnd.docker.image.rootfs.diff.tar"
        | "application/vnd.docker.image.rootfs.foreign.diff.tar" => part(raw),
        _ => Err(foreign("layer", &raw.media_type)),
    }
}

fn index(manifests: Option<Vec<RawDescriptor>>) -> Result<Document, ManifestError> {
    let manifests =
        manifests.ok_or_else(|| ManifestError::Json("it has no `manifests`".to_owned()))?;
    let entries = manifests
        .iter()
        .filter(|raw| {
            matches!(
                raw.media_type.as_str(),
                OCI_MANIFEST | DOCKER_MANIFEST | OCI_INDEX | DOCKER_INDEX | ""
            )
        })
        .map(|raw| {
            let platform = raw.platform.as_ref().map(|platform| {
                let variant = platform.variant.as_deref();
                Platform::new(&platform.os, &platform.architecture, variant)
            });
            Ok(IndexEntry {
                digest: raw.digest.parse()?,
                platform,
            })
        })
        .collect::<Result<_, DigestError>>()?;
    Ok(Document::Index(entries))
}

/// The image of an index for `wanted`: the closest one, the first among equals.
pub(crate) fn choose(entries: &[IndexEntry], wanted: &Platform) -> Result<Digest, ManifestError> {
    let best = entries
        .iter()
        .filter_map(|entry| Some((entry.platform.as_ref()?.distance(wanted)?, entry)))
        .min_by_key(|(distance, _)| *distance);
    if let Some((_, entry)) = best {
        return Ok(entry.digest);
    }
    // An index of one image that does not say for what, as some tools write, is taken at its word.
    if let [entry] = entries
        && entry.platform.is_none()
    {
        return Ok(entry.digest);
    }
    let known: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry.platform.as_ref())
        .filter(|platform| platform.is_known())
        .map(ToString::to_string)
        .take(20)
        .collect();
    let available = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    let wanted = wanted.to_string();
    Err(ManifestError::Platform { wanted, available })
}

fn part(raw: &RawDescriptor) -> Result<Part, ManifestError> {
    Ok(Part {
        digest: raw.digest.parse()?,
        size: raw.size,
    })
}

fn foreign(part: &'static str, media_type: &str) -> ManifestError {
    let media_type = media_type.chars().take(100).collect();
    ManifestError::Foreign { part, media_type }
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

    fn entry(content: &[u8], platform: &str) -> IndexEntry {
        IndexEntry {
            digest: Digest::of(content),
            platform: platform.parse().ok(),
        }
    }

    #[test]
    fn the_platforms_image_is_chosen() {
        let entries = [
            entry(b"arm", "linux/arm64/v8"),
            entry(b"v3", "linux/amd64/v3"),
            entry(b"plain", "linux/amd64"),
            entry(b"attestation", "unknown/unknown"),
        ];
        let chosen = |platform: &str| choose(&entries, &platform.parse().unwrap());

        assert_eq!(chosen("linux/amd64"), Ok(Digest::of(b"plain")));
        assert_eq!(chosen("linux/amd64/v3"), Ok(Digest::of(b"v3")));
        assert_eq!(chosen("linux/amd64/v2"), Ok(Digest::of(b"plain")));
        assert_eq!(chosen("linux/arm64"), Ok(Digest::of(b"arm")));
        let error = chosen("linux/s390x").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no image for platform linux/s390x; there are images for linux/arm64, linux/amd64/v3, linux/amd64"
        );
    }

    #[test]
    fn one_image_without_a_platform_is_the_image() {
        let entries = [entry(b"a", "")];

        assert_eq!(
            choose(&entries, &Platform::of_guest()),
            Ok(Digest::of(b"a"))
        );
        let error = choose(&[], &Platform::of_guest()).unwrap_err().to_string();
        assert!(error.contains("images for none"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), media_type in ".*") {
            let _ = parse(&media_type, &bytes);
        }
    }
}
