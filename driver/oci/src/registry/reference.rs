//! Image references as Docker writes them: `[REGISTRY/]PATH[:TAG][@DIGEST]`.
//!
//! The grammar is that of the distribution project's `reference` package (distribution/reference, `regexp.go` and
//! `normalize.go`), which Docker reads references with.

use std::fmt;
use std::str::FromStr;

use super::digest::{Digest, DigestError};

/// The registry of a reference that names none.
pub(crate) const DEFAULT_REGISTRY: &str = "docker.io";

/// An older name of the default registry.
const LEGACY_DEFAULT_REGISTRY: &str = "index.docker.io";

/// Where the default registry's API really is.
const DEFAULT_REGISTRY_HOST: &str = "registry-1.docker.io";

/// What stands before a path of one part in the default registry.
const OFFICIAL: &str = "library/";

/// The tag of a reference that has neither tag nor digest.
const DEFAULT_TAG: &str = "latest";

/// Longest name (registry and path) in bytes: `NameTotalLengthMax` of distribution/reference.
const MAX_NAME: usize = 255;

/// Longest tag in bytes (OCI distribution spec 1.1, "Pulling manifests").
const MAX_TAG: usize = 128;

/// A repository of a registry: `registry.example.com/team/build`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repository {
    registry: String,
    path: String,
}

/// An image, or another artifact, of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    repository: Repository,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is no reference. The first line of each message is Docker's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// It does not follow the grammar.
    #[error("invalid reference format")]
    Format,
    /// There are capitals in the path.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Uppercase(String),
    /// The name is too long.
    #[error("repository name must not be more than {MAX_NAME} characters")]
    TooLong,
    /// A name that looks like an image's ID.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    /// The digest cannot be checked.
    #[error("invalid reference format: {0}")]
    Digest(DigestError),
}

impl Repository {
    /// The repository `path` of `registry` (host, with a port where it has one).
    ///
    /// # Errors
    ///
    /// If they cannot be parts of a reference.
    pub fn new(registry: &str, path: &str) -> Result<Self, ReferenceError> {
        if !is_registry(registry) || !is_path(path) {
            return Err(ReferenceError::Format);
        }
        if registry.len() + 1 + path.len() > MAX_NAME {
            return Err(ReferenceError::TooLong);
        }
        let registry = match registry {
            LEGACY_DEFAULT_REGISTRY => DEFAULT_REGISTRY,
            other => other,
        };
        let (registry, path) = (registry.to_owned(), path.to_owned());
        Ok(Self { registry, path })
    }

    /// Host of the registry, with its port where it has one.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Name within the registry.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The image that `tag` names here.
    ///
    /// # Errors
    ///
    /// If it is no tag.
    pub fn tagged(&self, tag: &str) -> Result<Reference, ReferenceError> {
        if !is_tag(tag) {
            return Err(ReferenceError::Format);
        }
        let (repository, tag, digest) = (self.clone(), Some(tag.to_owned()), None);
        Ok(Reference {
            repository,
            tag,
            digest,
        })
    }

    /// The image with this digest.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Reference {
        let (repository, tag, digest) = (self.clone(), None, Some(digest));
        Reference {
            repository,
            tag,
            digest,
        }
    }
}

impl Reference {
    /// Where it is.
    #[must_use]
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Its tag. Where there is a digest, too, the digest alone decides.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Its digest.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// What a registry's API calls a reference: the digest, else the tag.
    pub(crate) fn manifest_name(&self) -> String {
        self.digest.map_or_else(
            || self.tag.as_deref().unwrap_or(DEFAULT_TAG).to_owned(),
            |digest| digest.to_string(),
        )
    }
}

/// Host of the API of `registry`.
pub(crate) fn api_host(registry: &str) -> &str {
    match registry {
        DEFAULT_REGISTRY => DEFAULT_REGISTRY_HOST,
        other => other,
    }
}

/// The registry that `text` names, as people write it in configurations: with or without a scheme, a path or the
/// default registry's other names.
pub(crate) fn registry_key(text: &str) -> &str {
    let text = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .unwrap_or(text);
    match text.split('/').next().unwrap_or(text) {
        LEGACY_DEFAULT_REGISTRY | DEFAULT_REGISTRY_HOST => DEFAULT_REGISTRY,
        host => host,
    }
}

/// Whether two texts, as people write registries in configurations, name the same one.
pub(crate) fn same_registry(one: &str, other: &str) -> bool {
    registry_key(one) == registry_key(other)
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if is_identifier(text) {
            return Err(ReferenceError::Identifier(text.to_owned()));
        }
        let (registry, rest) = split_registry(text);
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        let path = if registry == DEFAULT_REGISTRY && !path.contains('/') {
            format!("{OFFICIAL}{path}")
        } else {
            path.to_owned()
        };
        if path.chars().any(char::is_uppercase) {
            return Err(ReferenceError::Uppercase(path));
        }
        let repository = Repository::new(registry, &path)?;
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Format);
        }
        let digest = digest
            .map(|digest| digest.parse().map_err(ReferenceError::Digest))
            .transpose()?;
        let default = digest.is_none().then_some(DEFAULT_TAG);
        let tag = tag.or(default).map(str::to_owned);
        Ok(Self {
            repository,
            tag,
            digest,
        })
    }
}

/// The registry's part of `text`, and the rest: `splitDockerDomain` of distribution/reference.
fn split_registry(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.chars().any(char::is_uppercase) =>
        {
            match first {
                LEGACY_DEFAULT_REGISTRY => (DEFAULT_REGISTRY, rest),
                _ => (first, rest),
            }
        }
        _ => (DEFAULT_REGISTRY, text),
    }
}

fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A host name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => {
                ("ipv6", port)
            }
            _ => return false,
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    is_port && host.split('.').all(is_label)
}

/// Parts of lower-case letters and digits, which `.`, `_`, `__` or any number of `-` may divide, joined by `/`.
fn is_path(text: &str) -> bool {
    text.split('/').all(|part| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let words = part.split(|c: char| c.is_ascii() && plain(c as u8));
        // What stands between letters and digits: nothing at both ends.
        let ends = part.bytes().next().is_some_and(plain) && part.bytes().last().is_some_and(plain);
        let dividers =
            |word: &str| matches!(word, "" | "." | "_" | "__") || word.bytes().all(|b| b == b'-');
        ends && words.into_iter().all(dividers)
    })
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= MAX_TAG
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Reference, ReferenceError> {
        text.parse()
    }

    fn written(text: &str) -> String {
        parse(text).map_or_else(
            |error| format!("! {error}"),
            |reference| reference.to_string(),
        )
    }

    #[test]
    fn a_reference_is_completed_as_docker_does() {
        for (text, full) in [
            ("alpine", "docker.io/library/alpine:latest"),
            ("alpine:3.20", "docker.io/library/alpine:3.20"),
            ("team/build", "docker.io/team/build:latest"),
            ("index.docker.io/alpine", "docker.io/library/alpine:latest"),
            ("docker.io/alpine:1", "docker.io/library/alpine:1"),
            ("localhost/a", "localhost/a:latest"),
            (
                "localhost:5000/a/b_c__d---e.f:V_1.2-x",
                "localhost:5000/a/b_c__d---e.f:V_1.2-x",
            ),
            (
                "registry.example.com/team/build:1.2",
                "registry.example.com/team/build:1.2",
            ),
            ("REGISTRY/team/build", "REGISTRY/team/build:latest"),
            ("[::1]:5000/a", "[::1]:5000/a:latest"),
            ("a/b:5000/c", "! invalid reference format"),
        ] {
            assert_eq!(written(text), full, "{text}");
        }
    }

    #[test]
    fn a_digest_takes_the_place_of_the_default_tag() {
        let digest = Digest::of(b"x");

        assert_eq!(
            written(&format!("alpine@{digest}")),
            format!("docker.io/library/alpine@{digest}")
        );
        let both = parse(&format!("alpine:3@{digest}")).unwrap();
        assert_eq!(both.tag(), Some("3"));
        assert_eq!(both.manifest_name(), digest.to_string());
    }

    #[test]
    fn what_is_no_reference_is_refused_in_dockers_words() {
        for (text, error) in [
            (
                "UPPER CASE::",
                "invalid reference format: repository name (library/UPPER CASE) must be lowercase",
            ),
            (
                "registry.example.com/Team/x",
                "invalid reference format: repository name (Team/x) must be lowercase",
            ),
            ("", "invalid reference format"),
            (" ", "invalid reference format"),
            ("a:", "invalid reference format"),
            (":1", "invalid reference format"),
            ("a//b", "invalid reference format"),
            ("a/", "invalid reference format"),
            ("-a", "invalid reference format"),
            ("a..b", "invalid reference format"),
            ("a___b", "invalid reference format"),
            ("a:-x", "invalid reference format"),
            ("https://example.com/a", "invalid reference format"),
            ("example.com:99999/a", "invalid reference format"),
            ("example..com/a", "invalid reference format"),
            ("[::zz]/a", "invalid reference format"),
            ("compose:./x.yml", "invalid reference format"),
            ("é", "invalid reference format"),
        ] {
            assert_eq!(written(text), format!("! {error}"), "{text:?}");
        }
        assert!(matches!(
            parse(&"a".repeat(64)),
            Err(ReferenceError::Identifier(_))
        ));
        assert!(matches!(
            parse(&"a".repeat(256)),
            Err(ReferenceError::TooLong)
        ));
        assert!(matches!(
            parse("a@sha256:12"),
            Err(ReferenceError::Digest(_))
        ));
        assert!(parse(&format!("a:{}", "t".repeat(129))).is_err());
    }

    #[test]
    fn a_registry_is_known_by_its_other_names() {
        for text in [
            "docker.io",
            "index.docker.io",
            "https://index.docker.io/v1/",
            "registry-1.docker.io",
        ] {
            assert_eq!(registry_key(text), DEFAULT_REGISTRY, "{text}");
        }
        assert_eq!(
            registry_key("http://r.example.com:5000/v2/"),
            "r.example.com:5000"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_reads_back(text in "\\PC{0,40}|[a-z./:@\\[\\]0-9-]{0,60}") {
            if let Ok(reference) = parse(&text) {
                prop_assert_eq!(parse(&reference.to_string()), Ok(reference));
            }
        }
    }
}
