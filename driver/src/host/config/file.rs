//! The file's form. Keys that are not here are refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfigFile {
    pub(super) images: ImagesSection,
    pub(super) registries: RegistriesSection,
    pub(super) cache: Option<CacheSection>,
}

/// `[images]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ImagesSection {
    /// For jobs that name no policy.
    pub(super) pull_policy: OneOrMore,
    /// Which policies are allowed.
    pub(super) allowed_pull_policies: Vec<String>,
    /// What all images may take on the disk, such as `50G`.
    pub(super) store_size: Option<String>,
}

/// `[registries]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RegistriesSection {
    /// By registry: where to ask before it.
    pub(super) mirrors: BTreeMap<String, Vec<String>>,
    /// Registries that may speak plain HTTP or show any certificate.
    pub(super) insecure: Vec<String>,
    /// PEM files, relative to the configuration's folder.
    pub(super) ca_files: Vec<PathBuf>,
    /// How long a refused or lost connection is tried again, such as `90s`.
    pub(super) unreachable_for: Option<String>,
    /// How long a registry that answers 503 or 429 is asked again, such as `3m`.
    pub(super) unavailable_for: Option<String>,
}

/// `[cache]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheSection {
    /// Host, with a port where it has one.
    pub(super) registry: String,
    /// What stands before the caches' repositories.
    #[serde(default)]
    pub(super) repo: String,
    /// The user; with `password_file`. Without both, Docker's configuration is asked.
    pub(super) username: Option<String>,
    /// A file that holds the password alone, relative to the configuration's folder.
    pub(super) password_file: Option<PathBuf>,
}

/// A text, or a list of texts.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl OneOrMore {
    pub(super) fn list(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::More(texts) => texts,
        }
    }
}
