//! Media types of manifests (OCI image spec 1.1, media-types.md; Docker's "Image Manifest Version 2, Schema 2").

/// An OCI index.
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// An OCI manifest.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Docker's index.
pub(crate) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// Docker's manifest.
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// The manifests that can be read, as an `Accept` header. Registries that have an image only in a schema not named
/// here answer with that one, or not at all.
pub(crate) const ACCEPTED_MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// Whether `media_type` is that of a manifest of Docker's first schema.
pub(crate) fn is_schema1(media_type: &str) -> bool {
    media_type.starts_with("application/vnd.docker.distribution.manifest.v1+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_that_can_be_read_is_asked_for() {
        for name in [OCI_INDEX, OCI_MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST] {
            assert!(
                ACCEPTED_MANIFESTS
                    .split(", ")
                    .any(|accepted| accepted == name)
            );
        }
    }
}
