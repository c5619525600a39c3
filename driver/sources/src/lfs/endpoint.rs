//! Where a repository's LFS objects come from (git-lfs, `docs/api/server-discovery.md`).

use std::path::Path;

use url::Url;

use crate::error::CheckoutError;
use crate::git::{Git, GitCommand};

/// A repository's own settings for git-lfs.
const FILE: &str = ".lfsconfig";

/// What a commit says of its LFS objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// URL of the LFS server; `None` when there is none.
    pub(super) url: Option<String>,
    /// Whether the repository wants only a part of its files (`lfs.fetchinclude`, `lfs.fetchexclude`).
    pub(super) is_partial: bool,
}

impl Endpoint {
    /// Reads `.lfsconfig` of the commit `sha`; `remote` is the repository's own URL.
    ///
    /// The file is read from the commit, never from the work tree, where it could be a link.
    ///
    /// # Errors
    ///
    /// When it names what vk does not speak.
    pub(super) async fn of(
        git: &mut Git<'_>,
        folder: &Path,
        sha: &str,
        remote: Option<&str>,
    ) -> Result<Self, CheckoutError> {
        let blob = format!("{sha}:{FILE}");
        let look = GitCommand::new("rev-parse")
            .args(["--verify", "--quiet", &blob])
            .directory(folder);
        let (ended, _) = git.answer(look).await?;
        if ended.exit_code != 0 {
            return Self::from_settings(&[], remote);
        }
        let list = GitCommand::new("config")
            .args(["--blob", &blob, "--null", "--list", "--no-includes"])
            .directory(folder);
        let (ended, settings) = git.answer(list).await?;
        if ended.exit_code != 0 {
            return Err(CheckoutError::RefusedLfs {
                setting: FILE.to_owned(),
                value: String::new(),
                why: "cannot be read as a config file",
            });
        }
        Self::from_settings(&settings, remote)
    }

    /// `settings` as `git config --null --list` prints them; the last of a name counts.
    fn from_settings(settings: &[u8], remote: Option<&str>) -> Result<Self, CheckoutError> {
        let value = |wanted: &str| {
            let mut entries = settings.split(|&byte| byte == 0).rev();
            entries.find_map(|entry| {
                let entry = std::str::from_utf8(entry).ok()?;
                let (name, value) = entry.split_once('\n')?;
                (name == wanted && !value.is_empty()).then_some(value)
            })
        };
        let named = ["lfs.url", "remote.origin.lfsurl"]
            .into_iter()
            .find_map(|name| Some((name, value(name)?)));
        let url = match (named, remote) {
            (Some((name, url)), _) => Some(checked(name, url)?),
            (None, Some(remote)) => Some(checked("remote.origin.url", &beside(remote))?),
            (None, None) => None,
        };
        let is_partial = value("lfs.fetchinclude").is_some() || value("lfs.fetchexclude").is_some();
        Ok(Self { url, is_partial })
    }
}

/// The URL that a submodule was cloned from.
pub(super) async fn remote(git: &mut Git<'_>, folder: &Path) -> Result<String, CheckoutError> {
    let ask = GitCommand::new("remote")
        .args(["get-url", "origin"])
        .directory(folder);
    let (_, url) = git.answer(ask).await?;
    Ok(String::from_utf8_lossy(&url).trim_end().to_owned())
}

/// The LFS server of a repository that names none.
fn beside(remote: &str) -> String {
    let remote = remote.trim_end_matches('/');
    let suffix = if remote.ends_with(".git") { "" } else { ".git" };
    format!("{remote}{suffix}/info/lfs")
}

/// Only HTTP(S): git-lfs would also start `ssh`, and read folders of this host.
fn checked(setting: &'static str, url: &str) -> Result<String, CheckoutError> {
    let is_odd = url.contains(|c: char| c.is_control() || c.is_whitespace());
    let is_http =
        Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_odd || !is_http {
        return Err(CheckoutError::RefusedLfs {
            setting: format!("{FILE}: {setting}"),
            value: url.chars().take(100).collect(),
            why: "is not an http:// or https:// URL",
        });
    }
    Ok(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: Option<&str> = Some("https://gitlab.example.com/g/p.git");

    fn url(settings: &str) -> Option<String> {
        let settings = settings.replace('=', "\n").replace(';', "\0");
        Endpoint::from_settings(settings.as_bytes(), REMOTE)
            .unwrap()
            .url
    }

    #[test]
    fn the_server_is_the_repository_s_own_unless_it_names_another() {
        let own = "https://gitlab.example.com/g/p.git/info/lfs";
        assert_eq!(url("").as_deref(), Some(own));
        assert_eq!(url("lfs.url=;").as_deref(), Some(own));
        assert_eq!(
            url("remote.origin.lfsurl=https://o.example/x;lfs.url=https://a.example/x;").as_deref(),
            Some("https://a.example/x")
        );
        assert_eq!(
            url("lfs.url=https://a.example/x;lfs.url=https://b.example/x;").as_deref(),
            Some("https://b.example/x")
        );
        assert_eq!(
            url("remote.origin.lfsurl=http://o.example/x;").as_deref(),
            Some("http://o.example/x")
        );
        assert_eq!(beside("https://h/g/p"), "https://h/g/p.git/info/lfs");
        assert_eq!(beside("https://h/g/p.git/"), "https://h/g/p.git/info/lfs");
    }

    #[test]
    fn a_server_that_is_not_http_is_refused() {
        for url in [
            "ssh://git@h/x",
            "git@h:x.git",
            "file:///etc",
            "/etc",
            "git://h/x",
            "ext::sh -c x",
            "https://h/ x",
            "-oProxyCommand=x",
        ] {
            let settings = format!("lfs.url\n{url}\0");
            let error = Endpoint::from_settings(settings.as_bytes(), REMOTE).unwrap_err();
            assert!(error.to_string().contains("lfs.url"), "{error}");
        }
    }

    #[test]
    fn a_repository_may_want_a_part_of_its_files() {
        for (settings, expected) in [
            ("lfs.fetchexclude\n*\0", true),
            ("lfs.fetchinclude\na\0", true),
            ("lfs.fetchexclude\n\0", false),
            ("", false),
        ] {
            let endpoint = Endpoint::from_settings(settings.as_bytes(), REMOTE).unwrap();
            assert_eq!(endpoint.is_partial, expected, "{settings:?}");
        }
    }
}
