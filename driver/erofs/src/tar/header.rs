//! The 512 bytes before each entry.

use super::Time;
use super::entry::Part;
use super::number;
use crate::TarFault;

pub(crate) const BLOCK: usize = 512;

/// A header block. Field offsets: POSIX.1-2017 pax, "ustar Interchange Format", and GNU tar's manual, "Basic Tar Format".
pub(crate) struct Header<'a>(pub(crate) &'a [u8; BLOCK]);

/// Which fields there are behind the first 257 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V7,
    Ustar,
    Star,
    Gnu,
}

impl Header<'_> {
    /// Compares the checksum: the sum of all bytes, its own field taken as blanks. Old tars summed signed bytes.
    pub(crate) fn check(&self) -> Result<(), TarFault> {
        let stored = number::field(self.bytes(148, 8)).ok_or(TarFault::Checksum)?;
        let (mut unsigned, mut signed) = (0_i64, 0_i64);
        for (at, byte) in self.0.iter().enumerate() {
            let byte = if (148..156).contains(&at) {
                b' '
            } else {
                *byte
            };
            unsigned += i64::from(byte);
            signed += i64::from(byte.cast_signed());
        }
        match stored == unsigned || stored == signed {
            true => Ok(()),
            false => Err(TarFault::Checksum),
        }
    }

    pub(crate) fn type_flag(&self) -> u8 {
        self.bytes(156, 1).first().copied().unwrap_or_default()
    }

    /// The name with its prefix.
    pub(crate) fn path(&self) -> Vec<u8> {
        let prefix = match self.dialect() {
            Dialect::Ustar => text(self.bytes(345, 155)),
            Dialect::Star => text(self.bytes(345, 131)),
            Dialect::V7 | Dialect::Gnu => b"",
        };
        let name = text(self.bytes(0, 100));
        match prefix {
            b"" => name.to_vec(),
            _ => [prefix, b"/", name].concat(),
        }
    }

    pub(crate) fn link(&self) -> Vec<u8> {
        text(self.bytes(157, 100)).to_vec()
    }

    pub(crate) fn mode(&self) -> Result<u16, TarFault> {
        let mode = self.number("mode", 100, 8)? & 0o7777;
        u16::try_from(mode).map_err(|_| TarFault::Number("mode"))
    }

    pub(crate) fn uid(&self) -> Result<u64, TarFault> {
        self.number("owner", 108, 8)
    }

    pub(crate) fn gid(&self) -> Result<u64, TarFault> {
        self.number("group", 116, 8)
    }

    pub(crate) fn size(&self) -> Result<u64, TarFault> {
        self.number("size", 124, 12)
    }

    pub(crate) fn mtime(&self) -> Result<Time, TarFault> {
        let seconds = number::field(self.bytes(136, 12)).ok_or(TarFault::Number("time"))?;
        Ok(Time { seconds, nanos: 0 })
    }

    /// Major and minor number of a device.
    pub(crate) fn device(&self) -> Result<(u64, u64), TarFault> {
        match self.dialect() {
            Dialect::V7 => Ok((0, 0)),
            _ => Ok((
                self.number("device number", 329, 8)?,
                self.number("device number", 337, 8)?,
            )),
        }
    }

    /// Length of a sparse file of GNU's old format.
    pub(crate) fn sparse_size(&self) -> Result<u64, TarFault> {
        self.number("size", 483, 12)
    }

    /// The first parts of such a file, and whether blocks with more follow.
    pub(crate) fn sparse_parts(&self) -> Result<(Vec<Part>, bool), TarFault> {
        Ok((parts(self.bytes(386, 4 * 24))?, self.0[482] != 0))
    }

    fn dialect(&self) -> Dialect {
        match self.bytes(257, 8) {
            b"ustar  \0" => Dialect::Gnu,
            [b'u', b's', b't', b'a', b'r', 0, ..] if self.bytes(508, 4) == b"tar\0" => {
                Dialect::Star
            }
            [b'u', b's', b't', b'a', b'r', 0, ..] => Dialect::Ustar,
            _ => Dialect::V7,
        }
    }

    fn number(&self, what: &'static str, at: usize, len: usize) -> Result<u64, TarFault> {
        let value = number::field(self.bytes(at, len));
        value
            .and_then(|value| u64::try_from(value).ok())
            .ok_or(TarFault::Number(what))
    }

    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.0.get(at..at + len).unwrap_or_default()
    }
}

/// A block of further parts of a sparse file, and whether another one follows (GNU tar's manual, "Storing Sparse Files").
pub(crate) fn more_sparse_parts(block: &[u8; BLOCK]) -> Result<(Vec<Part>, bool), TarFault> {
    Ok((parts(&block[..21 * 24])?, block[504] != 0))
}

/// Pairs of numbers of twelve bytes, up to the first that is empty.
fn parts(bytes: &[u8]) -> Result<Vec<Part>, TarFault> {
    let value = |bytes| {
        let value = number::field(bytes).and_then(|value| u64::try_from(value).ok());
        value.ok_or(TarFault::SparseMap)
    };
    bytes
        .chunks_exact(24)
        .take_while(|pair| pair.first().is_some_and(|first| *first != 0))
        .map(|pair| {
            let (offset, len) = pair.split_at(12);
            Ok(Part {
                offset: value(offset)?,
                len: value(len)?,
            })
        })
        .collect()
}

/// Up to the first NUL.
pub(crate) fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fields: &[(usize, &[u8])]) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        for (at, bytes) in fields {
            block[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        block
    }

    #[test]
    fn what_stands_behind_the_link_depends_on_the_dialect() {
        let (name, prefix) = ((0, &b"name"[..]), (345, &b"prefix"[..]));
        let device = [(329, &b"0000007"[..]), (337, &b"0000012"[..])];
        let ustar = (257, &b"ustar\x0000"[..]);
        let gnu = (257, &b"ustar  \0"[..]);
        let star = (508, &b"tar\0"[..]);
        // Star keeps times where ustar's prefix goes on.
        let times = (345 + 131, &b"14000000000 14000000000 "[..]);
        let long = (345, &[b'p'; 155][..]);
        for (fields, path, device) in [
            (&[name, prefix, device[0], device[1]][..], "name", (0, 0)),
            (
                &[name, prefix, device[0], device[1], ustar],
                "prefix/name",
                (7, 10),
            ),
            (&[name, prefix, device[0], device[1], gnu], "name", (7, 10)),
            (&[name, prefix, times, ustar, star], "prefix/name", (0, 0)),
            (&[name, long, ustar], &("p".repeat(155) + "/name"), (0, 0)),
            (
                &[name, long, times, ustar, star],
                &("p".repeat(131) + "/name"),
                (0, 0),
            ),
        ] {
            let block = block(fields);
            let header = Header(&block);
            assert_eq!(header.path(), path.as_bytes());
            assert_eq!(header.device(), Ok(device));
        }
    }

    #[test]
    fn checksums_of_signed_bytes_are_accepted() {
        let mut bytes = block(&[(0, b"\xff\xff")]);
        for (sum, result) in [
            (8 * 0x20 + 510, Ok(())),
            (8 * 0x20 - 2, Ok(())),
            (8 * 0x20, Err(TarFault::Checksum)),
        ] {
            bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            assert_eq!(Header(&bytes).check(), result, "{sum}");
        }
    }
}
