//! Where the sources come from.

use vk_hub_proto::job::{RefType, Sources, variables::Variables};

use super::error::Stop;
use super::options::Options;
use crate::response::GitInfo;

/// The sources of a job with these (expanded) variables.
pub(super) fn sources(
    git_info: Option<GitInfo>,
    allow_fetch: bool,
    variables: &Variables,
    options: &Options,
) -> Result<Sources, Stop> {
    let needed =
        !options.own_sources && !matches!(variables.value("GIT_STRATEGY"), "none" | "empty");
    let git_info = match git_info {
        Some(git_info) => git_info,
        None if needed => {
            return Err(missing(
                "git_info",
                "which says where the sources are; for a job without sources set GIT_STRATEGY to none",
            ));
        }
        None => GitInfo::default(),
    };
    if needed && git_info.repo_url.is_empty() {
        return Err(missing("git_info.repo_url", "the repository's URL"));
    }
    if needed && git_info.sha.is_empty() {
        return Err(missing("git_info.sha", "the commit to check out"));
    }
    Ok(Sources {
        allow_fetch,
        repo_url: without_credentials(git_info.repo_url.expose()),
        object_format: match git_info.repo_object_format.as_str() {
            "" => "sha1".to_owned(),
            format => format.to_owned(),
        },
        git_ref: git_info.git_ref,
        sha: git_info.sha,
        before_sha: git_info.before_sha,
        ref_type: match git_info.ref_type.as_str() {
            "tag" => RefType::Tag,
            _ => RefType::Branch,
        },
        refspecs: git_info.refspecs,
        depth: depth(git_info.depth, variables, options),
        protected: git_info.protected,
    })
}

fn missing(path: &'static str, need: &'static str) -> Stop {
    Stop::Missing { path, need }
}

/// GitLab's server turns `GIT_DEPTH` into the response's depth. Where the variable was given to vk, or the response
/// has no depth, nobody did so yet.
fn depth(answered: Option<u32>, variables: &Variables, options: &Options) -> u32 {
    const GIT_DEPTH: &str = "GIT_DEPTH";
    let is_given = options.variables.iter().any(|(key, _)| key == GIT_DEPTH);
    let variable = variables.value(GIT_DEPTH).parse().ok();
    let depth = if is_given {
        variable.or(answered)
    } else {
        answered.or(variable)
    };
    depth.unwrap_or(0)
}

/// The URL without user and password; of an SSH URL the user stays, since it is part of the address.
pub(super) fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let authority_len = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((authority, path)) = rest.split_at_checked(authority_len) else {
        return url.to_owned();
    };
    let Some((credentials, host)) = authority.rsplit_once('@') else {
        return url.to_owned();
    };
    let user = credentials.split(':').next().unwrap_or_default();
    if scheme.eq_ignore_ascii_case("ssh") && !user.is_empty() {
        format!("{scheme}://{user}@{host}{path}")
    } else {
        format!("{scheme}://{host}{path}")
    }
}

/// Scheme, host and port of a URL.
pub(super) fn origin(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    let is_http = matches!(url.scheme(), "http" | "https");
    is_http.then(|| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_stripped_and_all_else_stays() {
        let cases = [
            (
                "https://gitlab-ci-token:tok@h.example/g/p.git",
                "https://h.example/g/p.git",
            ),
            ("http://u:p@127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
            ("https://u:p@ss@h/x", "https://h/x"),
            ("https://H/x@y?a=b@c", "https://H/x@y?a=b@c"),
            ("https://u:p@h", "https://h"),
            ("https://u:p@h?q", "https://h?q"),
            ("ssh://git@h:22/g/p.git", "ssh://git@h:22/g/p.git"),
            ("ssh://git:pw@h/g/p.git", "ssh://git@h/g/p.git"),
            ("ssh://:pw@h/g/p.git", "ssh://h/g/p.git"),
            ("/srv/git/p.git", "/srv/git/p.git"),
            ("", ""),
        ];
        for (url, expected) in cases {
            assert_eq!(without_credentials(url), expected, "{url}");
        }
    }

    #[test]
    fn a_servers_url_follows_from_a_repositorys_over_http_only() {
        assert_eq!(
            origin("http://h:8080/g/p.git").as_deref(),
            Some("http://h:8080")
        );
        assert_eq!(origin("https://h/g/p.git").as_deref(), Some("https://h"));
        assert_eq!(origin("ssh://git@h/g/p.git"), None);
        assert_eq!(origin("/srv/git"), None);
    }
}
