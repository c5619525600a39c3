//! The converter.

use std::fs::File;
use std::io::Read;

use crate::data::ImageFile;
use crate::image;
use crate::layer::Image;
use crate::pipeline;
use crate::tar::Reader;
use crate::tree::Tree;
use crate::xattr::XattrSets;
use crate::{Compression, ConvertError, Limits};

/// Counts up whenever the same layers may give other bytes than before. Part of the key of whoever keeps images.
pub const FORMAT_VERSION: u32 = 2;

/// Makes an EROFS image of layers. See the crate's documentation.
pub struct Converter {
    image: Image,
    bytes: u64,
}

/// What was in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerSummary {
    /// Entries of its tar stream.
    pub entries: u64,
    /// Length of the tar stream.
    pub bytes: u64,
    /// sha256 of the tar stream: what the image's configuration lists among `rootfs.diff_ids`.
    pub diff_id: [u8; 32],
    /// Extended attributes that were left out, because EROFS cannot hold them or they belong to overlayfs.
    pub skipped_xattrs: u64,
}

/// What became of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Length of the image file. It may take less disk than that: it has holes.
    pub image_bytes: u64,
    /// Files, folders and all else in it.
    pub inodes: u64,
}

impl Converter {
    /// A converter that writes to `out`, which is to be a regular file, empty, and open for writing. Syncing it, and
    /// moving it to where it belongs, is up to the caller.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn new(out: File, limits: Limits) -> Result<Self, ConvertError> {
        let mut file = ImageFile::new(out);
        // Whatever was in it would show in holes.
        file.set_len(0)?;
        Ok(Self {
            image: Image {
                file,
                tree: Tree::new(limits.clone()),
                xattrs: XattrSets::new(),
                next_block: 1,
                limits,
            },
            bytes: 0,
        })
    }

    /// Adds a layer on top of those added before, and reads it to its end: behind the end of the tar stream, too, so
    /// that its checksums are those of all its bytes.
    ///
    /// # Errors
    ///
    /// If the layer cannot be read ([`ConvertError::Read`] with the reader's own error), is damaged, or holds what no
    /// image may hold. Reading may end anywhere then, once the running `read` is done; the converter is of no more use.
    pub fn add_layer(
        &mut self,
        layer: &mut (dyn Read + Send),
        compression: Compression,
    ) -> Result<LayerSummary, ConvertError> {
        let allowed = self.image.limits.max_bytes;
        let left = allowed.saturating_sub(self.bytes);
        let (applied, measured) = pipeline::run(layer, compression, left, allowed, |stream| {
            self.image.apply(Reader::new(stream))
        })?;
        self.bytes += measured.bytes;
        Ok(LayerSummary {
            entries: applied.entries,
            bytes: measured.bytes,
            diff_id: measured.sha256,
            skipped_xattrs: applied.skipped_xattrs,
        })
    }

    /// Writes the tree, and the superblock last: until then the file is no EROFS image. The same layers always give
    /// the same bytes.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or becomes longer than allowed.
    pub fn finish(self) -> Result<Summary, ConvertError> {
        image::write(self.image)
    }
}
