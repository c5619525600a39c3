//! How large a commit's tree is, before it is checked out.

use std::io;

use super::error::CheckoutError;
use super::git::{Git, GitCommand};
use super::lines::LineSplitter;
use super::request::CheckoutRequest;

/// Most entries of a commit's tree. The largest monorepos have a tenth of that; without a bound, a few
/// kilobytes of trees that name each other many times would fill this host's memory and disk.
const MAX_ENTRIES: u64 = 5_000_000;

/// Refuses a tree that is too large, before anything of it is in memory or on the disk.
pub(super) async fn check(
    git: &mut Git<'_>,
    request: &CheckoutRequest<'_>,
    sha: &str,
) -> Result<(), CheckoutError> {
    let is_partial = request
        .fetch_flags
        .iter()
        .any(|flag| flag.starts_with("--filter"));
    // To tell a size, git would fetch each file that a partial clone left out.
    let columns: &[&str] = if is_partial { &[] } else { &["--long"] };
    let list = GitCommand::new("ls-tree")
        .args(["-r", "-t"])
        .args(columns)
        .arg(sha);
    let mut size = TreeSize::default();
    let mut is_too_large = false;
    let mut splitter = LineSplitter::default();
    let listed = git
        .read(list, |bytes| {
            splitter.push(bytes, |line| size.add(line));
            is_too_large = size.entries > MAX_ENTRIES || size.bytes > request.max_tree_bytes;
            if is_too_large {
                return Err(io::Error::other("the tree is too large"));
            }
            Ok(())
        })
        .await;
    if is_too_large {
        return Err(CheckoutError::TreeTooLarge {
            max_entries: MAX_ENTRIES,
            max_bytes: request.max_tree_bytes,
        });
    }
    // A commit that is not there fails here too; `git checkout` says it in the words that users know.
    listed.map(|_| ())
}

/// Sums up what `git ls-tree --long` prints: mode, type, hash, size, then the name behind a tab.
#[derive(Debug, Default, PartialEq, Eq)]
struct TreeSize {
    entries: u64,
    bytes: u64,
}

impl TreeSize {
    fn add(&mut self, line: &[u8]) {
        let columns = line.split(|&byte| byte == b'\t').next().unwrap_or_default();
        let size = columns
            .split(|&byte| byte == b' ')
            .filter(|column| !column.is_empty())
            .nth(3)
            .and_then(|size| std::str::from_utf8(size).ok()?.parse().ok())
            .unwrap_or(0);
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_s_size_counts_files_and_not_names() {
        let mut size = TreeSize::default();
        size.add(b"100644 blob 7440c8edc13c96c750a271521657c125a73912d5      85\t1 2 3 4000");
        size.add(b"040000 tree 7440c8edc13c96c750a271521657c125a73912d5       -\tdocs");
        size.add(b"160000 commit a581ad24be5b6378665a7e22793b91424f336c76       -\tvendor/lib");
        // Without `--long`.
        size.add(b"100644 blob 7440c8edc13c96c750a271521657c125a73912d5\tb c d 7");

        let expected = TreeSize {
            entries: 4,
            bytes: 85,
        };
        assert_eq!(size, expected);
    }
}
