//! What levels mean to the compressors.

use vk_archive_format::Level;

/// Levels of libdeflate in a zip, the second one for every fourth MiB of large files; none stores.
///
/// fastzip's numbers are 1, 5, 7 and 9 (gitlab-runner, wire §3.4). For the default what counts is what comes out: the
/// fastest that stays within 108 % of the size of `zip -6` (docs/benchmarks.md).
pub(super) fn deflate(level: Level) -> Option<[i32; 2]> {
    match level {
        Level::Fastest => None,
        Level::Fast => Some([1, 1]),
        Level::Default => Some([1, 2]),
        Level::Slow => Some([7, 7]),
        Level::Slowest => Some([9, 9]),
    }
}

/// Level of zstd. GitLab Runner names levels of Go's library; its documentation calls them about these of the C
/// library (1, 3, 7 to 8, 11).
pub(super) fn zstd(level: Level) -> i32 {
    match level {
        Level::Fastest | Level::Fast => 1,
        Level::Default => 3,
        Level::Slow => 7,
        Level::Slowest => 11,
    }
}

/// Level of zstd in a zip, where the fastest is not faster (gitlab-runner, wire §3.4).
pub(super) fn zip_zstd(level: Level) -> i32 {
    match level {
        Level::Fastest => zstd(Level::Default),
        other => zstd(other),
    }
}
