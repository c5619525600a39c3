//! Sets of extended attributes, each kept once, in the form they have in the image.

use std::collections::HashMap;
use std::sync::Arc;

use crate::format::xattr::{self, Namespace};
use crate::tar::Xattr;

/// Longest name with its namespace: Linux's XATTR_NAME_MAX.
const MAX_NAME: usize = 255;

/// Memory that a set takes besides its bytes: two pointers, a number, their spare room, the allocator's.
const OVERHEAD: usize = 128;

/// All sets of an image. Set 0 is the empty one.
pub(crate) struct XattrSets {
    sets: Vec<Arc<[u8]>>,
    numbers: HashMap<Arc<[u8]>, u32>,
}

/// An attribute or set that EROFS cannot hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl XattrSets {
    pub(crate) fn new() -> Self {
        Self {
            sets: vec![Arc::default()],
            numbers: HashMap::new(),
        }
    }

    /// The number of a set, and how many bytes of memory it takes if it is new.
    pub(crate) fn number(&mut self, set: &[u8]) -> (u32, usize) {
        if set.is_empty() {
            return (0, 0);
        }
        if let Some(number) = self.numbers.get(set) {
            return (*number, 0);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "each takes more than a byte of the metadata, of which 4 GiB count at the most"
        )]
        let number = self.sets.len() as u32;
        let set = Arc::<[u8]>::from(set);
        let taken = set.len() + OVERHEAD;
        self.sets.push(Arc::clone(&set));
        self.numbers.insert(set, number);
        (number, taken)
    }

    /// A set by its number.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        self.sets
            .get(number as usize)
            .map_or(&[], |set| set.as_ref())
    }
}

/// Attributes as the image has them, and how many are left out. Of two with one name the last one counts.
pub(crate) fn encode(xattrs: Vec<Xattr>) -> Result<(Box<[u8]>, u64), TooLong> {
    let mut skipped = 0;
    let mut kept: Vec<(Namespace, Vec<u8>, Vec<u8>)> = Vec::with_capacity(xattrs.len());
    for Xattr { name, value } in xattrs {
        if name.len() > MAX_NAME {
            return Err(TooLong);
        }
        match split(&name) {
            Some((namespace, rest)) => kept.push((namespace, rest.to_vec(), value)),
            None => skipped += 1,
        }
    }
    // Stable, so of equal names the last one comes last.
    kept.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    kept.reverse();
    kept.dedup_by(|a, b| (a.0, &a.1) == (b.0, &b.1));
    kept.reverse();
    let set = xattr::encode(
        kept.iter()
            .map(|(namespace, name, value)| (*namespace, name.as_slice(), value.as_slice())),
    );
    Ok((set.ok_or(TooLong)?, skipped))
}

/// Takes a name's namespace off. None if EROFS or the guest cannot have it: `trusted.overlay.` belongs to overlayfs, of
/// which the guest's root is one with the image below (Linux, Documentation/filesystems/overlayfs.rst).
fn split(name: &[u8]) -> Option<(Namespace, &[u8])> {
    if name.starts_with(b"trusted.overlay.") {
        return None;
    }
    match name {
        b"system.posix_acl_access" => return Some((Namespace::PosixAclAccess, b"")),
        b"system.posix_acl_default" => return Some((Namespace::PosixAclDefault, b"")),
        _ => {}
    }
    let (namespace, rest) = [
        (Namespace::User, &b"user."[..]),
        (Namespace::Trusted, b"trusted."),
        (Namespace::Security, b"security."),
    ]
    .into_iter()
    .find_map(|(namespace, prefix)| Some((namespace, name.strip_prefix(prefix)?)))?;
    (!rest.is_empty()).then_some((namespace, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xattr(name: &str, value: &[u8]) -> Xattr {
        Xattr {
            name: name.into(),
            value: value.into(),
        }
    }

    #[test]
    fn equal_sets_are_kept_once() {
        let mut sets = XattrSets::new();
        let a = || {
            encode(vec![xattr("user.a", b"1"), xattr("user.b", b"2")])
                .unwrap()
                .0
        };
        let b = || {
            encode(vec![xattr("user.b", b"2"), xattr("user.a", b"1")])
                .unwrap()
                .0
        };

        let (first, taken) = sets.number(&a());

        assert_eq!((first, taken), (1, a().len() + OVERHEAD));
        assert_eq!(sets.number(&b()), (1, 0));
        assert_eq!(sets.get(1), &*a());
        assert_eq!(sets.number(&encode(vec![]).unwrap().0), (0, 0));
        assert!(sets.get(0).is_empty());
    }

    #[test]
    fn of_two_attributes_with_one_name_the_last_one_counts() {
        let twice = encode(vec![xattr("user.a", b"1"), xattr("user.a", b"2")]).unwrap();

        assert_eq!(twice, encode(vec![xattr("user.a", b"2")]).unwrap());
    }

    #[test]
    fn attributes_that_the_guest_cannot_have_are_left_out_and_counted() {
        for name in [
            "com.apple.provenance",
            "system.nfs4_acl",
            "user.",
            "trusted.overlay.opaque",
            "x",
        ] {
            assert_eq!(
                encode(vec![xattr(name, b"1")]),
                Ok((Box::default(), 1)),
                "{name}"
            );
        }
    }

    #[test]
    fn attributes_that_are_too_long_are_refused() {
        let name = |len: usize| format!("user.{}", "x".repeat(len - 5));
        let value = vec![7; 65_536];

        assert!(encode(vec![xattr(&name(255), &value[1..])]).is_ok());
        assert_eq!(encode(vec![xattr(&name(256), b"")]), Err(TooLong));
        assert_eq!(encode(vec![xattr("user.a", &value)]), Err(TooLong));
        let many = (0..5)
            .map(|n| xattr(&format!("user.{n}"), &value[1..]))
            .collect();
        assert_eq!(encode(many), Err(TooLong));
    }
}
