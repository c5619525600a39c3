//! EROFS as it is on disk. Source of all layouts and constants: Linux 6.1, fs/erofs/erofs_fs.h and its readers beside
//! it; Documentation/filesystems/erofs.rst.

pub(crate) mod folder;
pub(crate) mod inode;
pub(crate) mod superblock;
pub(crate) mod xattr;

/// Bytes of a block: the guest's page size, the only one that Linux 6.1 mounts.
pub(crate) const BLOCK: usize = 4096;

/// How many blocks `bytes` take.
pub(crate) fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK as u64)
}
