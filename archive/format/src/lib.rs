//! What archives are called, wherever they are spoken of: in a job's specification, between host and guest, and where they
//! are packed.
//!
//! Serialized, each is GitLab's or GitLab Runner's name for it, in lower case.

use serde::{Deserialize, Serialize};

/// Kinds of archives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A zip of deflated files.
    #[default]
    Zip,
    /// A zip of files in zstd: method 93 of the ZIP specification (APPNOTE.TXT 6.3.8).
    ZipZstd,
    /// One gzip member after the other, one for each file.
    Gzip,
    /// The bytes of one file.
    Raw,
    /// A tar in zstd.
    TarZstd,
}

/// How hard to compress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// Not at all, for a zip.
    Fastest,
    /// Little.
    Fast,
    /// In between.
    #[default]
    Default,
    /// More.
    Slow,
    /// As much as there is.
    Slowest,
}

/// A text names no level. Its text is GitLab Runner's warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compression level {0:?} is invalid, falling back to default")]
pub struct UnknownLevel(pub String);

impl Level {
    /// The level that a variable's value names; empty is the default one (gitlab-runner, wire §3.4).
    ///
    /// # Errors
    ///
    /// [`UnknownLevel`]: warn and take the default.
    pub fn parse(text: &str) -> Result<Self, UnknownLevel> {
        Ok(match text {
            "fastest" => Self::Fastest,
            "fast" => Self::Fast,
            "default" | "" => Self::Default,
            "slow" => Self::Slow,
            "slowest" => Self::Slowest,
            other => return Err(UnknownLevel(other.to_owned())),
        })
    }
}

/// How grave something is that is said about an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For information.
    Info,
    /// Another program's own line.
    Plain,
    /// Something was left out or looks odd.
    Warning,
    /// Something failed.
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §3.4.
    #[test]
    fn levels_have_the_runners_names() {
        let levels = ["fastest", "fast", "default", "slow", "slowest", ""].map(Level::parse);

        let wanted = [
            Level::Fastest,
            Level::Fast,
            Level::Default,
            Level::Slow,
            Level::Slowest,
            Level::Default,
        ];
        assert_eq!(levels, wanted.map(Ok));
    }

    #[test]
    fn another_level_is_warned_of_in_the_runners_words() {
        let error = Level::parse("Fast").unwrap_err();

        assert_eq!(
            error.to_string(),
            "compression level \"Fast\" is invalid, falling back to default"
        );
    }

    #[test]
    fn formats_have_gitlabs_names() {
        let names = ["zip", "zipzstd", "gzip", "raw", "tarzstd"];
        let formats = [
            Format::Zip,
            Format::ZipZstd,
            Format::Gzip,
            Format::Raw,
            Format::TarZstd,
        ];

        let json = formats.map(|format| serde_json::to_string(&format).unwrap());

        assert_eq!(json, names.map(|name| format!("\"{name}\"")));
    }
}
