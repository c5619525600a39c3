//! Maps of sparse files.

use super::entry::{Contents, Part};
use super::number;
use super::pax::MAX_PARTS;
use crate::TarFault;

/// Checks that `parts` lie in order inside a file of `size` bytes and take exactly the `stored` bytes that follow.
pub(crate) fn contents(size: u64, parts: Vec<Part>, stored: u64) -> Result<Contents, TarFault> {
    let (mut end, mut sum) = (0, 0_u64);
    for part in &parts {
        if part.offset < end {
            return Err(TarFault::SparseMap);
        }
        end = part
            .offset
            .checked_add(part.len)
            .ok_or(TarFault::SparseMap)?;
        // Cannot overflow: the parts do not overlap.
        sum = sum.saturating_add(part.len);
    }
    match end <= size && sum == stored {
        true => Ok(Contents { size, parts }),
        false => Err(TarFault::SparseMap),
    }
}

/// Reads the map of version 1.0, which stands before the contents: decimal lines, first how many parts there are, then
/// offset and length of each.
#[derive(Default)]
pub(crate) struct MapReader {
    line: Vec<u8>,
    expected: Option<usize>,
    offset: Option<u64>,
    parts: Vec<Part>,
}

/// Longest line: no 64-bit number has more digits.
const MAX_LINE: usize = 20;

impl MapReader {
    /// Reads on in `block`. True when the map is complete; what remains of the block is filler.
    pub(crate) fn read(&mut self, block: &[u8]) -> Result<bool, TarFault> {
        for byte in block {
            if *byte != b'\n' {
                if self.line.len() == MAX_LINE {
                    return Err(TarFault::SparseMap);
                }
                self.line.push(*byte);
                continue;
            }
            let value = number::decimal(&self.line).ok_or(TarFault::SparseMap)?;
            self.line.clear();
            if self.value(value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the next number. True if it is the last one.
    fn value(&mut self, value: u64) -> Result<bool, TarFault> {
        let Some(expected) = self.expected else {
            let expected = usize::try_from(value).ok().filter(|n| *n <= MAX_PARTS);
            let expected = expected.ok_or(TarFault::SparseMapTooLong(MAX_PARTS))?;
            self.expected = Some(expected);
            return Ok(expected == 0);
        };
        match self.offset.take() {
            None => self.offset = Some(value),
            Some(offset) => self.parts.push(Part { offset, len: value }),
        }
        Ok(self.parts.len() == expected)
    }

    pub(crate) fn into_parts(self) -> Vec<Part> {
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[(u64, u64)]) -> Vec<Part> {
        let part = |&(offset, len)| Part { offset, len };
        list.iter().map(part).collect()
    }

    #[test]
    fn parts_must_be_in_order_inside_the_file_and_as_long_as_what_is_stored() {
        assert!(contents(10, parts(&[(0, 2), (5, 5)]), 7).is_ok());
        assert!(contents(10, parts(&[(0, 2), (2, 0), (10, 0)]), 2).is_ok());
        for (size, list, stored) in [
            (10, &[(0, 2), (5, 6)][..], 8),
            (10, &[(5, 2), (0, 2)], 4),
            (10, &[(0, 5), (4, 2)], 7),
            (10, &[(0, 2)], 3),
            (u64::MAX, &[(u64::MAX, 1)], 1),
        ] {
            let found = contents(size, parts(list), stored);
            assert_eq!(found, Err(TarFault::SparseMap), "{size} {list:?} {stored}");
        }
    }

    #[test]
    fn a_map_before_the_contents_is_read_across_blocks() {
        let mut reader = MapReader::default();

        assert_eq!(reader.read(b"2\n0\n51"), Ok(false));
        assert_eq!(reader.read(b"2\n4096\n1\n\0\0"), Ok(true));

        assert_eq!(reader.into_parts(), parts(&[(0, 512), (4096, 1)]));
    }

    #[test]
    fn maps_with_garbage_or_too_many_parts_are_refused() {
        for wrong in [
            &b"x\n"[..],
            b"\n",
            b"-1\n",
            b"1\n0\n\n",
            b"111111111111111111111\n",
        ] {
            assert_eq!(MapReader::default().read(wrong), Err(TarFault::SparseMap));
        }
        let found = MapReader::default().read(b"131073\n");
        assert_eq!(found, Err(TarFault::SparseMapTooLong(MAX_PARTS)));
    }
}
