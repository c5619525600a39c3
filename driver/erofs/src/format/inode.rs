//! A file's record: always the extended form, as the compact one has no time of its own.

use crate::tree::Inode;

/// Bytes of a record.
pub(crate) const SIZE: usize = 64;
/// Records are numbered by their place in units of so many bytes.
pub(crate) const SLOT: u64 = 32;

/// Where the contents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In blocks of their own.
    Plain,
    /// In blocks of their own, the last one behind the record and its attributes.
    Inline,
}

/// What the record has besides what the tree knows of the file.
pub(crate) struct Placed {
    pub(crate) layout: Layout,
    /// First block of the contents, or a device's number.
    pub(crate) place: u32,
    /// Bytes of contents.
    pub(crate) size: u64,
    pub(crate) links: u32,
    /// Length of the attributes behind the record, in bytes.
    pub(crate) xattrs: usize,
    /// Number of the file among all files, for programs with 32-bit file numbers.
    pub(crate) serial: u32,
}

/// The record of `inode`.
pub(crate) fn encode(inode: &Inode, placed: &Placed) -> [u8; SIZE] {
    let layout: u16 = match placed.layout {
        Layout::Plain => 0,
        Layout::Inline => 2,
    };
    let format = 1 | layout << 1;
    let mut record = [0; SIZE];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = record.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    put(&format.to_le_bytes());
    put(&super::xattr::count(placed.xattrs).to_le_bytes());
    put(&inode.mode.to_le_bytes());
    put(&[0; 2]);
    put(&placed.size.to_le_bytes());
    put(&placed.place.to_le_bytes());
    put(&placed.serial.to_le_bytes());
    put(&inode.uid.to_le_bytes());
    put(&inode.gid.to_le_bytes());
    put(&inode.mtime.seconds.to_le_bytes());
    put(&inode.mtime.nanos.to_le_bytes());
    put(&placed.links.to_le_bytes());
    record
}

/// A device's number as it is on disk: Linux's `new_encode_dev`, with 12 bits for the major and 20 for the minor number.
pub(crate) fn device(major: u64, minor: u64) -> Option<u32> {
    let major = u32::try_from(major).ok().filter(|major| *major < 1 << 12)?;
    let minor = u32::try_from(minor).ok().filter(|minor| *minor < 1 << 20)?;
    Some(minor & 0xff | major << 8 | (minor & !0xff) << 12)
}
