//! From a reference to the manifest of the platform's image, and to its configuration.

use super::error::PullCause;
use super::index::Search;
use super::manifest::{self, Document, ImageManifest, ManifestError};
use super::platform::Platform;
use super::pull::Pull;
use super::settings::{self, ConfigBlob};
use crate::registry::{BlobSize, Digest, Manifest, RegistryError};

/// What a reference means.
pub(super) struct Resolved {
    /// Its own digest: that of the index, where it leads to one.
    pub(super) digest: Digest,
    /// That of the image's manifest.
    pub(super) manifest_digest: Digest,
    pub(super) manifest: ImageManifest,
    /// Where it had to be read already.
    pub(super) config: Option<ConfigBlob>,
}

impl Pull<'_> {
    /// What the reference means.
    pub(super) async fn resolve(&self) -> Result<Resolved, PullCause> {
        let named = self.client.manifest(self.reference).await?;
        let digest = named.digest;
        let entries = match Self::parse(&named) {
            Ok(Document::Index(entries)) => entries,
            Ok(Document::Image(manifest)) => {
                return Ok(Resolved {
                    digest,
                    manifest_digest: digest,
                    manifest,
                    config: None,
                });
            }
            Err(source) => return Err(self.unusable(source)),
        };
        drop(named);
        let mut search = Search::new(self.platform, digest, entries);
        loop {
            let lead = search.next().map_err(|source| self.unusable(source))?;
            let pinned = self.reference.repository().pinned(lead.digest);
            let found = self.client.manifest(&pinned).await?;
            let manifest = match Self::parse(&found) {
                Ok(Document::Image(manifest)) => manifest,
                Ok(Document::Index(entries)) => {
                    let entered = search.enter(&lead, entries);
                    entered.map_err(|source| self.unusable(source))?;
                    continue;
                }
                Err(ManifestError::Artifact { artifact_type }) => {
                    search.pass_artifact(artifact_type);
                    continue;
                }
                // Attestations look like images but for their layers.
                Err(ManifestError::Foreign { media_type, .. }) if !lead.is_for_platform => {
                    search.pass_artifact(media_type);
                    continue;
                }
                Err(source) => return Err(self.unusable(source)),
            };
            let mut config = None;
            if !lead.is_for_platform {
                let read = self.config(&manifest).await?;
                if let Some(platform) = self.other_platform(&read) {
                    search.pass_other(platform);
                    continue;
                }
                config = Some(read);
            }
            return Ok(Resolved {
                digest,
                manifest_digest: lead.digest,
                manifest,
                config,
            });
        }
    }

    fn parse(manifest: &Manifest) -> Result<Document, ManifestError> {
        manifest::parse(&manifest.media_type, &manifest.bytes)
    }

    fn unusable(&self, source: ManifestError) -> PullCause {
        PullCause::Manifest {
            image: self.image.clone(),
            source,
        }
    }

    pub(super) async fn config(&self, manifest: &ImageManifest) -> Result<ConfigBlob, PullCause> {
        let part = manifest.config;
        let size = BlobSize::Exactly(part.size);
        let repository = self.reference.repository();
        let read = async {
            let mut blob = self.client.blob(repository, part.digest, size).await?;
            let mut bytes = Vec::new();
            while let Some(chunk) = blob.chunk().await? {
                bytes.extend_from_slice(&chunk);
            }
            Ok::<_, RegistryError>(bytes)
        };
        settings::parse(&read.await?).map_err(|source| PullCause::Config {
            image: self.image.clone(),
            source,
        })
    }

    /// What an image is for, if that does not serve the platform.
    fn other_platform<'c>(&self, config: &'c ConfigBlob) -> Option<&'c Platform> {
        let platform = config.platform.as_ref()?;
        platform
            .distance(self.platform)
            .is_none()
            .then_some(platform)
    }

    /// Whether manifest and configuration are of one image, for this platform.
    pub(super) fn check(
        &self,
        manifest: &ImageManifest,
        config: &ConfigBlob,
    ) -> Result<(), PullCause> {
        if let Some(platform) = self.other_platform(config) {
            return Err(self.unusable(ManifestError::Platform {
                wanted: self.platform.to_string(),
                available: platform.to_string(),
            }));
        }
        let (layers, diff_ids) = (manifest.layers.len(), config.diff_ids.len());
        if layers != diff_ids {
            return Err(self.unusable(ManifestError::Json(format!(
                "it has {layers} layers, its configuration {diff_ids}"
            ))));
        }
        Ok(())
    }
}
