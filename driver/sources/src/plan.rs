//! What will be fetched: the job's sources, checked.

use url::Url;
use vk_hub_proto::job::Sources;

use super::error::CheckoutError;

/// Checked sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// What `origin` is; `None` when only a local repository was named.
    pub(super) origin: Option<Origin>,
    /// `sha1` or `sha256`.
    pub(super) object_format: ObjectFormat,
    /// The commit in hex; `None` for a local repository's `HEAD`.
    pub(super) sha: Option<String>,
    /// Name of the ref, for people.
    pub(super) git_ref: String,
    /// What to fetch: none of them looks like an option.
    pub(super) refspecs: Vec<String>,
    /// Commits of history to fetch; 0 for all.
    pub(super) depth: u32,
}

/// The remote repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The URL as the job has it, without user and password.
    pub(super) text: String,
    /// The same, parsed. Its scheme is `http` or `https`.
    pub(super) url: Url,
}

/// Hash of a repository's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            // What GitLab sends for an old repository.
            "" | "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    fn hex_digits(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        }
    }
}

impl Plan {
    /// Checks `sources`. With a local repository, the URL, the commit and the ref may be left out.
    pub(super) fn new(sources: &Sources, local: bool) -> Result<Self, CheckoutError> {
        let object_format = ObjectFormat::parse(&sources.object_format).ok_or_else(|| {
            bad(
                "repo_object_format",
                &sources.object_format,
                "is not known: it must be `sha1` or `sha256`",
            )
        })?;
        for refspec in &sources.refspecs {
            check_refspec(refspec)?;
        }
        Ok(Self {
            origin: origin(&sources.repo_url, local)?,
            object_format,
            sha: sha(&sources.sha, object_format, local)?,
            git_ref: printable(&sources.git_ref),
            refspecs: sources.refspecs.clone(),
            depth: sources.depth,
        })
    }
}

fn origin(repo_url: &str, local: bool) -> Result<Option<Origin>, CheckoutError> {
    if local && repo_url.is_empty() {
        return Ok(None);
    }
    let refuse = |why| bad("repo_url", &without_userinfo(repo_url), why);
    // `Url` would take white space out, git would not.
    if repo_url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(refuse("has white space or control characters in it"));
    }
    let mut url = Url::parse(repo_url).map_err(|_| refuse("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refuse("is not an http:// or https:// URL with a host"));
    }
    let mut text = repo_url.to_owned();
    if !url.username().is_empty() || url.password().is_some() {
        // Cannot fail: the URL has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.to_string().clone_into(&mut text);
    }
    Ok(Some(Origin { text, url }))
}

fn sha(
    sha: &str,
    object_format: ObjectFormat,
    local: bool,
) -> Result<Option<String>, CheckoutError> {
    if local && sha.is_empty() {
        return Ok(None);
    }
    if sha.len() != object_format.hex_digits() || !sha.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        let why = match object_format {
            ObjectFormat::Sha1 => "is not a commit's full hash of 40 hex digits",
            ObjectFormat::Sha256 => "is not a commit's full hash of 64 hex digits",
        };
        return Err(bad("sha", sha, why));
    }
    Ok(Some(sha.to_owned()))
}

/// git checks the rest; it must only not take one for something else.
fn check_refspec(refspec: &str) -> Result<(), CheckoutError> {
    let odd = |c: char| c.is_control() || c.is_whitespace();
    if refspec.is_empty() || refspec.starts_with('-') || refspec.contains(odd) {
        return Err(bad("refspecs", refspec, "is not a refspec"));
    }
    Ok(())
}

pub(super) fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "?")
}

/// For error messages: neither a password nor a page of text.
fn without_userinfo(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

fn bad(field: &'static str, value: &str, why: &'static str) -> CheckoutError {
    CheckoutError::BadSources {
        field,
        value: value.chars().take(100).collect(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "5fd525374cdb44f81d5accdb9e299d5bafe898ab";

    fn sources() -> Sources {
        Sources {
            repo_url: "https://gitlab.example.com/acme/web.git".into(),
            git_ref: "main".into(),
            sha: SHA.into(),
            refspecs: vec!["+refs/heads/main:refs/remotes/origin/main".into()],
            depth: 20,
            ..Sources::default()
        }
    }

    fn error(sources: &Sources) -> String {
        Plan::new(sources, false).unwrap_err().to_string()
    }

    #[test]
    fn plain_sources_pass_unchanged() {
        let plan = Plan::new(&sources(), false).unwrap();

        assert_eq!(plan.sha.as_deref(), Some(SHA));
        assert_eq!(plan.object_format, ObjectFormat::Sha1);
        assert_eq!(
            plan.origin.unwrap().text,
            "https://gitlab.example.com/acme/web.git"
        );
    }

    #[test]
    fn a_sha_that_is_no_full_hash_is_refused() {
        for sha in [
            "",
            "5fd52537",
            "--upload-pack=x",
            &SHA[1..],
            &format!("{SHA}0"),
        ] {
            let odd = Sources {
                sha: sha.into(),
                ..sources()
            };
            assert!(error(&odd).contains("git_info.sha"), "{sha}");
        }
        let mut digits = SHA.to_owned();
        digits.replace_range(0..1, "g");
        let odd = Sources {
            sha: digits,
            ..sources()
        };
        assert!(error(&odd).contains("hex"));
    }

    #[test]
    fn a_sha256_repository_wants_64_digits() {
        let format = |sha: String| Sources {
            object_format: "sha256".into(),
            sha,
            ..sources()
        };

        assert!(Plan::new(&format("a".repeat(64)), false).is_ok());
        assert!(Plan::new(&format(SHA.into()), false).is_err());
    }

    #[test]
    fn a_local_repository_needs_neither_url_nor_sha() {
        let plan = Plan::new(&Sources::default(), true).unwrap();

        assert_eq!(plan.origin, None);
        assert_eq!(plan.sha, None);
    }

    #[test]
    fn urls_that_are_not_http_are_refused() {
        for url in [
            "",
            "ssh://git@h/x.git",
            "git@h:x.git",
            "ext::sh -c x",
            "file:///etc",
            "/etc",
            "--upload-pack=x",
            "https://h/\nx",
            "https:///x",
        ] {
            let odd = Sources {
                repo_url: url.into(),
                ..sources()
            };
            // `https:///x` names the host x.
            let is_fine = url == "https:///x";
            assert_eq!(Plan::new(&odd, false).is_ok(), is_fine, "{url}");
        }
    }

    #[test]
    fn credentials_in_the_url_go_nowhere() {
        let with_token = Sources {
            repo_url: "https://u:s3cr3t@h.example/a.git".into(),
            ..sources()
        };
        let plan = Plan::new(&with_token, false).unwrap();
        assert_eq!(plan.origin.unwrap().text, "https://h.example/a.git");

        let refused = Sources {
            repo_url: "ssh://u:s3cr3t@h.example/a.git".into(),
            ..sources()
        };
        assert!(!error(&refused).contains("s3cr3t"));
    }

    #[test]
    fn a_refspec_that_looks_like_an_option_is_refused() {
        let odd = Sources {
            refspecs: vec!["--upload-pack=touch".into()],
            ..sources()
        };

        assert!(error(&odd).contains("refspecs"));
    }
}
