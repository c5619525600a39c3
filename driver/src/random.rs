//! Random numbers and names where secrecy does not hang on them.

use std::hash::{BuildHasher, Hasher, RandomState};

/// 32 hex digits, as GitLab Runner makes its correlation IDs (gitlab-runner, wire §1.2).
pub(crate) fn id() -> String {
    format!("{:016x}{:016x}", number(), number())
}

/// A number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
pub(crate) fn fraction() -> f64 {
    (number() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The standard library seeds its hashers from the system's entropy.
fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_long_and_differ() {
        let ids: std::collections::BTreeSet<String> = (0..100).map(|_| id()).collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.iter().all(|id| id.len() == 32));
    }

    #[test]
    fn fractions_are_spread_between_0_and_1() {
        let all: Vec<f64> = (0..1000).map(|_| fraction()).collect();
        assert!(all.iter().all(|one| (0.0..=1.0).contains(one)));
        assert!(all.iter().any(|one| *one < 0.25) && all.iter().any(|one| *one > 0.75));
    }
}
