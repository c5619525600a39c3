//! The first block.

use super::BLOCK;

/// Where the superblock is in the first block.
const OFFSET: usize = 1024;
const MAGIC: u32 = 0xE0F5_E1E2;
/// There is a checksum; the times of files are those of their last change.
const COMPATIBLE_FEATURES: u32 = 0x1 | 0x2;

/// What the superblock tells of an image without compression, further devices or shared attributes.
pub(crate) struct Superblock {
    /// Number of the root folder.
    pub(crate) root: u16,
    /// How many files there are.
    pub(crate) inodes: u64,
    /// Length of the image in blocks.
    pub(crate) blocks: u32,
    /// The block that files are numbered from.
    pub(crate) metadata_block: u32,
}

/// The size of a block, as a power of two.
const BLOCK_BITS: u8 = 12;

const _: () = assert!(1 << BLOCK_BITS == BLOCK);

impl Superblock {
    /// The first block with the superblock in it. UUID, name and time of the image are left 0: equal layers give equal
    /// bytes.
    pub(crate) fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        {
            let mut put = |at: usize, bytes: &[u8]| {
                let place = OFFSET + at..OFFSET + at + bytes.len();
                if let Some(place) = block.get_mut(place) {
                    place.copy_from_slice(bytes);
                }
            };
            put(0, &MAGIC.to_le_bytes());
            put(8, &COMPATIBLE_FEATURES.to_le_bytes());
            put(12, &[BLOCK_BITS]);
            put(14, &self.root.to_le_bytes());
            put(16, &self.inodes.to_le_bytes());
            put(36, &self.blocks.to_le_bytes());
            put(40, &self.metadata_block.to_le_bytes());
        }
        let checksum = crc32c(&block[OFFSET..]);
        block[OFFSET + 4..OFFSET + 8].copy_from_slice(&checksum.to_le_bytes());
        block
    }
}

/// CRC-32C as Linux's `crc32c(~0, …)`, which does not invert the result: over the block from the superblock on, with 0
/// for the checksum.
fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let carry = 0_u32.wrapping_sub(crc & 1);
            (crc >> 1) ^ (0x82F6_3B78 & carry)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // The check value of CRC-32C, which is inverted at the end (RFC 3720, B.4 has others).
        assert_eq!(!crc32c(b"123456789"), 0xE306_9283);
    }
}
