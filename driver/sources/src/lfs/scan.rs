//! Which files of a commit are pointers.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::pointer::{MAX_POINTER, Oid, Pointer};
use crate::error::CheckoutError;
use crate::git::{Git, GitCommand};
use crate::size::Listing;

/// Most different objects of a commit. Bounds the memory that a hostile tree can make us take.
const MAX_OBJECTS: usize = 1_000_000;

/// Longest line in front of an object: hash, type and size.
const MAX_HEAD: usize = 200;

/// The pointers of a commit.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    objects: HashMap<Oid, u64>,
    bytes: u64,
}

impl Pointers {
    fn add(&mut self, pointer: Pointer) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(pointer.size);
        self.objects.insert(pointer.oid, pointer.size);
        if self.objects.len() > MAX_OBJECTS {
            return Err(io::Error::other("there are too many LFS files"));
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Bytes of all files together, as the pointers say.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Each object once, with its size.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&Oid, u64)> {
        self.objects.iter().map(|(oid, size)| (oid, *size))
    }
}

/// Reads the small blobs of a listed commit.
pub(super) async fn pointers(
    git: &mut Git<'_>,
    folder: &Path,
    listing: &Listing,
    max_bytes: u64,
) -> Result<Pointers, CheckoutError> {
    let mut pointers = Pointers::default();
    if listing.is_empty() {
        return Ok(pointers);
    }
    let read = GitCommand::new("cat-file")
        .args(["--batch", "--buffer"])
        .directory(folder)
        .input(listing.path());
    let mut blobs = Blobs::default();
    let mut is_too_many = false;
    let ended = git
        .read(read, |bytes| {
            blobs.push(bytes, |blob| match Pointer::parse(blob) {
                Some(pointer) => {
                    let added = pointers.add(pointer);
                    is_too_many |= added.is_err();
                    added
                }
                None => Ok(()),
            })
        })
        .await;
    if is_too_many {
        return Err(CheckoutError::TreeTooLarge {
            max_entries: MAX_OBJECTS as u64,
            max_bytes,
        });
    }
    let ended = ended?;
    if ended.exit_code != 0 {
        return Err(CheckoutError::Git {
            command: "cat-file",
            failure: ended.failure,
            exit_code: ended.exit_code,
        });
    }
    Ok(pointers)
}

/// Cuts what `git cat-file --batch` prints into blobs: a line `<hash> blob <size>`, the content, a line break.
#[derive(Debug, Default)]
struct Blobs {
    held: Vec<u8>,
    /// Bytes of the object whose line was read, its line break included.
    content: Option<usize>,
}

impl Blobs {
    fn push(
        &mut self,
        mut bytes: &[u8],
        mut blob: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.content {
                None => {
                    let end = bytes.iter().position(|&byte| byte == b'\n');
                    let (head, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    self.held.extend_from_slice(head);
                    if self.held.len() > MAX_HEAD {
                        return Err(io::Error::other("its answer has no line break"));
                    }
                    bytes = rest.get(1..).unwrap_or_default();
                    if end.is_some() {
                        self.content = size(&self.held)?;
                        self.held.clear();
                    }
                }
                Some(length) => {
                    let missing = length - self.held.len();
                    let (content, rest) = bytes.split_at(missing.min(bytes.len()));
                    self.held.extend_from_slice(content);
                    bytes = rest;
                    if self.held.len() == length {
                        blob(self.held.get(..length - 1).unwrap_or_default())?;
                        self.held.clear();
                        self.content = None;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bytes that follow a line of the answer; `None` for an object that is not there.
fn size(head: &[u8]) -> io::Result<Option<usize>> {
    let odd = || io::Error::other("its answer is not understood");
    let text = std::str::from_utf8(head).map_err(|_| odd())?;
    if text.ends_with(" missing") {
        return Ok(None);
    }
    let size: u64 = text
        .rsplit(' ')
        .next()
        .and_then(|size| size.parse().ok())
        .ok_or_else(odd)?;
    if size >= MAX_POINTER {
        return Err(odd());
    }
    Ok(Some(usize::try_from(size).map_err(|_| odd())? + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(chunks: &[&[u8]]) -> io::Result<Vec<Vec<u8>>> {
        let mut blobs = Blobs::default();
        let mut found = Vec::new();
        for chunk in chunks {
            blobs.push(chunk, |blob| {
                found.push(blob.to_vec());
                Ok(())
            })?;
        }
        Ok(found)
    }

    proptest! {
        #[test]
        fn blobs_are_found_however_the_answer_is_cut(
            contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
            cuts in proptest::collection::vec(0usize..400, 0..4),
        ) {
            let mut answer = Vec::new();
            for content in &contents {
                answer.extend_from_slice(format!("{} blob {}\n", "a".repeat(40), content.len()).as_bytes());
                answer.extend_from_slice(content);
                answer.extend_from_slice(b"\nfeed missing\n");
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(answer.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for end in cuts.into_iter().chain([answer.len()]) {
                chunks.push(&answer[start..end]);
                start = end;
            }
            prop_assert_eq!(cut(&chunks).unwrap(), contents);
        }

        #[test]
        fn any_answer_may_come(answer in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = cut(&[&answer]);
        }
    }
}
