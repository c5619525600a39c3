//! Formats and compression levels, by GitLab Runner's names.

/// Kinds of archives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

    /// Levels of libdeflate in a zip, the second one for every fourth MiB of large files; none stores.
    ///
    /// fastzip's numbers are 1, 5, 7 and 9 (gitlab-runner, wire §3.4). For the default what counts is what comes out:
    /// the fastest that stays within 108 % of the size of `zip -6` (docs/benchmarks.md).
    pub(crate) fn deflate(self) -> Option<[i32; 2]> {
        match self {
            Self::Fastest => None,
            Self::Fast => Some([1, 1]),
            Self::Default => Some([1, 2]),
            Self::Slow => Some([7, 7]),
            Self::Slowest => Some([9, 9]),
        }
    }

    /// Level of zstd. GitLab Runner names levels of Go's library; its documentation calls them about these of the C
    /// library (1, 3, 7 to 8, 11).
    pub(crate) fn zstd(self) -> i32 {
        match self {
            Self::Fastest | Self::Fast => 1,
            Self::Default => 3,
            Self::Slow => 7,
            Self::Slowest => 11,
        }
    }

    /// Level of zstd in a zip, where the fastest is not faster (gitlab-runner, wire §3.4).
    pub(crate) fn zip_zstd(self) -> i32 {
        match self {
            Self::Fastest => Self::Default.zstd(),
            other => other.zstd(),
        }
    }
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
}
