//! Names of entries, and what they may be.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::{ExtractError, Limits, MOST_HELD};
use crate::gopath::show;

/// Longest name (`PATH_MAX` of limits.h), and a slash behind a folder's.
const MOST_NAME: usize = 4096;

/// An entry's name without dots and slashes that say nothing, read as Go's `filepath.Clean` does; `.` is the destination
/// itself.
///
/// # Errors
///
/// [`ExtractError`] if it leads out of the destination, or is no name.
pub(super) fn inside(name: &[u8], dest: &str) -> Result<Vec<u8>, ExtractError> {
    if name.len() > MOST_NAME {
        let begin = name.get(..64).unwrap_or(name);
        return Err(ExtractError::refused(
            begin,
            "begins a name that is longer than any path",
        ));
    }
    if name.is_empty() || name.contains(&0) {
        return Err(ExtractError::refused(
            name,
            "an empty name, or one with a NUL",
        ));
    }
    let mut parts = Vec::new();
    let mut leads_out = name.first() == Some(&b'/');
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => leads_out |= parts.pop().is_none(),
            part => parts.push(part),
        }
    }
    if leads_out {
        return Err(ExtractError::Outside {
            entry: show(name).into_owned(),
            dest: dest.to_owned(),
        });
    }
    if parts.is_empty() {
        return Ok(b".".to_vec());
    }
    Ok(parts.join(&b'/'))
}

/// Counts what an archive costs.
pub(super) struct Meter {
    limits: Limits,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    names: usize,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: 0,
            bytes: 0,
            names: 0,
        }
    }

    /// One more entry, of which so many bytes are held in memory.
    pub(super) fn entry(&mut self, name: &[u8], held: usize) -> Result<(), ExtractError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            let limit = format!("{} entries", self.limits.entries);
            return Err(ExtractError::limit(name, limit));
        }
        self.names += held;
        if self.names > MOST_HELD {
            let limit = format!("{MOST_HELD} bytes of names");
            return Err(ExtractError::limit(name, limit));
        }
        Ok(())
    }

    /// So many more bytes of content.
    pub(super) fn content(&mut self, name: &[u8], bytes: u64) -> Result<(), ExtractError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.bytes {
            let limit = format!("{} unpacked bytes", self.limits.bytes);
            return Err(ExtractError::limit(name, limit));
        }
        Ok(())
    }
}

/// Which names were seen, as hashes that no archive can foresee: eight bytes a name.
#[derive(Default)]
pub(super) struct Seen {
    state: RandomState,
    hashes: HashSet<u64>,
}

impl Seen {
    /// Whether it was not there yet.
    pub(super) fn insert(&mut self, name: &[u8]) -> bool {
        self.hashes.insert(self.state.hash_one(name))
    }

    /// Forgets a name.
    pub(super) fn remove(&mut self, name: &[u8]) {
        self.hashes.remove(&self.state.hash_one(name));
    }

    /// Whether it is there.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.hashes.contains(&self.state.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_or_are_refused_by_name() {
        for (name, wanted) in [
            ("a/b", Some("a/b")),
            ("./a//b/", Some("a/b")),
            (".", Some(".")),
            ("./", Some(".")),
            ("a\\..\\b", Some("a\\..\\b")),
            ("...", Some("...")),
            ("../x", None),
            ("a/../b", Some("b")),
            ("a/b/../../c", Some("c")),
            ("a/..", Some(".")),
            ("a/../../b", None),
            ("..", None),
            ("/etc/passwd", None),
            ("", None),
            ("a\0b", None),
        ] {
            let got = inside(name.as_bytes(), "/builds/p");
            match wanted {
                Some(wanted) => assert_eq!(got.unwrap(), wanted.as_bytes(), "{name}"),
                None => assert!(got.unwrap_err().to_string().starts_with(name), "{name}"),
            }
        }
    }

    /// gitlab-runner, wire §3.6.
    #[test]
    fn what_leads_outside_is_refused_in_the_runners_words() {
        let error = inside(b"../x", "/builds/p").unwrap_err();

        assert_eq!(
            error.to_string(),
            "../x cannot be extracted outside of chroot (/builds/p)"
        );
    }
}
