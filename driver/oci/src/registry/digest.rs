//! Content digests.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written `sha256:` and 64 hex digits (OCI image spec 1.1, descriptor.md, "Digests").
///
/// It is the one algorithm that every registry must know; others are refused by name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// Why a text is no digest that can be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// Another algorithm.
    #[error("the digest algorithm `{0}` is not supported: only sha256 is")]
    Algorithm(String),
    /// Not `sha256:` and 64 lower-case hex digits.
    #[error("`{0}` is no digest: expected sha256: and 64 lower-case hexadecimal digits")]
    Format(String),
}

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed elsewhere.
    #[must_use]
    pub fn from_sha256(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 64 hex digits alone.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write as _;

        self.0
            .iter()
            .fold(String::with_capacity(64), |mut hex, byte| {
                // Writing to a string does not fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let bad = || DigestError::Format(shortened(text));
        let (algorithm, hex) = text.split_once(':').ok_or_else(bad)?;
        if algorithm != "sha256" {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+._-".contains(&byte);
            return if !algorithm.is_empty() && algorithm.bytes().all(plain) {
                Err(DigestError::Algorithm(shortened(algorithm)))
            } else {
                Err(bad())
            };
        }
        let mut bytes = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return Err(bad());
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let digit = |character: u8| match character {
                b'0'..=b'9' => Some(character - b'0'),
                b'a'..=b'f' => Some(character - b'a' + 10),
                _ => None,
            };
            let [high, low] = pair else {
                return Err(bad());
            };
            let (high, low) = digit(*high).zip(digit(*low)).ok_or_else(bad)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

/// Enough of `text` to recognise it in a message.
fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Computes a digest piece by piece.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4's own example.
    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_reads_what_it_writes() {
        assert_eq!(Digest::of(b"abc").to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(Digest::of(b"abc")));
    }

    #[test]
    fn a_digest_computed_in_pieces_is_the_same() {
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");

        assert_eq!(hasher.finish(), Digest::of(b"abc"));
    }

    #[test]
    fn another_algorithm_is_refused_by_name() {
        let digest = format!("sha512:{}", "0".repeat(128));

        assert_eq!(
            digest.parse::<Digest>(),
            Err(DigestError::Algorithm("sha512".to_owned()))
        );
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        for text in [
            "",
            "sha256",
            "sha256:",
            "sha256:abc",
            &ABC.to_uppercase(),
            &ABC.replace("ba", "BA"),
            &format!("{ABC}0"),
            &ABC.replace("ba", "é"),
        ] {
            assert!(
                matches!(
                    text.parse::<Digest>(),
                    Err(DigestError::Format(_) | DigestError::Algorithm(_))
                ),
                "{text}"
            );
        }
    }
}
