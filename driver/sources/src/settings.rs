//! The configuration that git runs with, and nothing else.
//!
//! It is a file in the private folder that takes the place of the user's own; the system's is not read. It
//! names no secret. Nothing of it goes into the checkout.

use std::fmt::Write as _;
use std::time::Duration;

use url::Url;

use super::request::SshServer;

/// Settings that hold for every checkout.
///
/// - No program is run on the repository's behalf: no hooks, file system monitors or templates, no attributes
///   but the repository's own (which can only name filters that a config defines: here none does), no
///   maintenance behind the scenes.
/// - No prompt. No credential helper but ours, which [`Settings`] adds for the job's servers.
/// - Only HTTP(S), also for submodules; a redirect is followed on the first request only.
/// - The objects are not checked by `fsck`: GitLab accepts repositories that it would refuse, and what could
///   hurt (paths into `.git`, links as `.gitmodules`, options as URLs) git refuses at checkout as well.
/// - Files are written by as many workers as there are processors.
/// - Packs are kept as they come (fewer files to stream) and not synced: the folder is thrown away.
const FIXED: &str = r#"[core]
	hooksPath = /dev/null
	fsmonitor = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	askPass =
	sshCommand = false
	gitProxy = false
	fsync = none
[init]
	templateDir =
	defaultBranch = none
[protocol]
	allow = never
[protocol "http"]
	allow = always
[protocol "https"]
	allow = always
[credential]
	helper =
	interactive = never
[fetch]
	recurseSubmodules = false
	unpackLimit = 1
	writeCommitGraph = false
[submodule]
	recurse = false
	fetchJobs = 1
[transfer]
	bundleURI = false
[checkout]
	workers = 0
[gc]
	auto = 0
	autoDetach = false
[maintenance]
	auto = false
[http]
	followRedirects = initial
	lowSpeedLimit = 1
"#;

/// For a repository on this host. The user named it, so its owner does not matter. Its objects are packed for
/// this one transfer: searching for deltas would take many times as long as it saves (20,000 loose files of
/// 25 kB: 140 s with, 18 s without).
const LOCAL: &str = "[safe]
	directory = *
[pack]
	window = 0
	compression = 1
";

/// What GitLab Runner's template puts into a new repository's own config (gitlab-runner, build §3.4.1). This does
/// reach the guest.
pub(super) const TEMPLATE: &str = "[init]
	defaultBranch = none
[fetch]
	recurseSubmodules = false
[credential]
	interactive = never
[gc]
	autoDetach = false
";

/// Settings of one checkout.
#[derive(Default)]
pub(super) struct Settings<'a> {
    /// What holds for the job's servers.
    pub(super) scoped: Scoped<'a>,
    /// `User-Agent` of all requests.
    pub(super) user_agent: &'a str,
    /// How long a transfer may bring nothing.
    pub(super) stall_after: Duration,
    /// Whether the sources come from a repository on this host.
    pub(super) local: bool,
}

impl Settings<'_> {
    /// The text of the config file.
    pub(super) fn render(&self) -> String {
        let mut text = FIXED.to_owned();
        entry(&mut text, "userAgent", self.user_agent);
        // git counts whole seconds, and 0 would switch the limit off.
        let stall = self.stall_after.as_secs().max(1).to_string();
        entry(&mut text, "lowSpeedTime", &stall);
        text.push_str(&self.scoped.render());
        if self.local {
            text.push_str(LOCAL);
        }
        text
    }
}

/// Settings for the job's servers alone.
#[derive(Default)]
pub(super) struct Scoped<'a> {
    /// Where the credential helper and the headers apply: origins such as `https://gitlab.example.com`.
    pub(super) scopes: Vec<String>,
    /// The credential helper for them, in place of all others.
    pub(super) helper: Option<String>,
    /// Header for them.
    pub(super) correlation_id: Option<&'a str>,
    /// File of certificates that their TLS chains are checked with.
    pub(super) ca_file: Option<&'a str>,
    /// SSH address that HTTPS stands in for, and the URL of the server.
    pub(super) force_https: Option<(SshServer<'a>, &'a str)>,
}

impl Scoped<'_> {
    /// Sections of a config file.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for scope in &self.scopes {
            if let Some(helper) = &self.helper {
                section(&mut text, "credential", scope);
                entry(&mut text, "helper", "");
                entry(&mut text, "helper", helper);
            }
            section(&mut text, "http", scope);
            if let Some(id) = self.correlation_id {
                let header = format!("X-Gitaly-Correlation-ID: {id}");
                entry(&mut text, "extraHeader", &header);
            }
            if let Some(file) = self.ca_file {
                entry(&mut text, "sslCAInfo", file);
            }
        }
        if let Some((ssh, base)) = self.force_https {
            instead_of(&mut text, ssh, base);
        }
        text
    }
}

/// Rows of gitlab-runner, build §3.6, without a token in the URL.
fn instead_of(text: &mut String, ssh: SshServer<'_>, base: &str) {
    let base = base.trim_end_matches('/');
    let SshServer { host, port } = ssh;
    if port == 22 {
        section(text, "url", &format!("{base}/"));
        entry(text, "insteadOf", &format!("git@{host}:"));
        section(text, "url", base);
        entry(text, "insteadOf", &format!("ssh://git@{host}"));
    } else {
        section(text, "url", base);
        entry(text, "insteadOf", &format!("ssh://git@{host}:{port}"));
    }
}

/// The origins of those of `urls` that are HTTP(S).
pub(super) fn scopes(urls: &[&str]) -> Vec<String> {
    let mut scopes: Vec<String> = urls
        .iter()
        .filter_map(|url| origin(&Url::parse(url).ok()?))
        .collect();
    scopes.dedup();
    scopes
}

/// The part of an HTTP(S) URL that git compares for credentials: scheme, host and port.
fn origin(url: &Url) -> Option<String> {
    let http = matches!(url.scheme(), "http" | "https");
    http.then(|| url.origin().ascii_serialization())
}

fn section(text: &mut String, name: &str, subsection: &str) {
    let subsection = escape(subsection);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "[{name} \"{subsection}\"]");
}

fn entry(text: &mut String, key: &str, value: &str) {
    let value = escape(value);
    let _ = writeln!(text, "\t{key} = \"{value}\"");
}

/// Escapes for a quoted string of git's config syntax. Control characters, which have no place in any of our
/// values, are left out.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars().filter(|character| !character.is_control()) {
        if matches!(character, '"' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn read_back(settings: &Settings<'_>, key: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), settings.render()).unwrap();
        let output = Command::new("git")
            .args(["config", "--get-all", "--file"])
            .arg(file.path())
            .arg(key)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn settings() -> Settings<'static> {
        Settings {
            scoped: scoped(),
            user_agent: "vk \"1\" \\ ; # x",
            stall_after: Duration::from_secs(7),
            local: false,
        }
    }

    fn scoped() -> Scoped<'static> {
        Scoped {
            scopes: vec!["https://gitlab.example.com:8443".to_owned()],
            ..Scoped::default()
        }
    }

    #[test]
    fn git_reads_every_value_as_it_was_meant() {
        let helper = "!f() { test \"$1\" != get || cat /proc/1/fd/2; }; f";
        let settings = Settings {
            scoped: Scoped {
                helper: Some(helper.to_owned()),
                correlation_id: Some("01CORR"),
                ..scoped()
            },
            ..settings()
        };

        assert_eq!(read_back(&settings, "http.userAgent"), "vk \"1\" \\ ; # x");
        assert_eq!(read_back(&settings, "http.lowSpeedTime"), "7");
        assert_eq!(
            read_back(
                &settings,
                "credential.https://gitlab.example.com:8443.helper"
            ),
            helper
        );
        assert_eq!(
            read_back(
                &settings,
                "http.https://gitlab.example.com:8443.extraHeader"
            ),
            "X-Gitaly-Correlation-ID: 01CORR"
        );
        assert_eq!(read_back(&settings, "core.hooksPath"), "/dev/null");
    }

    #[test]
    fn a_line_break_cannot_add_a_setting() {
        let settings = Settings {
            scoped: Scoped {
                correlation_id: Some("x\"\n[core]\n\tfsmonitor = evil\n"),
                ..scoped()
            },
            ..settings()
        };

        assert_eq!(read_back(&settings, "core.fsmonitor"), "false");
    }

    /// gitlab-runner, build §3.6.
    #[test]
    fn ssh_urls_of_the_server_are_fetched_over_https() {
        let ssh = |port| SshServer {
            host: "gitlab.example.com",
            port,
        };
        let with = |port| Settings {
            scoped: Scoped {
                force_https: Some((ssh(port), "https://gitlab.example.com/")),
                ..scoped()
            },
            ..settings()
        };

        assert_eq!(
            read_back(&with(22), "url.https://gitlab.example.com/.insteadOf"),
            "git@gitlab.example.com:"
        );
        assert_eq!(
            read_back(&with(2222), "url.https://gitlab.example.com.insteadOf"),
            "ssh://git@gitlab.example.com:2222"
        );
    }

    #[test]
    fn an_origin_has_no_path_and_no_default_port() {
        let origin_of = |url: &str| origin(&Url::parse(url).unwrap());

        assert_eq!(
            origin_of("https://gitlab.example.com:443/a/b.git").as_deref(),
            Some("https://gitlab.example.com")
        );
        assert_eq!(
            origin_of("http://[::1]:8080/x").as_deref(),
            Some("http://[::1]:8080")
        );
        assert_eq!(origin_of("ssh://git@h/x"), None);
    }
}
