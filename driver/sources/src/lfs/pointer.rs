//! Pointer files (git-lfs, `docs/spec.md`).

/// Pointers are shorter than this, in bytes: git-lfs reads no other blob as one.
pub(super) const MAX_POINTER: u64 = 1024;

/// No pointer is shorter, in bytes: a version, `oid sha256:` with its 64 digits, and a size.
pub(super) const MIN_POINTER: u64 = 100;

/// Hash of an object: SHA-256.
pub(super) type Oid = [u8; 32];

/// What stands in a repository for a large file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    /// The object.
    pub(super) oid: Oid,
    /// Its size in bytes, as the repository says.
    pub(super) size: u64,
}

/// Names that the format has had; one is in each pointer's first line.
const NAMES: [&str; 3] = ["git-lfs", "hawser", "git-media"];

impl Pointer {
    /// Reads a blob; `None` if it is no pointer. At least as lenient as git-lfs: what it downloads must not be
    /// missed.
    pub(super) fn parse(blob: &[u8]) -> Option<Self> {
        if blob.len() as u64 >= MAX_POINTER {
            return None;
        }
        let text = std::str::from_utf8(blob).ok()?.trim();
        let mut lines = text.lines();
        let version = lines.next()?;
        if !NAMES.iter().any(|name| version.contains(name)) {
            return None;
        }
        let value = |key: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
        };
        let oid = value("oid")?.trim();
        Some(Self {
            oid: parse_oid(oid.strip_prefix("sha256:").unwrap_or(oid))?,
            size: value("size")?.trim().parse().ok()?,
        })
    }
}

fn parse_oid(digits: &str) -> Option<Oid> {
    let mut oid = [0; 32];
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in oid.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(oid)
}

/// The digits of a hash.
pub(super) fn hex(oid: &Oid) -> String {
    oid.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OID: &str = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";

    fn pointer(version: &str, between: &str) -> String {
        format!("version {version}\n{between}oid sha256:{OID}\nsize 12345\n")
    }

    /// The example of git-lfs' specification, its old names, and an extension's line.
    #[test]
    fn pointers_are_read() {
        for text in [
            pointer("https://git-lfs.github.com/spec/v1", ""),
            pointer("https://hawser.github.com/spec/v1", ""),
            pointer("http://git-media.io/v/2", ""),
            pointer(
                "https://git-lfs.github.com/spec/v1",
                &format!("ext-0-foo sha256:{OID}\n"),
            ),
            format!(
                "\n{}  \n",
                pointer("https://git-lfs.github.com/spec/v1", "")
            ),
        ] {
            let pointer = Pointer::parse(text.as_bytes()).unwrap();
            assert_eq!((hex(&pointer.oid).as_str(), pointer.size), (OID, 12345));
        }
    }

    #[test]
    fn other_small_files_are_no_pointers() {
        let good = pointer("https://git-lfs.github.com/spec/v1", "");
        for text in [
            String::new(),
            "#!/bin/sh\n".to_owned(),
            good.replace("git-lfs", "example"),
            good.replace(OID, &OID[1..]),
            good.replace(OID, &OID.replace('4', "g")),
            good.replace("size 12345", "size -1"),
            good.replace("size 12345\n", ""),
            format!("{good}{}", " ".repeat(1024)),
        ] {
            assert_eq!(Pointer::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_may_come(blob in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Pointer::parse(&blob);
        }
    }
}
