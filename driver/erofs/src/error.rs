//! What can be wrong with an image's layers.

use std::io;

use crate::{Compression, Limit};

/// Why layers could not be converted. The image file is then of no use and can be removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The layer could not be read from where it comes from. The cause is the reader's own error.
    #[error("cannot read the layer")]
    Read(#[source] io::Error),
    /// The compressed stream is damaged or ends early.
    #[error("the layer is not a complete {compression} stream")]
    Inflate {
        /// How the layer is said to be compressed.
        compression: Compression,
        /// What the decompressor says.
        source: io::Error,
    },
    /// The tar stream is damaged.
    #[error("the layer's tar stream is damaged at byte {offset}: {fault}")]
    Tar {
        /// Where, in the uncompressed stream: the header that is meant, or the place behind it.
        offset: u64,
        /// What is wrong.
        fault: TarFault,
    },
    /// An entry that no image can have.
    #[error("the layer's entry \"{path}\" {problem}")]
    Entry {
        /// The entry's name as the layer has it, shortened, with escapes for what cannot be printed.
        path: String,
        /// What is wrong with it.
        problem: EntryProblem,
    },
    /// The image is larger than allowed.
    #[error("the image is too large: it has more than {max} {limit}")]
    TooLarge {
        /// What there is too much of.
        limit: Limit,
        /// How much is allowed.
        max: u64,
    },
    /// The image file could not be written.
    #[error("cannot {operation} the image file")]
    Write {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread to unpack the layer")]
    Thread(#[source] io::Error),
}

/// What is wrong with a tar stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TarFault {
    /// The stream ends inside a header or an entry's contents.
    #[error("it ends inside an entry")]
    Truncated,
    /// A header's checksum is not that of its bytes.
    #[error("a header's checksum is wrong")]
    Checksum,
    /// A number that is no number, or out of range.
    #[error("a header's {0} is not a number in range")]
    Number(&'static str),
    /// A block of zeros with something behind it that is not the end.
    #[error("there is a block of zeros in the middle")]
    LoneZeroBlock,
    /// An extended header that does not follow POSIX's pax format.
    #[error("an extended header is malformed")]
    Pax,
    /// An extended header or long name over 1 MiB.
    #[error("an extended header or long name is longer than 1 MiB")]
    ExtendedTooLong,
    /// Extended headers that no entry follows.
    #[error("an extended header describes no entry")]
    Dangling,
    /// A map of a sparse file that contradicts itself or the file's size.
    #[error("the map of a sparse file is inconsistent")]
    SparseMap,
    /// A map of a sparse file with too many parts.
    #[error("the map of a sparse file has more than {0} parts")]
    SparseMapTooLong(usize),
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// `..` leads out of the image.
    #[error("is outside the image's root")]
    OutsideRoot,
    /// A part of the name is longer than file systems allow.
    #[error("has a name longer than 255 bytes")]
    NameTooLong,
    /// The whole name, or a link's target, is longer than Linux allows.
    #[error("has a path longer than 4095 bytes")]
    PathTooLong,
    /// A NUL byte in a name.
    #[error("has a NUL byte in its name")]
    Nul,
    /// Symbolic links on the way lead on without end.
    #[error("goes through too many symbolic links")]
    SymlinkLoop,
    /// What its name says is a folder is a file that the same layer brings.
    #[error("is below a file of the same layer")]
    BelowFile,
    /// Links would have to become folders for it, one because of the other.
    #[error("is in the way of what the same layer brings through links")]
    InTheWay,
    /// Its own layer put something else in its place, or on the way to it.
    #[error("is lost, as the same layer puts something else in its place or on the way to it")]
    Lost,
    /// The root is no folder, or is to be removed.
    #[error("would replace or remove the image's root")]
    Root,
    /// A whiteout of no name, of `.` or of `..`.
    #[error("is a whiteout of nothing")]
    EmptyWhiteout,
    /// A hard link to a file that is not there.
    #[error("is a hard link to a file that does not exist")]
    MissingLinkTarget,
    /// A hard link to a folder.
    #[error("is a hard link to a folder")]
    LinkToFolder,
    /// A symbolic or hard link without a target.
    #[error("is a link without a target")]
    EmptyLink,
    /// A type of entry that images do not have.
    #[error("is of unknown type {:?}", char::from(*.0))]
    UnknownType(u8),
    /// An owner or group above 2^32 - 1.
    #[error("has an owner or group that is out of range")]
    Owner,
    /// A device number that Linux does not have.
    #[error("has a device number that is out of range")]
    Device,
    /// A name or value of an extended attribute that is too long, or too many of them.
    #[error("has extended attributes that are too long")]
    XattrTooLong,
    /// As many hard links to one file as cannot be counted.
    #[error("is one hard link too many to its file")]
    TooManyLinks,
}

impl ConvertError {
    pub(crate) fn entry(path: &[u8], problem: EntryProblem) -> Self {
        const SHOWN: usize = 200;
        let shown = path.get(..SHOWN).unwrap_or(path);
        let mut path = shown.escape_ascii().to_string();
        if shown.len() == SHOWN {
            path.push('…');
        }
        Self::Entry { path, problem }
    }
}
