//! Names that nobody can guess.

/// 32 hex digits, as GitLab Runner makes its correlation IDs (gitlab-runner, wire §1.2), from the system's entropy: a
/// job that has read some of them in its trace cannot tell the next ones, which bound parts of uploads.
#[must_use]
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    // Refused only before the system has collected any entropy, when no job has run yet.
    if getrandom::fill(&mut bytes).is_err() {
        bytes = fastrand::u128(..).to_ne_bytes();
    }
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_long_and_differ() {
        let ids: std::collections::BTreeSet<String> = (0..100).map(|_| random_id()).collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.iter().all(|id| id.len() == 32));
    }
}
