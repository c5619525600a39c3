//! Where a project's caches are, and what each is called (dispatch protocol, "Caches").

use sha2::{Digest, Sha256};
use url::{Host, Url};

/// What the caches' repositories begin with.
const ROOT: &str = "ci-cache";

/// A server whose name cannot be part of a repository's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no name for the project's cache repository: the GitLab server's URL is {0:?}")]
pub struct NameError(String);

/// The repository of a project's caches: `ci-cache/<gitlab host>[/<gitlab path>]/<project id>`, the host with `-` for
/// the `:` before its port, all of it in lower case.
///
/// # Errors
///
/// If `server_url` is no URL, or holds what no repository's name may hold (OCI distribution spec 1.1, "Pulling
/// manifests").
pub fn repository(server_url: &str, project_id: u64) -> Result<String, NameError> {
    let bad = || NameError(server_url.to_owned());
    let url = Url::parse(server_url).map_err(|_| bad())?;
    let host = match url.host().ok_or_else(bad)? {
        Host::Domain(name) => name.to_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        // Its colons become dashes, of which a name's part must not begin or end with one.
        Host::Ipv6(address) => address.segments().map(|part| format!("{part:x}")).join("-"),
    };
    let host = match url.port() {
        Some(port) => format!("{host}-{port}"),
        None => host,
    };
    let project = project_id.to_string();
    let path = url.path().to_lowercase();
    let parts: Vec<&str> = [ROOT, &host]
        .into_iter()
        .chain(path.split('/').filter(|part| !part.is_empty()))
        .chain([project.as_str()])
        .collect();
    if parts.iter().all(|part| is_name_part(part)) {
        Ok(parts.join("/"))
    } else {
        Err(bad())
    }
}

/// The tag of the cache that has `key` for jobs whose ref is protected, or is not: the SHA-256 of both, in hex. The
/// protection stands first and ends in a zero byte, so that no key of one kind reads as one of the other.
#[must_use]
pub fn tag(key: &str, protected: bool) -> String {
    let protection = if protected {
        "protected"
    } else {
        "unprotected"
    };
    let mut digest = Sha256::new();
    digest.update(protection);
    digest.update([0]);
    digest.update(key);
    format!("{:x}", digest.finalize())
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*` of the OCI distribution spec.
fn is_name_part(part: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let mut separators = part.split(is_plain);
    let ends = part.starts_with(is_plain) && part.ends_with(is_plain);
    ends && separators.all(|separator| {
        matches!(separator, "" | "." | "_" | "__") || separator.chars().all(|letter| letter == '-')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use vk_oci::Repository;

    #[test]
    fn a_repository_names_server_and_project() {
        for (server, expected) in [
            (
                "https://gitlab.example.com",
                "ci-cache/gitlab.example.com/7",
            ),
            (
                "https://GitLab.Example.com/",
                "ci-cache/gitlab.example.com/7",
            ),
            (
                "https://gitlab.example.com:443/",
                "ci-cache/gitlab.example.com/7",
            ),
            (
                "https://gitlab.example.com:8443",
                "ci-cache/gitlab.example.com-8443/7",
            ),
            ("http://127.0.0.1:4711", "ci-cache/127.0.0.1-4711/7"),
            ("http://[::1]:80", "ci-cache/0-0-0-0-0-0-0-1/7"),
            (
                "https://example.com/GitLab/ce/",
                "ci-cache/example.com/gitlab/ce/7",
            ),
        ] {
            let name = repository(server, 7).unwrap();
            assert_eq!(name, expected);
            Repository::new("registry.example.com:5000", &name).unwrap();
        }
    }

    #[test]
    fn a_server_that_gives_no_name_is_refused() {
        for server in [
            "",
            "gitlab",
            "https://example.com/a%20b",
            "https://example.com/-",
            "data:x",
        ] {
            assert_eq!(
                repository(server, 7),
                Err(NameError(server.to_owned())),
                "{server}"
            );
        }
    }

    #[test]
    fn a_tag_is_the_digest_of_protection_and_key() {
        // printf 'protected\0deps-main' | sha256sum
        let protected = tag("deps-main", true);
        assert_eq!(
            protected,
            format!("{:x}", Sha256::digest(b"protected\0deps-main"))
        );
        assert_ne!(protected, tag("deps-main", false));
    }

    proptest! {
        #[test]
        fn protected_and_unprotected_jobs_share_no_tag(one in ".{0,20}", other in ".{0,20}") {
            prop_assert_ne!(tag(&one, true), tag(&other, false));
        }

        #[test]
        fn every_name_is_one_that_a_registry_takes(server in "https?://[a-zA-Z0-9._-]{1,12}(:[0-9]{1,4})?(/[a-zA-Z0-9._%-]{0,8}){0,2}") {
            if let Ok(name) = repository(&server, 3) {
                prop_assert!(Repository::new("r.example.com", &name).is_ok(), "{}", name);
            }
        }
    }
}
