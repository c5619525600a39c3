//! How large a commit's tree is, before it is checked out, and which of its blobs are small.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::error::CheckoutError;
use super::git::{Git, GitCommand};
use super::lines::{LineSplitter, Piece};

/// Most entries of a commit's tree. The largest monorepos have a tenth of that; without a bound, a few
/// kilobytes of trees that name each other many times would fill this host's memory and disk.
pub(super) const MAX_ENTRIES: u64 = 5_000_000;

/// What of a commit is listed, and how.
pub(super) struct Commit<'a> {
    /// Folder of its repository.
    pub(super) folder: &'a Path,
    /// Its hash, or a name of it.
    pub(super) sha: &'a str,
    /// Whether its files' sizes can be told. To tell one, git would fetch each file that a partial clone left out.
    pub(super) has_sizes: bool,
    /// Most bytes that all trees of the job may have.
    pub(super) max_bytes: u64,
    /// Sizes of files whose hashes are listed, in bytes.
    pub(super) small: std::ops::Range<u64>,
}

/// A file of hashes, one a line for each file of a commit whose size is in the wanted range.
#[derive(Debug)]
pub(super) struct Listing {
    file: PathBuf,
    count: u64,
}

impl Listing {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }
}

/// Adds the tree of `commit` to `size`, and writes the hashes of its small files to `file`. A tree that is too
/// large is refused before anything of it is in memory or on the disk.
pub(super) async fn list(
    git: &mut Git<'_>,
    commit: &Commit<'_>,
    size: &mut TreeSize,
    file: PathBuf,
) -> Result<Listing, CheckoutError> {
    let columns: &[&str] = if commit.has_sizes { &["--long"] } else { &[] };
    let list = GitCommand::new("ls-tree")
        .args(["-r", "-t"])
        .args(columns)
        .arg(commit.sha)
        .directory(commit.folder);
    let hashes = File::create(&file).map_err(CheckoutError::io("write", &file))?;
    let mut hashes = BufWriter::new(hashes);
    let mut count = 0;
    let mut is_too_large = false;
    let mut splitter = LineSplitter::default();
    let listed = git
        .read(list, |bytes| {
            let mut written = Ok(());
            let each = |piece: Piece<'_>| {
                // The rest of a long name is no entry.
                if !piece.begins {
                    return;
                }
                let entry = TreeEntry::parse(piece.text);
                size.add(&entry);
                if entry.is_file && commit.small.contains(&entry.bytes) {
                    count += 1;
                    let line = hashes.write_all(entry.hash).and(hashes.write_all(b"\n"));
                    written = std::mem::replace(&mut written, Ok(())).and(line);
                }
            };
            splitter.push(bytes, |_| 0, each);
            is_too_large = size.check(commit.max_bytes).is_err();
            if is_too_large {
                return Err(io::Error::other("the tree is too large"));
            }
            written
        })
        .await;
    size.check(commit.max_bytes)?;
    // A commit that is not there fails here too; `git checkout` says it in the words that users know.
    listed?;
    hashes.flush().map_err(CheckoutError::io("write", &file))?;
    Ok(Listing { file, count })
}

/// Sums up trees.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TreeSize {
    entries: u64,
    bytes: u64,
}

impl TreeSize {
    fn add(&mut self, entry: &TreeEntry<'_>) {
        self.entries += 1;
        self.add_bytes(entry.bytes);
    }

    /// Adds what files have that a tree does not tell.
    pub(super) fn add_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Refuses what is too large.
    pub(super) fn check(&self, max_bytes: u64) -> Result<(), CheckoutError> {
        if self.entries > MAX_ENTRIES || self.bytes > max_bytes {
            return Err(CheckoutError::TreeTooLarge {
                max_entries: MAX_ENTRIES,
                max_bytes,
            });
        }
        Ok(())
    }
}

/// A line of `git ls-tree --long`: mode, type, hash, size, then the name behind a tab.
#[derive(Debug, Default, PartialEq, Eq)]
struct TreeEntry<'a> {
    /// Whether it is a regular file.
    is_file: bool,
    hash: &'a [u8],
    /// 0 for what is no file, and without `--long`.
    bytes: u64,
}

impl<'a> TreeEntry<'a> {
    fn parse(line: &'a [u8]) -> Self {
        let columns = line.split(|&byte| byte == b'\t').next().unwrap_or_default();
        let mut columns = columns
            .split(|&byte| byte == b' ')
            .filter(|column| !column.is_empty());
        let mode = columns.next().unwrap_or_default();
        let hash = columns.nth(1).unwrap_or_default();
        let size = columns.next().unwrap_or_default();
        Self {
            is_file: mode.starts_with(b"100"),
            hash,
            bytes: std::str::from_utf8(size)
                .ok()
                .and_then(|size| size.parse().ok())
                .unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_s_size_counts_files_and_not_names() {
        let mut size = TreeSize::default();
        size.add(&TreeEntry::parse(
            b"100644 blob 7440c8edc13c96c750a271521657c125a73912d5      85\t1 2 3 4000",
        ));
        size.add(&TreeEntry::parse(
            b"040000 tree 7440c8edc13c96c750a271521657c125a73912d5       -\tdocs",
        ));
        size.add(&TreeEntry::parse(
            b"160000 commit a581ad24be5b6378665a7e22793b91424f336c76       -\tvendor/lib",
        ));
        // Without `--long`.
        size.add(&TreeEntry::parse(
            b"100644 blob 7440c8edc13c96c750a271521657c125a73912d5\tb c d 7",
        ));

        let expected = TreeSize {
            entries: 4,
            bytes: 85,
        };
        assert_eq!(size, expected);
    }
}
