//! Extended attributes, behind their file's record.

/// The namespaces that EROFS has numbers for, without Lustre's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Namespace {
    User = 1,
    PosixAclAccess = 2,
    PosixAclDefault = 3,
    Trusted = 4,
    Security = 6,
}

/// Bytes before the attributes: a field for a filter that Linux 6.1 does not have, the number of shared attributes, of
/// which there are none.
const HEADER: usize = 12;

/// The set of attributes, given by namespace, name without it, and value; empty for an empty set. None if a name, a value
/// or the set is too long.
pub(crate) fn encode<'a>(
    xattrs: impl Iterator<Item = (Namespace, &'a [u8], &'a [u8])>,
) -> Option<Box<[u8]>> {
    let mut set = vec![0; HEADER];
    for (namespace, name, value) in xattrs {
        set.push(u8::try_from(name.len()).ok()?);
        set.push(namespace as u8);
        set.extend_from_slice(&u16::try_from(value.len()).ok()?.to_le_bytes());
        set.extend_from_slice(name);
        set.extend_from_slice(value);
        set.resize(set.len().next_multiple_of(4), 0);
    }
    if set.len() == HEADER {
        return Some(Box::default());
    }
    u16::try_from((set.len() - HEADER) / 4 + 1).ok()?;
    Some(set.into_boxed_slice())
}

/// The length of a set as the record has it: in units of four bytes, of which the header counts as one.
pub(crate) fn count(len: usize) -> u16 {
    match len.checked_sub(HEADER) {
        // `encode` makes no longer ones.
        Some(rest) => u16::try_from(rest / 4 + 1).unwrap_or(u16::MAX),
        None => 0,
    }
}
