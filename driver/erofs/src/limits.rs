//! How much an image may cost.

use std::fmt;

/// Bounds on what a conversion takes. Each counts over all layers of an image.
///
/// Memory stays below `max_entries` × 150 bytes + `max_metadata_bytes` + 16 MiB (plus 128 MiB for zstd layers that ask
/// for the largest window): 207 MiB with the default values, for an image that exhausts both. Ordinary images of some
/// ten thousand files take 6 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries of the layers' tar streams, together with the folders that they imply. Default: 1,000,000 (the
    /// largest images in common use, with whole machine learning toolkits, have some 300,000).
    pub max_entries: u64,
    /// Bytes of the layers' tar streams, uncompressed: what a decompression bomb is caught by. The image takes no
    /// more disk than this plus 5 KiB an entry. Default: 64 GiB.
    pub max_bytes: u64,
    /// Length of the image file, holes included: sparse files count in full, though they take no disk. At most
    /// 16 TiB count (EROFS: 2^32 blocks of 4 KiB). Default: 1 TiB.
    pub max_image_bytes: u64,
    /// Bytes of names, targets of symbolic links and distinct sets of extended attributes (with 128 bytes for each set
    /// itself), and once more the whole names of entries that lead through symbolic links. At most 4 GiB count.
    /// Default: 48 MiB.
    pub max_metadata_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_entries: 1_000_000,
            max_bytes: 64 << 30,
            max_image_bytes: 1 << 40,
            max_metadata_bytes: 48 << 20,
        }
    }
}

/// Which of the [`Limits`] an image exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::max_entries`].
    Entries,
    /// [`Limits::max_bytes`].
    Bytes,
    /// [`Limits::max_image_bytes`].
    ImageBytes,
    /// [`Limits::max_metadata_bytes`].
    MetadataBytes,
    /// Folders on the way to the entries: 100 times [`Limits::max_entries`].
    Steps,
    /// The number of layers.
    Layers,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entries => "entries",
            Self::Bytes => "bytes in its unpacked layers",
            Self::ImageBytes => "bytes as a file system",
            Self::MetadataBytes => "bytes of names and attributes",
            Self::Steps => "folders on the way to its entries",
            Self::Layers => "layers",
        })
    }
}
