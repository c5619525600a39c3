//! A folder's contents: blocks of fixed-size records followed by the names they point to, sorted throughout.

use super::BLOCK;
use crate::tree::kind;

/// Bytes of a record.
const RECORD: usize = 12;

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a [u8],
    /// Number of the file.
    pub(crate) nid: u64,
    /// Its `st_mode`.
    pub(crate) mode: u16,
}

/// How many entries of `lengths`, names' lengths in order, fit into each block, and how many bytes they take there.
pub(crate) fn pack(lengths: impl Iterator<Item = usize>) -> impl Iterator<Item = (usize, usize)> {
    let mut lengths = lengths.peekable();
    std::iter::from_fn(move || {
        let (mut count, mut bytes) = (0, 0);
        while let Some(len) = lengths.next_if(|len| bytes + RECORD + len <= BLOCK) {
            count += 1;
            bytes += RECORD + len;
        }
        (count > 0).then_some((count, bytes))
    })
}

/// The bytes of a block with `items`.
pub(crate) fn encode(items: &[Item<'_>], block: &mut Vec<u8>) {
    block.clear();
    let mut place = items.len() * RECORD;
    for item in items {
        block.extend_from_slice(&item.nid.to_le_bytes());
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below the size of a block: `pack` says how many items fit"
        )]
        let place_in_block = place as u16;
        block.extend_from_slice(&place_in_block.to_le_bytes());
        block.push(file_type(item.mode));
        block.push(0);
        place += item.name.len();
    }
    for item in items {
        block.extend_from_slice(item.name);
    }
}

/// The types of directory entries: Linux, include/linux/fs_types.h.
fn file_type(mode: u16) -> u8 {
    match mode & kind::MASK {
        kind::FILE => 1,
        kind::FOLDER => 2,
        kind::CHAR_DEVICE => 3,
        kind::BLOCK_DEVICE => 4,
        kind::FIFO => 5,
        kind::SYMLINK => 7,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_filled_to_the_last_byte() {
        // 12 + 244 bytes each: 16 fill a block.
        let packed: Vec<_> = pack(std::iter::repeat_n(244, 33)).collect();

        assert_eq!(packed, [(16, 4096), (16, 4096), (1, 256)]);
        assert_eq!(pack(std::iter::empty()).count(), 0);
    }
}
