//! Platforms: `os/architecture[/variant]`.
//!
//! Names and order are those of containerd's module `platforms` (v1.0.0-rc.5, `Only` and `Normalize`), asked with a
//! program of ours; `containerd.json` beside this file has its answers, which the tests compare.

use std::fmt;
use std::str::FromStr;

/// What an image is made for (OCI image spec 1.1, image-index.md, `platform`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// As in `linux`.
    pub os: String,
    /// As in `amd64`.
    pub architecture: String,
    /// As in `v6`, where the architecture has any and it is not the plain one.
    pub variant: Option<String>,
}

/// A text that is no platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no platform: expected os/architecture, such as linux/amd64")]
pub struct PlatformError(String);

/// Beyond all distances between variants that have numbers: an image for the plain architecture, where the wish is for
/// a variant that nothing is known of.
const PLAIN: u32 = 1000;

/// Beyond that: an image for the 32-bit architecture of the same processors.
const NARROW: u32 = 2000;

/// The last version of Armv8.
const ARM64_V8_LAST: u8 = 9;

impl Platform {
    /// The guest's.
    pub fn of_guest() -> Self {
        Self::new("linux", "amd64", None)
    }

    /// A platform with the names that registries use: others are changed, variants that mean the plain architecture
    /// left out, and no system means Linux.
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Self {
        let os = match os {
            "" => "linux".to_owned(),
            os => os.to_ascii_lowercase(),
        };
        let architecture = architecture.to_ascii_lowercase();
        let variant = variant.unwrap_or_default().to_ascii_lowercase();
        let (architecture, variant) = match (architecture.as_str(), variant.as_str()) {
            ("i386", _) => ("386", ""),
            ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
            ("x86_64" | "x86-64", variant) => ("amd64", variant),
            ("aarch64" | "arm64", "8" | "v8" | "v8.0") => ("arm64", ""),
            ("aarch64" | "arm64", "9" | "9.0" | "v9.0") => ("arm64", "v9"),
            ("aarch64", variant) => ("arm64", variant),
            ("armhf", _) | ("arm", "7" | "v7") => ("arm", ""),
            ("armel", _) | ("arm", "6") => ("arm", "v6"),
            ("arm", "5") => ("arm", "v5"),
            ("arm", "8") => ("arm", "v8"),
            same => same,
        };
        Self {
            os,
            architecture: architecture.to_owned(),
            variant: Some(variant.to_owned()).filter(|variant| !variant.is_empty()),
        }
    }

    /// How well an image for `self` serves a wish for `wanted`: 0 is best; `None` for not at all. The same variant and
    /// lower ones serve, the highest of them best, and those of the 32-bit architecture at worst.
    pub fn distance(&self, wanted: &Self) -> Option<u32> {
        if self.os != wanted.os {
            return None;
        }
        match (wanted.architecture.as_str(), self.architecture.as_str()) {
            (wanted_one, this) if wanted_one == this => self.steps_below(wanted),
            ("amd64", "386") => Some(NARROW),
            // They are as `arm/v8` to 32-bit programs, which not all of them run.
            ("arm64", "arm") => {
                Some(NARROW + self.steps_below(&Self::new(&self.os, "arm", Some("v8")))?)
            }
            _ => None,
        }
    }

    /// [`Self::distance`] within one architecture.
    fn steps_below(&self, wanted: &Self) -> Option<u32> {
        if self.variant == wanted.variant {
            return Some(0);
        }
        let Some(want) = wanted.version() else {
            // Nothing is known of the order of such variants but that all of them run the plain architecture.
            return self.variant.is_none().then_some(PLAIN);
        };
        let have = self.version()?;
        if have.0 != want.0 && self.architecture == "arm64" {
            // Armv9.n holds Armv8.(n + 5).
            let highest = want.1.saturating_add(5).min(ARM64_V8_LAST);
            let skipped = highest.checked_sub(have.1).filter(|_| have.0 < want.0)?;
            return Some(u32::from(want.1) + 1 + u32::from(skipped));
        }
        let (have, want) = if self.architecture == "arm64" {
            (have.1, want.1)
        } else {
            (have.0, want.0)
        };
        want.checked_sub(have).map(u32::from)
    }

    /// The numbers of a variant like `v3` or `v8.2`, where variants have an order.
    fn version(&self) -> Option<(u8, u8)> {
        let (lowest, plain) = match self.architecture.as_str() {
            "amd64" => (1, "v1"),
            "arm" => (5, "v7"),
            "arm64" => (8, "v8"),
            _ => return None,
        };
        let text = self.variant.as_deref().unwrap_or(plain).strip_prefix('v')?;
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        (major >= lowest).then_some((major, minor))
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
    fn lower_variants_serve_and_the_highest_of_them_best() {
        let distance = |have: &str, want: &str| platform(have).distance(&platform(want));

        assert_eq!(distance("linux/amd64", "linux/amd64"), Some(0));
        assert_eq!(distance("linux/amd64", "linux/amd64/v3"), Some(2));
        assert_eq!(distance("linux/amd64/v2", "linux/amd64/v3"), Some(1));
        assert_eq!(distance("linux/amd64/v3", "linux/amd64"), None);
        assert_eq!(distance("linux/amd64/v3", "linux/amd64/v2"), None);
        assert_eq!(distance("linux/arm64", "linux/amd64"), None);
        assert!(distance("linux/386", "linux/amd64") > distance("linux/amd64", "linux/amd64/v99"));
        assert_eq!(distance("linux/amd64", "linux/386"), None);
    }

    #[test]
    fn of_variants_that_nothing_is_known_of_the_plain_architecture_serves() {
        let wanted = platform("linux/riscv64/rva23u64");

        assert_eq!(platform("linux/riscv64").distance(&wanted), Some(PLAIN));
        assert_eq!(platform("linux/riscv64/rva22u64").distance(&wanted), None);
        let odd = platform("linux/amd64/v300");
        assert_eq!(platform("linux/amd64").distance(&odd), Some(PLAIN));
        assert_eq!(odd.distance(&platform("linux/amd64/v4")), None);
    }

    /// What containerd ranks; the file says how its answers were had.
    #[derive(serde::Deserialize)]
    struct Answers {
        universe: Vec<String>,
        ranks: std::collections::BTreeMap<String, Vec<Vec<String>>>,
    }

    #[test]
    fn what_serves_is_ranked_as_by_containerd() {
        let answers: Answers = serde_json::from_str(include_str!("containerd.json")).unwrap();
        // Not by `FromStr`, which takes whole names only.
        let read = |text: &str| {
            let mut parts = text.split('/');
            let (os, architecture) = (parts.next().unwrap(), parts.next().unwrap());
            Platform::new(os, architecture, parts.next())
        };
        for (wish, ranks) in &answers.ranks {
            let mut found = std::collections::BTreeMap::<u32, Vec<String>>::new();
            for name in &answers.universe {
                if let Some(distance) = read(name).distance(&read(wish)) {
                    found.entry(distance).or_default().push(name.clone());
                }
            }
            let found: Vec<_> = found.into_values().collect();
            assert_eq!(&found, ranks, "{wish}");
        }
        assert!(answers.ranks.len() > 15);
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
