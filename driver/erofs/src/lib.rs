//! OCI layers to one uncompressed EROFS file: in userspace, without root, streaming, with bounded memory.
//!
//! A [`Converter`] is given an image's layers, bottom first, as they come from the network. While a layer is
//! inflated its checksum is computed and its tar stream read, each on a thread of its own; what files hold goes
//! straight to its final place in the image, once. Of the tree, a compact record per entry is kept in memory;
//! [`Converter::finish`] writes it behind the contents, and the superblock last.
//!
//! # How layers are applied
//!
//! As the [OCI image specification](https://github.com/opencontainers/image-spec/blob/main/layer.md) says. Where it is
//! silent, names lead through symbolic links, as with umoci, and no entry gets lost by that:
//!
//! - Whiteouts (`.wh.NAME`) and opaque marks (`.wh..wh..opq`) hide what lower layers brought, wherever they stand
//!   in the layer, and nothing that their own layer brings. Other names that begin with `.wh..wh.` are left out.
//! - Names are cleaned (`/a`, `./a` and `b/../a` are `a`); one that leaves the image's root is an error.
//! - The folders on the way to an entry are found as a process inside the image would find them: symbolic links of
//!   this or earlier layers are followed, `..` and absolute targets stay inside the image, and a loop is an error.
//!   The last part of the name is never followed: it is replaced, or merged if old and new are both folders.
//! - Folders that are missing on the way are made (0755, root's, of 1970); a file of a lower layer in the way is replaced
//!   by one.
//! - What a layer brings is found by its name in the end. Where a link of a lower layer leads to a file, or leads two
//!   entries of the layer to one place, or one below the other, a folder takes the place of the link, as it would in Docker;
//!   it has what the layer brings through the link, in whatever order. Where no folder can, the layer is refused: below
//!   a file of its own, and where one of its entries has taken the place of another one, or of a folder or link on the way
//!   to it, for good.
//! - A hard link names a file of this layer or of an earlier one, found by the same rules.
//! - The same name twice in a layer: the last one counts, if nothing else of the layer is lost with the first.
//! - A character device 0/0 is kept like any other. Below an overlay, as in vk's guests, it hides its own name.
//! - Extended attributes are kept in the namespaces `user`, `trusted`, `security` and of POSIX ACLs. Others, and those
//!   that overlayfs keeps for itself, are left out and counted.

mod convert;
mod data;
mod error;
mod format;
mod image;
mod inflate;
mod layer;
mod limits;
mod path;
mod pipeline;
mod tar;
mod tree;
mod xattr;

pub use convert::{Converter, FORMAT_VERSION, LayerSummary, Summary};
pub use error::{ConvertError, EntryProblem, TarFault};
pub use inflate::Compression;
pub use limits::{Limit, Limits};
