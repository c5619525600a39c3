//! A cache as an OCI artifact: a manifest with one layer (OCI image spec 1.1, manifest.md).

use serde::{Deserialize, Serialize};

use vk_oci::Digest;

/// What the artifact is.
const ARTIFACT_TYPE: &str = "application/vnd.vk.ci-cache.v1";

/// Media type of the manifest (OCI image spec 1.1, media-types.md).
pub(super) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// Media type of the layer (OCI image spec 1.1, media-types.md): a tar in zstd.
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

/// Media type of a configuration that says nothing (OCI image spec 1.1, "Guidance for an Empty Descriptor").
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";

/// The content of such a configuration.
pub(super) const EMPTY: &[u8] = b"{}";

/// A blob that a manifest names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    /// In bytes.
    pub(super) size: u64,
}

/// What stands in the place of a cache.
#[derive(Debug, thiserror::Error)]
#[error("what is stored there is no cache of vk: {0}")]
pub struct ManifestError(String);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: String,
    #[serde(default)]
    artifact_type: String,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// The manifest of a cache with `layer`. The same layer has the same manifest.
pub(super) fn manifest(layer: Layer) -> Vec<u8> {
    let descriptor = |media_type: &str, layer: Layer| Descriptor {
        media_type: media_type.to_owned(),
        digest: layer.digest.to_string(),
        size: layer.size,
    };
    let empty = Layer {
        digest: Digest::of(EMPTY),
        size: EMPTY.len() as u64,
    };
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST_TYPE.to_owned(),
        artifact_type: ARTIFACT_TYPE.to_owned(),
        config: descriptor(EMPTY_TYPE, empty),
        layers: vec![descriptor(LAYER_TYPE, layer)],
    };
    // Strings and numbers always have a JSON.
    serde_json::to_vec(&manifest).unwrap_or_default()
}

/// The layer of the cache that `manifest` describes.
pub(super) fn layer(manifest: &[u8]) -> Result<Layer, ManifestError> {
    let bad = |text: String| ManifestError(text);
    let manifest: Manifest =
        serde_json::from_slice(manifest).map_err(|error| bad(error.to_string()))?;
    if manifest.artifact_type != ARTIFACT_TYPE {
        let found: String = manifest.artifact_type.chars().take(100).collect();
        return Err(bad(format!("its type is {found:?}")));
    }
    match manifest.layers.as_slice() {
        [layer] if layer.media_type == LAYER_TYPE => Ok(Layer {
            digest: layer
                .digest
                .parse()
                .map_err(|error| bad(format!("{error}")))?,
            size: layer.size,
        }),
        layers => Err(bad(format!("it has {} layers", layers.len()))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_manifest_reads_what_it_writes() {
        let written = Layer {
            digest: Digest::of(b"x"),
            size: 1 << 40,
        };
        let bytes = manifest(written);
        assert_eq!(layer(&bytes).unwrap(), written);
        assert_eq!(bytes, manifest(written));
    }

    #[test]
    fn an_image_in_the_place_of_a_cache_is_told() {
        let image = r#"{"schemaVersion":2,"mediaType":"m","config":{"mediaType":"c","digest":"d","size":1},"layers":[]}"#;
        let error = layer(image.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("no cache of vk"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_in_the_place_of_a_manifest_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = layer(&bytes);
        }

        #[test]
        fn no_cut_manifest_is_taken_for_a_whole_one(len in 0_usize..200) {
            let whole = manifest(Layer { digest: Digest::of(b"x"), size: 1 });
            if len < whole.len() {
                prop_assert!(layer(&whole[..len]).is_err());
            }
        }
    }
}
