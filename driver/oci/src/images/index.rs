//! Indexes: which of their entries are looked at for a platform, in which order, and what it means when there is none.
//!
//! The order is containerd's (see `containerd.json`): entries that serve the platform, the best first and the first among
//! equals; then those that do not say for what, which only a look at their document can tell. An index may stand where
//! an image may, and is looked through before the next entry. Where containerd would give up because what it chose
//! turns out to be of no use, the next entry is looked at instead.

use std::collections::HashSet;

use super::manifest::ManifestError;
use super::platform::Platform;
use crate::registry::{Digest, DigestError};

/// How many indexes may stand one in the other, the first included. Those that are made by putting indexes
/// together have two.
pub(crate) const MAX_DEPTH: usize = 8;

/// How many documents are asked for beside the first. An index for one platform leads to its image by one or two.
pub(crate) const MAX_DOCUMENTS: usize = 32;

/// How many platforms are named where there is no image.
const MAX_NAMED: usize = 20;

/// What an index names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexEntry {
    /// An image or an index.
    Document {
        /// Judged only where it is chosen.
        digest: Result<Digest, DigestError>,
        platform: Option<Platform>,
    },
    /// Something of another type, which is never looked at.
    Artifact(String),
}

/// A document that may be, or lead to, the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    pub(crate) digest: Digest,
    /// Whether the index says that it is for the platform.
    pub(crate) is_for_platform: bool,
    /// How many indexes lead to it.
    pub(crate) depth: usize,
}

/// The search of an index, and of those that it leads to, for one platform's image.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    wanted: &'a Platform,
    /// The next one is the last.
    open: Vec<(Result<Digest, DigestError>, bool, usize)>,
    seen: HashSet<Digest>,
    /// Platforms that there are images for, as far as was told.
    available: Vec<String>,
    /// The type of something that is no image.
    artifact: Option<String>,
}

impl<'a> Search<'a> {
    /// A search in the index with the digest `first`, which has `entries`.
    pub(crate) fn new(wanted: &'a Platform, first: Digest, entries: Vec<IndexEntry>) -> Self {
        let mut search = Self {
            wanted,
            open: Vec::new(),
            seen: HashSet::from([first]),
            available: Vec::new(),
            artifact: None,
        };
        search.add(entries, 1);
        search
    }

    /// What to look at next. Nothing is looked at twice.
    ///
    /// # Errors
    ///
    /// If there is no image for the platform, or only by too many steps.
    pub(crate) fn next(&mut self) -> Result<Lead, ManifestError> {
        while let Some((digest, is_for_platform, depth)) = self.open.pop() {
            let digest = digest?;
            if self.seen.contains(&digest) {
                continue;
            }
            // The first document does not count.
            if self.seen.len() > MAX_DOCUMENTS {
                return Err(self.too_long());
            }
            self.seen.insert(digest);
            return Ok(Lead {
                digest,
                is_for_platform,
                depth,
            });
        }
        Err(self.nothing())
    }

    /// `lead` was an index with `entries`.
    ///
    /// # Errors
    ///
    /// If it is one too deep.
    pub(crate) fn enter(
        &mut self,
        lead: &Lead,
        entries: Vec<IndexEntry>,
    ) -> Result<(), ManifestError> {
        if lead.depth >= MAX_DEPTH {
            return Err(self.too_long());
        }
        self.add(entries, lead.depth + 1);
        Ok(())
    }

    /// A document that did not say so was an image for `platform`, another one than is wanted.
    pub(crate) fn pass_other(&mut self, platform: &Platform) {
        self.note_platform(platform);
    }

    /// A document was no image, but of the type `media_type`.
    pub(crate) fn pass_artifact(&mut self, media_type: String) {
        self.artifact.get_or_insert(media_type);
    }

    fn add(&mut self, entries: Vec<IndexEntry>, depth: usize) {
        let mut leads = Vec::new();
        for entry in entries {
            match entry {
                IndexEntry::Artifact(media_type) => self.pass_artifact(media_type),
                IndexEntry::Document { digest, platform } => {
                    let distance = match &platform {
                        None => None,
                        Some(platform) => {
                            self.note_platform(platform);
                            match platform.distance(self.wanted) {
                                None => continue,
                                distance => distance,
                            }
                        }
                    };
                    leads.push((distance.unwrap_or(u32::MAX), digest, platform.is_some()));
                }
            }
        }
        leads.sort_by_key(|(distance, ..)| *distance);
        // More are never asked for; a hostile index has some ten thousand.
        leads.truncate(MAX_DOCUMENTS + 1);
        let leads = leads.into_iter().rev();
        self.open
            .extend(leads.map(|(_, digest, is_for_platform)| (digest, is_for_platform, depth)));
    }

    fn note_platform(&mut self, platform: &Platform) {
        if platform.is_known() && self.available.len() < MAX_NAMED {
            let platform: String = platform.to_string().chars().take(100).collect();
            if !self.available.contains(&platform) {
                self.available.push(platform);
            }
        }
    }

    fn nothing(&mut self) -> ManifestError {
        match self.artifact.take() {
            Some(artifact_type) if self.available.is_empty() => {
                ManifestError::Artifact { artifact_type }
            }
            _ => ManifestError::Platform {
                wanted: self.wanted.to_string(),
                available: if self.available.is_empty() {
                    "none".to_owned()
                } else {
                    self.available.join(", ")
                },
            },
        }
    }

    fn too_long(&self) -> ManifestError {
        ManifestError::Winding {
            wanted: self.wanted.to_string(),
            documents: MAX_DOCUMENTS,
            depth: MAX_DEPTH,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::super::manifest::{Document, parse};
    use super::*;
    use crate::registry::media_type::{OCI_INDEX, OCI_MANIFEST};

    fn entry(content: &[u8], platform: &str) -> IndexEntry {
        IndexEntry::Document {
            digest: Ok(Digest::of(content)),
            platform: platform.parse().ok(),
        }
    }

    fn search(entries: Vec<IndexEntry>, wanted: &Platform) -> Search<'_> {
        Search::new(wanted, Digest::of(b"first"), entries)
    }

    /// What is looked at, in order, where nothing is of use; and how that ends.
    fn order(mut search: Search<'_>) -> (Vec<Digest>, ManifestError) {
        let mut seen = Vec::new();
        loop {
            match search.next() {
                Ok(lead) => seen.push(lead.digest),
                Err(end) => return (seen, end),
            }
        }
    }

    #[test]
    fn the_best_comes_first_and_what_does_not_say_for_what_last() {
        let wanted = "linux/amd64/v3".parse().unwrap();
        let entries = vec![
            entry(b"nothing", ""),
            entry(b"386", "linux/386"),
            entry(b"plain", "linux/amd64"),
            entry(b"v2", "linux/amd64/v2"),
            entry(b"v4", "linux/amd64/v4"),
            entry(b"twin", "linux/amd64/v2"),
            entry(b"plain", "linux/amd64"),
        ];

        let (seen, _) = order(search(entries, &wanted));

        let expected = [&b"v2"[..], b"twin", b"plain", b"386", b"nothing"].map(Digest::of);
        assert_eq!(seen, expected);
    }

    #[test]
    fn where_there_is_no_image_the_platforms_there_are_are_named() {
        let wanted = "linux/s390x".parse().unwrap();
        let entries = vec![
            entry(b"arm", "linux/arm64/v8"),
            entry(b"attestation", "unknown/unknown"),
            IndexEntry::Artifact("application/x".to_owned()),
            entry(b"v3", "linux/amd64/v3"),
            entry(b"other", "linux/arm64"),
        ];

        let (seen, end) = order(search(entries, &wanted));

        assert_eq!(seen, []);
        assert_eq!(
            end.to_string(),
            "there is no image for platform linux/s390x; there are images for linux/arm64, linux/amd64/v3"
        );
        let (_, end) = order(search(Vec::new(), &wanted));
        assert!(end.to_string().ends_with("images for none"), "{end}");
    }

    #[test]
    fn artifacts_alone_are_named() {
        let wanted = Platform::of_guest();
        let chart = "application/vnd.cncf.helm.config.v1+json".to_owned();
        let entries = vec![
            entry(b"attestation", "unknown/unknown"),
            IndexEntry::Artifact(chart.clone()),
        ];

        let (_, end) = order(search(entries, &wanted));

        assert_eq!(
            end,
            ManifestError::Artifact {
                artifact_type: chart
            }
        );
    }

    #[test]
    fn only_what_is_chosen_needs_a_digest_of_ours() {
        let wanted = Platform::of_guest();
        let odd = |platform: &str| IndexEntry::Document {
            digest: "sha512:00".parse(),
            platform: platform.parse().ok(),
        };

        let good = vec![odd("linux/arm64"), entry(b"a", "linux/amd64")];
        assert!(search(good, &wanted).next().is_ok());
        let bad = search(vec![odd("linux/amd64")], &wanted).next();
        assert!(matches!(bad, Err(ManifestError::Digest(_))), "{bad:?}");
    }

    /// However wide and deep an index is made, it ends.
    #[test]
    fn searches_are_bounded() {
        let wanted = Platform::of_guest();
        let wide: Vec<_> = (0..10_000_u32)
            .map(|number| entry(&number.to_be_bytes(), ""))
            .collect();

        let (seen, end) = order(search(wide.clone(), &wanted));
        assert_eq!(seen.len(), MAX_DOCUMENTS);
        assert!(matches!(end, ManifestError::Winding { .. }), "{end}");

        let mut deep = search(vec![entry(b"1", "")], &wanted);
        let mut depth = 1;
        let end = loop {
            let lead = deep.next().unwrap();
            assert_eq!(lead.depth, depth);
            depth += 1;
            let next = entry(depth.to_string().as_bytes(), "");
            if let Err(end) = deep.enter(&lead, vec![next]) {
                break end;
            }
        };
        assert!(matches!(end, ManifestError::Winding { .. }), "{end}");
        assert_eq!(depth, MAX_DEPTH + 1);

        let mut both = search(wide.clone(), &wanted);
        while let Ok(lead) = both.next() {
            if both.enter(&lead, wide.clone()).is_err() {
                break;
            }
            assert!(both.open.len() <= (MAX_DOCUMENTS + 1) * MAX_DEPTH);
        }
    }

    proptest! {
        /// A registry that answers with any entries at all.
        #[test]
        fn nothing_is_looked_at_twice(
            answers in proptest::collection::vec(proptest::collection::vec((0..20_u8, 0..4_usize), 0..6), 1..60),
        ) {
            let wanted = Platform::of_guest();
            let platforms = ["", "linux/amd64", "linux/amd64/v3", "linux/arm64"];
            let entries = |answer: &[(u8, usize)]| -> Vec<_> {
                answer.iter().map(|(name, platform)| entry(&[*name], platforms[*platform])).collect()
            };
            let mut search = Search::new(&wanted, Digest::of(&[0]), entries(&answers[0]));
            let mut seen = HashSet::from([Digest::of(&[0])]);
            for answer in answers.iter().cycle().skip(1) {
                let Ok(lead) = search.next() else { break };
                prop_assert!(seen.insert(lead.digest));
                prop_assert!(lead.depth <= MAX_DEPTH);
                if search.enter(&lead, entries(answer)).is_err() {
                    break;
                }
            }
        }
    }

    #[derive(Deserialize)]
    struct Recorded {
        scenarios: Vec<Scenario>,
    }

    #[derive(Deserialize)]
    struct Scenario {
        name: String,
        wish: Platform,
        documents: BTreeMap<String, Value>,
        containerd: Option<String>,
        vk: Option<String>,
        #[serde(default)]
        why: String,
    }

    impl<'de> Deserialize<'de> for Platform {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let text = String::deserialize(from)?;
            text.parse().map_err(serde::de::Error::custom)
        }
    }

    impl Scenario {
        /// The document `name`, as a registry has it. What leads to it is its name's digest.
        fn document(&self, name: &str) -> Document {
            let (kind, value) = self.documents[name]
                .as_object()
                .unwrap()
                .iter()
                .next()
                .unwrap();
            let text = value.as_str().unwrap_or_default();
            let config = match kind.as_str() {
                "index" => None,
                "image" => Some("application/vnd.oci.image.config.v1+json"),
                _ => Some(text),
            };
            let (kind, document) = match config {
                Some(config) => {
                    let config = json!({"mediaType": config, "size": 1, "digest": Digest::of(b"c").to_string()});
                    (OCI_MANIFEST, json!({"config": config, "layers": []}))
                }
                None => {
                    let entries: Vec<_> = value
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|entry| self.descriptor(entry))
                        .collect();
                    (OCI_INDEX, json!({"manifests": entries}))
                }
            };
            let mut document = document;
            document["schemaVersion"] = 2.into();
            parse(kind, document.to_string().as_bytes())
                .unwrap_or(Document::Index(vec![IndexEntry::Artifact(text.to_owned())]))
        }

        fn descriptor(&self, entry: &Value) -> Value {
            let to = entry["to"].as_str().unwrap();
            let is_index = self.documents[to].get("index").is_some();
            let own_type = if is_index { OCI_INDEX } else { OCI_MANIFEST };
            let media_type = match entry["type"].as_str() {
                None | Some("index") => own_type,
                Some(other) => other,
            };
            let mut descriptor = json!({
                "mediaType": media_type, "digest": Digest::of(to.as_bytes()).to_string(), "size": 1,
                "artifactType": entry["artifactType"].as_str().unwrap_or_default(), "annotations": entry["annotations"],
            });
            if let Some(platform) = entry["platform"].as_str() {
                let parts: Vec<_> = platform.split('/').collect();
                descriptor["platform"] = json!({
                    "os": parts[0], "architecture": parts[1], "variant": parts.get(2),
                    "os.features": entry["os.features"], "os.version": entry["os.version"],
                });
            }
            descriptor
        }

        /// What a pull finds.
        fn found(&self) -> Option<String> {
            let named = |digest: Digest| {
                self.documents
                    .keys()
                    .find(|name| Digest::of(name.as_bytes()) == digest)
                    .unwrap()
                    .clone()
            };
            let Document::Index(entries) = self.document("top") else {
                unreachable!()
            };
            let mut search = Search::new(&self.wish, Digest::of(b"top"), entries);
            loop {
                let lead = search.next().ok()?;
                let name = named(lead.digest);
                match self.document(&name) {
                    Document::Index(entries) => search.enter(&lead, entries).ok()?,
                    Document::Image(_) => {
                        let platform: Option<Platform> = self.documents[&name]["image"]
                            .as_str()
                            .unwrap()
                            .parse()
                            .ok();
                        match platform {
                            Some(other)
                                if !lead.is_for_platform
                                    && other.distance(&self.wish).is_none() =>
                            {
                                search.pass_other(&other);
                            }
                            _ => return Some(name),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_image_is_found_as_by_containerd() {
        let recorded: Recorded = serde_json::from_str(include_str!("containerd.json")).unwrap();
        for scenario in &recorded.scenarios {
            let expected = if scenario.why.is_empty() {
                &scenario.containerd
            } else {
                &scenario.vk
            };
            assert_eq!(
                &scenario.found(),
                expected,
                "{}: {}",
                scenario.name,
                scenario.why
            );
        }
        assert!(recorded.scenarios.len() > 30);
    }
}
