//! One entry, with all that extended headers say of it.

/// An entry of a tar stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name, uncleaned.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// Permissions with set-user-ID, set-group-ID and sticky bits: at most 0o7777.
    pub(crate) mode: u16,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: Time,
    pub(crate) xattrs: Vec<Xattr>,
}

/// What an entry is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File(Contents),
    Folder,
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
    Device {
        block: bool,
        major: u64,
        minor: u64,
    },
    Fifo,
    /// A type that is none of these.
    Other(u8),
}

/// Where the bytes of a file belong that follow in the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Length of the file, holes included.
    pub(crate) size: u64,
    /// The parts that are no holes: in order, apart, inside the file.
    pub(crate) parts: Vec<Part>,
}

/// A part of a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A moment: seconds since 1970, and nanoseconds (below 10^9) after that second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Xattr {
    /// With its namespace: `user.comment`.
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}
