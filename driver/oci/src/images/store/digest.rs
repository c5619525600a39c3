//! The digest by which a root file system is known, which costs what its data costs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use sha2::{Digest as _, Sha256};

use crate::registry::Digest;

/// How much is read at a time, in bytes. Part of the digest.
const PIECE: usize = 256 << 10;

/// sha256 over the pieces of `file` that are not all zeros, each after its number, and over the file's length; numbers
/// have 64 bits, little endian. It depends on the bytes alone, wherever the file has holes; but holes are not read: to
/// read one costs time, and as much of the host's memory as it is long.
pub(super) fn digest(file: &File) -> io::Result<Digest> {
    const LEN: u64 = PIECE as u64;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; PIECE];
    let mut end = 0;
    while let Some(data) = next_data(file, end)? {
        let number = data / LEN;
        let piece = read(file, number * LEN, &mut buffer)?;
        if piece.is_empty() {
            break;
        }
        if piece.iter().any(|byte| *byte != 0) {
            hasher.update(number.to_le_bytes());
            hasher.update(piece);
        }
        end = (number + 1) * LEN;
    }
    hasher.update(file.metadata()?.len().to_le_bytes());
    Ok(Digest::from_sha256(hasher.finalize().into()))
}

/// Where data begins, at `from` or behind it; file systems without holes say `from`. `None` if there is only a hole.
fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    let offset = i64::try_from(from).map_err(io::Error::other)?;
    match lseek(file, offset, Whence::SeekData) {
        Ok(found) => u64::try_from(found).map(Some).map_err(io::Error::other),
        Err(Errno::ENXIO) => Ok(None),
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => Ok(Some(from)),
        Err(error) => Err(error.into()),
    }
}

/// What the file has at `offset`, less than the buffer holds at its end only.
fn read<'a>(file: &File, offset: u64, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + len as u64) {
            Ok(0) => break,
            Ok(some) => len += some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer.get(..len).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: u64 = PIECE as u64;

    fn file(len: u64, data: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        for (offset, bytes) in data {
            file.write_all_at(bytes, *offset).unwrap();
        }
        file
    }

    #[test]
    fn holes_and_zeros_are_the_same() {
        let hole = file(5 * P + 7, &[(2 * P + 5, b"x"), (5 * P, b"end")]);
        let zeros = vec![0; 5 * PIECE + 7];
        let full = file(
            5 * P + 7,
            &[(0, &zeros), (2 * P + 5, b"x"), (5 * P, b"end")],
        );

        assert_eq!(digest(&hole).unwrap(), digest(&full).unwrap());
    }

    #[test]
    fn whatever_differs_has_another_digest() {
        let files = [
            file(0, &[]),
            file(1, &[]),
            file(P, &[]),
            file(P, &[(0, b"x")]),
            file(P, &[(1, b"x")]),
            file(2 * P, &[(0, b"x")]),
            file(2 * P, &[(P, b"x")]),
            file(2 * P, &[(0, b"x"), (P, b"x")]),
            file(2 * P + 1, &[(0, b"x"), (P, b"x")]),
            file(2 * P + 1, &[(2 * P, b"x")]),
        ];

        let mut digests: Vec<_> = files.iter().map(|file| digest(file).unwrap()).collect();
        digests.sort_unstable_by_key(Digest::hex);
        digests.dedup();

        assert_eq!(digests.len(), files.len());
    }

    #[test]
    fn holes_are_not_read() {
        // Reading it would take longer than anybody waits.
        let huge = file(4 << 40, &[(2 << 40, b"x")]);

        assert_ne!(digest(&huge).unwrap(), digest(&file(4 << 40, &[])).unwrap());
    }
}
