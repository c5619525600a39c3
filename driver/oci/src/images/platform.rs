//! Platforms: `os/architecture[/variant]`.

use std::fmt;
use std::str::FromStr;

/// What an image is made for (OCI image spec 1.1, image-index.md, `platform`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// As in `linux`.
    pub os: String,
    /// As in `amd64`.
    pub architecture: String,
    /// As in `v7`, where the architecture has any.
    pub variant: Option<String>,
}

/// A text that is no platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no platform: expected os/architecture, such as linux/amd64")]
pub struct PlatformError(String);

impl Platform {
    /// The guest's.
    pub fn of_guest() -> Self {
        Self::new("linux", "amd64", None)
    }

    /// A platform with the names that registries use: others are changed, and variants that mean the plain
    /// architecture left out, as in containerd's `platforms` (`normalizeArch`).
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Self {
        let (os, architecture) = (os.to_ascii_lowercase(), architecture.to_ascii_lowercase());
        let variant = variant
            .map(str::to_ascii_lowercase)
            .filter(|variant| !variant.is_empty());
        let architecture = match architecture.as_str() {
            "x86_64" | "x86-64" => "amd64".to_owned(),
            "aarch64" => "arm64".to_owned(),
            _ => architecture,
        };
        let plain = match architecture.as_str() {
            "amd64" => Some("v1"),
            "arm64" => Some("v8"),
            "arm" => Some("v7"),
            _ => None,
        };
        let variant = variant.filter(|variant| Some(variant.as_str()) != plain);
        Self {
            os,
            architecture,
            variant,
        }
    }

    /// How well an image for `self` serves a wish for `wanted`: 0 is best; `None` for not at all.
    pub fn distance(&self, wanted: &Self) -> Option<u8> {
        if self.os != wanted.os || self.architecture != wanted.architecture {
            return None;
        }
        match (&self.variant, &wanted.variant) {
            (have, want) if have == want => Some(0),
            // A newer processor runs what was made for the plain one.
            (None, Some(_)) => Some(1),
            _ => None,
        }
    }

    /// Whether it is a platform at all: builders list attestations as `unknown/unknown`.
    pub fn is_known(&self) -> bool {
        self.os != "unknown" && self.architecture != "unknown"
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let bad = || PlatformError(text.chars().take(100).collect());
        let plain = |part: &&str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        let parts: Vec<_> = text.split('/').collect();
        if !parts.iter().all(plain) {
            return Err(bad());
        }
        match parts.as_slice() {
            // One word is an architecture, or the system that guests have (containerd's `platforms`, `Parse`).
            [word] if is_architecture(word) => Ok(Self::new("linux", word, None)),
            [word] if word.eq_ignore_ascii_case("linux") => Ok(Self::of_guest()),
            [os, architecture] => Ok(Self::new(os, architecture, None)),
            [os, architecture, variant] => Ok(Self::new(os, architecture, Some(variant))),
            _ => Err(bad()),
        }
    }
}

/// Whether `text` names a platform: `os/architecture[/variant]`, or an architecture alone.
///
/// # Errors
///
/// If it does not.
pub fn check(text: &str) -> Result<(), PlatformError> {
    text.parse::<Platform>().map(|_| ())
}

/// Whether `word` is an architecture that Linux images are made for (Go's names, and what others call them).
fn is_architecture(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "386"
            | "amd64"
            | "x86_64"
            | "x86-64"
            | "arm"
            | "arm64"
            | "aarch64"
            | "loong64"
            | "mips64le"
            | "ppc64le"
            | "riscv64"
            | "s390x"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        text.parse().unwrap()
    }

    #[test]
    fn names_that_mean_the_same_are_the_same() {
        assert_eq!(platform("linux/x86_64"), Platform::of_guest());
        assert_eq!(platform("Linux/AMD64/v1"), Platform::of_guest());
        assert_eq!(platform("linux/aarch64/v8").to_string(), "linux/arm64");
        assert_eq!(platform("amd64"), Platform::of_guest());
        assert_eq!(platform("linux"), Platform::of_guest());
        assert_eq!(platform("ARM64").to_string(), "linux/arm64");
    }

    #[test]
    fn an_image_for_the_plain_architecture_serves_a_variant_and_not_the_other_way() {
        let (plain, newer) = (platform("linux/amd64"), platform("linux/amd64/v3"));

        assert_eq!(plain.distance(&plain), Some(0));
        assert_eq!(plain.distance(&newer), Some(1));
        assert_eq!(newer.distance(&plain), None);
        assert_eq!(platform("linux/arm64").distance(&plain), None);
    }

    #[test]
    fn what_is_no_platform_is_refused() {
        for text in [
            "",
            "windows",
            "linux/",
            "a/b/c/d",
            "linux/amd 64",
            "linux/\n",
        ] {
            assert!(text.parse::<Platform>().is_err(), "{text:?}");
        }
    }
}
