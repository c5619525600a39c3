//! Chosen entries in files: runs, each in order, which are merged.

use std::io::{self, BufReader, Read};

use super::selection::{Entry, EntryKind};
use crate::spill::{Spill, SpillError, Spool, SpoolReader};

/// Bytes that are written or read at once.
const BUFFER: usize = 64 << 10;

/// Entries in a file, each path once, in the order of the paths' bytes.
#[derive(Debug)]
pub(super) struct Run {
    spool: Spool,
    len: usize,
}

impl Run {
    fn new(spill: &Spill) -> Self {
        Self {
            spool: Spool::new(Some(spill), BUFFER),
            len: 0,
        }
    }

    /// Writes entries that are in order.
    ///
    /// # Errors
    ///
    /// [`SpillError`].
    pub(super) fn write(
        spill: &Spill,
        entries: impl Iterator<Item = Entry>,
    ) -> Result<Self, SpillError> {
        let mut run = Self::new(spill);
        for entry in entries {
            run.push(&entry)?;
        }
        Ok(run)
    }

    /// Makes one of several. Of equal paths, the one of the first run stays.
    ///
    /// # Errors
    ///
    /// [`SpillError`].
    pub(super) fn merge(spill: &Spill, runs: &[Self]) -> Result<Self, SpillError> {
        let mut merged = Self::new(spill);
        let mut readers: Vec<Reader<'_>> = runs.iter().map(Self::iter).collect();
        let mut heads: Vec<Option<Entry>> = readers
            .iter_mut()
            .map(|reader| reader.next().transpose())
            .collect::<Result<_, _>>()?;
        loop {
            let least = heads
                .iter_mut()
                .filter(|head| head.is_some())
                .min_by(|one, other| path(one).cmp(&path(other)));
            let Some(entry) = least.and_then(Option::take) else {
                return Ok(merged);
            };
            for (head, reader) in heads.iter_mut().zip(&mut readers) {
                if head.as_ref().is_none_or(|head| head.path == entry.path) {
                    *head = reader.next().transpose()?;
                }
            }
            merged.push(&entry)?;
        }
    }

    fn push(&mut self, entry: &Entry) -> Result<(), SpillError> {
        self.len += 1;
        self.spool.append(|bytes| encode(entry, bytes))
    }

    /// How many entries it has.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All, in order.
    pub(super) fn iter(&self) -> Reader<'_> {
        Reader {
            run: self,
            from: BufReader::with_capacity(BUFFER, self.spool.reader()),
            left: self.len,
        }
    }
}

fn path(head: &Option<Entry>) -> Option<&[u8]> {
    head.as_ref().map(|entry| entry.path.as_slice())
}

/// Reads a run.
pub(super) struct Reader<'a> {
    run: &'a Run,
    from: BufReader<SpoolReader<'a>>,
    left: usize,
}

impl Iterator for Reader<'_> {
    type Item = Result<Entry, SpillError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = decode(&mut self.from);
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry.map_err(|error| self.run.spool.failed(error)))
    }
}

/// Kind, mode, size, time, owner, group, length of the path, and the path; numbers in little endian.
fn encode(entry: &Entry, out: &mut Vec<u8>) {
    // No path is longer: see `List`.
    let len = u16::try_from(entry.path.len()).unwrap_or(u16::MAX);
    out.push(match entry.kind {
        EntryKind::File => 0,
        EntryKind::Folder => 1,
        EntryKind::Symlink => 2,
        EntryKind::Other => 3,
    });
    out.extend(entry.mode.to_le_bytes());
    out.extend(entry.size.to_le_bytes());
    out.extend(entry.mtime.to_le_bytes());
    out.extend(entry.uid.to_le_bytes());
    out.extend(entry.gid.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend_from_slice(entry.path.get(..usize::from(len)).unwrap_or(&entry.path));
}

fn decode(from: &mut impl Read) -> io::Result<Entry> {
    let [kind] = bytes(from)?;
    let kind = match kind {
        0 => EntryKind::File,
        1 => EntryKind::Folder,
        2 => EntryKind::Symlink,
        3 => EntryKind::Other,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    let mut entry = Entry {
        path: Vec::new(),
        kind,
        mode: u32::from_le_bytes(bytes(from)?),
        size: u64::from_le_bytes(bytes(from)?),
        mtime: i64::from_le_bytes(bytes(from)?),
        uid: u32::from_le_bytes(bytes(from)?),
        gid: u32::from_le_bytes(bytes(from)?),
    };
    entry.path = vec![0; usize::from(u16::from_le_bytes(bytes(from)?))];
    from.read_exact(&mut entry.path)?;
    Ok(entry)
}

fn bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn entry(path: &str, size: u64) -> Entry {
        Entry {
            path: path.into(),
            kind: EntryKind::Symlink,
            mode: 0o120_777,
            size,
            mtime: -5,
            uid: 1,
            gid: u32::MAX,
        }
    }

    #[test]
    fn runs_become_one_in_which_the_first_of_each_path_stays() {
        let spill = Spill::into_folder(std::env::temp_dir());
        let run = |size, paths: &[&str]| {
            Run::write(&spill, paths.iter().map(|path| entry(path, size))).unwrap()
        };
        let runs = [
            run(0, &["b", "b/c", "z"]),
            run(1, &[]),
            run(2, &["a", "b", "b-c", "z"]),
            run(3, &["", "b-c", "b/c", "z"]),
        ];

        let merged = Run::merge(&spill, &runs).unwrap();

        let entries: Vec<Entry> = merged.iter().map(Result::unwrap).collect();
        assert_eq!(merged.len(), 6);
        assert_eq!(
            entries,
            [
                ("", 3),
                ("a", 2),
                ("b", 0),
                ("b-c", 2),
                ("b/c", 0),
                ("z", 0)
            ]
            .map(|(path, size)| entry(path, size))
        );
    }

    #[test]
    fn what_is_no_entry_is_an_error_and_the_end() {
        let spill = Spill::into_folder(std::env::temp_dir());
        let mut run = Run::write(&spill, [entry("a", 1)].into_iter()).unwrap();
        run.spool.append(|bytes| bytes.push(9)).unwrap();
        run.len = 3;

        let entries: Vec<_> = run.iter().collect();

        assert!(matches!(
            entries.as_slice(),
            [Ok(_), Err(SpillError::Io { .. })]
        ));
    }
}
