//! The names in a git index, versions 2 to 4 (gitformat-index(5)).

use std::cmp::Ordering;
use std::io::{self, BufRead, Read};

/// Longest name that an index may hold: the kernel takes none over 4 KiB (`PATH_MAX` of limits.h).
const MOST_NAME: usize = 4096;

/// Most bytes of all names together, with [`END`] for each. The index of a million files of a hundred letters has 116
/// million.
const MOST_NAMES: usize = 112 << 20;

/// What is held of a name beside it.
const END: usize = size_of::<(usize, bool)>();

/// Mode of an entry that is another repository's commit: a submodule.
const GITLINK: u32 = 0o160_000;

/// Which hashes a repository uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl ObjectFormat {
    fn hash_len(self) -> u64 {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// Why an index cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// It cannot be read, or ends early.
    #[error("cannot read the index: {0}")]
    Io(#[from] io::Error),
    /// It is none.
    #[error("the index is broken")]
    Broken,
    /// It is of another version.
    #[error("the index is of version {0}; versions 2 to 4 are read")]
    Version(u32),
    /// It leans on another file, or leaves files out.
    #[error(
        "the index has the extension `{0}`, which is not read; turn off git's split and sparse index"
    )]
    Extension(String),
    /// Its names take more memory than is given to them.
    #[error("the index has more than {MOST_NAMES} bytes of names")]
    TooLarge,
}

/// The names that a repository tracks.
#[derive(Debug, Default)]
pub struct Index {
    /// All names, one behind the other.
    names: Vec<u8>,
    /// Where each ends, with whether it is a submodule; in the order of their bytes.
    ends: Vec<(usize, bool)>,
}

/// What an index says of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracked {
    /// It is a tracked file.
    Itself,
    /// It is a submodule.
    Submodule,
    /// Files below it are tracked.
    Below,
    /// Nothing.
    No,
}

impl Index {
    /// Reads one of `len` bytes. Its checksum is not looked at: the repository belongs to the job, and git may leave it out.
    ///
    /// # Errors
    ///
    /// [`IndexError`].
    pub fn read(from: impl BufRead, len: u64, format: ObjectFormat) -> Result<Self, IndexError> {
        let mut from = from.take(len.saturating_sub(format.hash_len()));
        let [signature, version, count] = words::<3>(&mut from)?;
        if signature != u32::from_be_bytes(*b"DIRC") {
            return Err(IndexError::Broken);
        }
        if !(2..=4).contains(&version) {
            return Err(IndexError::Version(version));
        }
        let mut index = Self::default();
        let mut name = Vec::new();
        for _ in 0..count {
            let mode = read_entry(&mut from, version, format, &mut name)?;
            if index.names.len() + name.len() + index.ends.len() * END > MOST_NAMES {
                return Err(IndexError::TooLarge);
            }
            // Unmerged names come once for each side.
            if index.ends.is_empty() || index.name(index.ends.len() - 1) != name.as_slice() {
                index.names.extend_from_slice(&name);
                index.ends.push((index.names.len(), mode == GITLINK));
            }
        }
        check_extensions(&mut from)?;
        // It is sorted; look-ups must not go astray if it is not.
        if (1..index.ends.len()).any(|at| index.name(at - 1) >= index.name(at)) {
            return Err(IndexError::Broken);
        }
        Ok(index)
    }

    fn name(&self, number: usize) -> &[u8] {
        let start = number
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |(end, _)| *end);
        let end = self.ends.get(number).map_or(start, |(end, _)| *end);
        self.names.get(start..end).unwrap_or_default()
    }

    pub(super) fn look_up(&self, path: &[u8]) -> Tracked {
        if let Ok(at) = self.search(|name| name.cmp(path)) {
            let submodule = self.ends.get(at).is_some_and(|(_, submodule)| *submodule);
            return if submodule {
                Tracked::Submodule
            } else {
                Tracked::Itself
            };
        }
        let folder = [path, b"/"].concat();
        let below = self.search(|name| {
            if name.starts_with(&folder) {
                Ordering::Equal
            } else {
                name.cmp(&folder)
            }
        });
        if below.is_ok() {
            Tracked::Below
        } else {
            Tracked::No
        }
    }

    fn search(&self, order: impl Fn(&[u8]) -> Ordering) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match order(self.name(middle)) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|number| self.name(number))
    }
}

fn words<const N: usize>(from: &mut impl Read) -> Result<[u32; N], IndexError> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 4];
        from.read_exact(&mut bytes)?;
        *word = u32::from_be_bytes(bytes);
    }
    Ok(words)
}

fn skip(from: &mut impl Read, bytes: u64) -> Result<(), IndexError> {
    let skipped = io::copy(&mut from.take(bytes), &mut io::sink())?;
    if skipped < bytes {
        Err(IndexError::Broken)
    } else {
        Ok(())
    }
}

/// Reads an entry's name into `name`, which holds the one before; its mode.
fn read_entry(
    from: &mut impl BufRead,
    version: u32,
    format: ObjectFormat,
    name: &mut Vec<u8>,
) -> Result<u32, IndexError> {
    let [_, _, _, _, _, _, mode, _, _, _] = words::<10>(from)?;
    let hash = format.hash_len();
    skip(from, hash)?;
    let mut bytes = [0; 2];
    from.read_exact(&mut bytes)?;
    let flags = u16::from_be_bytes(bytes);
    let extended = version >= 3 && flags & 0x4000 != 0;
    if extended {
        skip(from, 2)?;
    }
    if version == 4 {
        let strip = varint(from)?;
        let keep = name.len().checked_sub(strip).ok_or(IndexError::Broken)?;
        name.truncate(keep);
        read_name(from, name)?;
    } else {
        name.clear();
        read_name(from, name)?;
        // NULs, one of which was read, up to a multiple of eight.
        let size = 42 + hash + if extended { 2 } else { 0 } + name.len() as u64;
        skip(from, 7 - size % 8)?;
    }
    if name.is_empty() || name.len() > MOST_NAME {
        return Err(IndexError::Broken);
    }
    Ok(mode)
}

/// Appends what comes before the next NUL.
fn read_name(from: &mut impl BufRead, name: &mut Vec<u8>) -> Result<(), IndexError> {
    from.take(MOST_NAME as u64).read_until(0, name)?;
    if name.pop() == Some(0) {
        Ok(())
    } else {
        Err(IndexError::Broken)
    }
}

/// A number as the offsets of packs are written (gitformat-pack(5), "offset encoding").
fn varint(from: &mut impl Read) -> Result<usize, IndexError> {
    let mut number: usize = 0;
    for at in 0.. {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        let [byte] = byte;
        number = number
            .checked_add(usize::from(at > 0))
            .and_then(|it| it.checked_mul(128))
            .ok_or(IndexError::Broken)?
            | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok(number)
}

/// Extensions whose names begin with a small letter change what an index means: `link` (split) and `sdir`
/// (sparse) are those that there are.
fn check_extensions(from: &mut impl BufRead) -> Result<(), IndexError> {
    while !from.fill_buf()?.is_empty() {
        let mut signature = [0; 4];
        from.read_exact(&mut signature)?;
        if !signature.first().is_some_and(u8::is_ascii_uppercase) {
            let name = String::from_utf8_lossy(&signature).into_owned();
            return Err(IndexError::Extension(name));
        }
        let [size] = words::<1>(from)?;
        skip(from, size.into())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(version: u32, count: u32) -> Vec<u8> {
        [*b"DIRC", version.to_be_bytes(), count.to_be_bytes()].concat()
    }

    fn entry(name: &str) -> Vec<u8> {
        let mut bytes = vec![0; 62];
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len() / 8 * 8 + 8, 0);
        bytes
    }

    fn read(mut bytes: Vec<u8>) -> Result<Index, IndexError> {
        bytes.extend([0; 20]);
        Index::read(bytes.as_slice(), bytes.len() as u64, ObjectFormat::Sha1)
    }

    #[test]
    fn names_are_found_with_their_folders() {
        let bytes = [header(2, 3), entry("a-b"), entry("a/b"), entry("c")].concat();

        let index = read(bytes).unwrap();

        for (path, wanted) in [
            ("a", Tracked::Below),
            ("a-b", Tracked::Itself),
            ("a/b", Tracked::Itself),
            ("a/b/c", Tracked::No),
            ("b", Tracked::No),
            ("c", Tracked::Itself),
            ("d", Tracked::No),
        ] {
            assert_eq!(index.look_up(path.as_bytes()), wanted, "{path}");
        }
    }

    #[test]
    fn what_changes_the_meaning_is_refused() {
        let extension =
            |name: &[u8; 4]| [header(2, 0), name.to_vec(), vec![0, 0, 0, 2, 7, 7]].concat();

        assert!(read(extension(b"TREE")).is_ok());
        assert!(matches!(
            read(extension(b"link")),
            Err(IndexError::Extension(_))
        ));
        assert!(matches!(read(header(5, 0)), Err(IndexError::Version(5))));
        let unsorted = [header(2, 2), entry("b"), entry("a")].concat();
        assert!(matches!(read(unsorted), Err(IndexError::Broken)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_index_or_refused(version in 1u32..6, count: u32, rest: Vec<u8>) {
            let _ = read([header(version, count), rest].concat());
        }
    }
}
